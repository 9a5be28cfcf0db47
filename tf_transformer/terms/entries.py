"""The input `terms`: entries of a source phrase and a target phrase, as part of a graph.

An entry is a line, `source phrase<TAB>target phrase`. It applies to a row if its source phrase
occurs in the row's source as whole words; an empty source phrase always occurs. Words are runs of
letters, digits and marks; other characters, and letters of scripts without spaces between words,
are words of their own, so that Chinese phrases are found anywhere. White space only separates
words. Case counts.
"""

from typing import NamedTuple

import tensorflow as tf
import tensorflow_text as tf_text

from tf_transformer.terms.limits import MAX_ENTRIES, MAX_PHRASE_BYTES, MAX_SOURCE_WORDS
from tf_transformer.text.word_characters import UNSPACED_CLASS, WORD_CLASS

_CHARACTERS = 32  # of a source that are searched for phrases, by piece that the model reads
_WHITE_SPACE = r"[\s\p{Z}]+"
_SINGLE = rf"([{UNSPACED_CLASS}]|[^{WORD_CLASS} ])"
# So many that two words of a phrase and a source practically never have the same number.
_NUM_HASHES = 2**62


class Entries(NamedTuple):
    """The entries of all rows.

    Attributes:
        row: `(entries,)` int32, the row of each entry.
        source: `(entries,)` strings, source phrases.
        target: `(entries,)` strings, target phrases.
        num_ignored: `(rows,)` int32, number of lines that are no entries, or too many or too long.
    """

    row: tf.Tensor
    source: tf.Tensor
    target: tf.Tensor
    num_ignored: tf.Tensor


def squeeze(text: tf.Tensor) -> tf.Tensor:
    """Returns strings with single spaces as their white space, and none at their ends."""
    return tf.strings.strip(tf.strings.regex_replace(text, _WHITE_SPACE, " "))


def valid_text(text: tf.Tensor) -> tf.Tensor:
    """Returns strings with invalid UTF-8 replaced by U+FFFD."""
    return tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")


def searched_part(text: tf.Tensor, source_limit: int) -> tf.Tensor:
    """Returns the beginnings of sources: what is far beyond the model's limit has no phrases.

    Args:
        text: strings.
        source_limit: the largest number of pieces that the model reads.
    """
    return tf.strings.substr(valid_text(text), 0, _CHARACTERS * source_limit, "UTF8_CHAR")


def parse_entries(terms: tf.Tensor, max_entries: int = MAX_ENTRIES) -> Entries:
    """Parses the input `terms`.

    Args:
        terms: `(rows,)` strings. Blank lines are skipped; lines without exactly one tab, without a
            target phrase, or with a phrase of more than `MAX_PHRASE_BYTES` are ignored, and all
            after the first `max_entries`.
        max_entries: that of a row.
    """
    lines = tf.strings.split(valid_text(terms), "\n")
    lines = tf.ragged.boolean_mask(lines, tf.strings.strip(lines) != "")
    num_lines = tf.cast(lines.row_lengths(), tf.int32)
    lines = lines[:, :max_entries]
    row = tf.cast(lines.value_rowids(), tf.int32)
    fields = tf.strings.split(lines.flat_values, "\t")
    columns = fields.to_tensor("", shape=(None, 2))
    source, target = squeeze(columns[:, 0]), squeeze(columns[:, 1])
    longest = tf.maximum(tf.strings.length(source), tf.strings.length(target))
    is_valid = (fields.row_lengths() == 2) & (target != "") & (longest <= MAX_PHRASE_BYTES)
    kept = tf.where(is_valid)[:, 0]
    row = tf.gather(row, kept)
    num_valid = tf.math.unsorted_segment_sum(tf.ones_like(row), row, tf.size(num_lines))
    return Entries(row, tf.gather(source, kept), tf.gather(target, kept), num_lines - num_valid)


def applicable_phrases(entries: Entries, text: tf.Tensor) -> tf.RaggedTensor:
    """Returns the target phrases of the entries that apply.

    Args:
        entries: the entries.
        text: `(rows,)` strings, the sources.

    Returns:
        `(rows, (phrases))` strings, in the order of the entries.
    """
    words = hashed_words(text)[:, :MAX_SOURCE_WORDS].to_tensor(-1)
    phrases = hashed_words(entries.source).to_tensor(-1)
    applies = tf.where(occur(tf.gather(words, entries.row), phrases))[:, 0]
    return tf.RaggedTensor.from_value_rowids(
        tf.gather(entries.target, applies),
        tf.cast(tf.gather(entries.row, applies), tf.int64),
        nrows=tf.size(entries.num_ignored, tf.int64),
    )


def occur(words: tf.Tensor, phrases: tf.Tensor) -> tf.Tensor:
    """Returns whether phrases occur in texts, `(phrases,)` bool; one of no words always does.

    Args:
        words: int64, the words of each phrase's text, `(phrases, words)`, or of one for all,
            `(1, words)`; padded with -1.
        phrases: `(phrases, longest)` int64, their words, padded with -1.
    """
    lengths = tf.math.count_nonzero(phrases >= 0, axis=1, dtype=tf.int32)[:, tf.newaxis]
    num_words = tf.shape(words)[1]
    # The window of a phrase may exceed the source.
    words = tf.pad(words, [[0, 0], [0, tf.shape(phrases)[1] + 1]], constant_values=-1)

    def compare(index, is_same):
        """Keeps the places where the phrase's word of an index stands."""
        window = words[:, index : index + num_words + 1]
        same = (window == phrases[:, index, tf.newaxis]) | (index >= lengths)
        return index + 1, is_same & same

    _, is_same = tf.while_loop(
        lambda index, _: index < tf.shape(phrases)[1],
        compare,
        (tf.constant(0), tf.fill((tf.shape(phrases)[0], num_words + 1), True)),
    )
    return tf.reduce_any(is_same, axis=1)


def hashed_words(text: tf.Tensor) -> tf.RaggedTensor:
    """Returns the words of texts, hashed, `(texts, (words))` int64."""
    text = tf_text.normalize_utf8(valid_text(text), "NFC")
    text = tf.strings.regex_replace(squeeze(text), _SINGLE, r" \1 ")
    return tf.ragged.map_flat_values(
        tf.strings.to_hash_bucket_fast, tf.strings.split(text), _NUM_HASHES
    )

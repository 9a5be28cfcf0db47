"""Sentences of documents, found in the graph by the rules of `sentence_rules`.

The document is split at the places that the rules mark. (Cutting substrings out of it would copy it
for each of them.)
"""

from collections.abc import Iterable
from typing import NamedTuple

import tensorflow as tf

from tf_transformer.documents.abbreviations import LANGUAGES
from tf_transformer.documents.sentence_rules import MARK, SPACE, sentence_rules


class Sentences(NamedTuple):
    """The sentences of documents, ragged `(batch, (sentences))` each.

    A document is the concatenation of `space`, `text` and `trailing` of all its sentences, except
    that the control characters U+0001 to U+0005 have become U+0006.

    Attributes:
        space: strings, the white space before a sentence; empty except for the first.
        text: strings, the sentences, without white space around them. Blank documents have one
            empty sentence, empty ones none.
        trailing: strings, the white space after a sentence.
        start: int32, position of the first character, counted in characters of the document.
        end: int32, position after the last character.
    """

    space: tf.RaggedTensor
    text: tf.RaggedTensor
    trailing: tf.RaggedTensor
    start: tf.RaggedTensor
    end: tf.RaggedTensor


def split_sentences(documents: tf.Tensor, languages: Iterable[str] = LANGUAGES) -> Sentences:
    """Splits documents into sentences.

    Args:
        documents: `(batch,)` strings in valid UTF-8.
        languages: whose abbreviations are known, see `find_abbreviations`.

    Raises:
        InputError: a language is no code of a language.
    """
    marked = documents
    for pattern, replacement, condition in sentence_rules(languages):
        replaced = tf.strings.regex_replace(marked, pattern, replacement)
        if condition:
            applies = tf.strings.regex_full_match(marked, f"(?s).*(?:{condition}).*")
            replaced = tf.where(applies, replaced, marked)
        marked = replaced
    pieces = tf.strings.split(marked, MARK)
    return _strip(tf.ragged.boolean_mask(pieces, pieces != ""))


def _strip(pieces):
    """Separates white space from pieces of documents, ragged `(batch, (sentences))`."""
    own = pieces.flat_values
    left = tf.strings.regex_replace(own, rf"\A[{SPACE}]+", "")
    text = tf.strings.regex_replace(left, rf"[{SPACE}]+\z", "")
    num_space = tf.strings.length(own) - tf.strings.length(left)
    num_text = tf.strings.length(text)
    space = tf.strings.substr(own, tf.zeros_like(num_space), num_space)
    trailing = tf.strings.substr(left, num_text, tf.strings.length(left) - num_text)
    start = row_offsets(pieces.with_flat_values(tf.strings.length(own, unit="UTF8_CHAR")))
    start += tf.strings.length(space, unit="UTF8_CHAR")
    end = start + tf.strings.length(text, unit="UTF8_CHAR")
    return Sentences(*map(pieces.with_flat_values, (space, text, trailing, start, end)))


def row_offsets(lengths: tf.RaggedTensor) -> tf.Tensor:
    """Returns where the parts of rows start, if they follow each other.

    Args:
        lengths: int32, ragged `(batch, (parts))`.

    Returns:
        int32, flat: 0 for the first part of a row.
    """
    ends = tf.concat([[0], tf.cumsum(lengths.flat_values)], axis=0)
    return ends[:-1] - tf.gather(tf.gather(ends, lengths.row_starts()), lengths.value_rowids())

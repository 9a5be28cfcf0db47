"""Target phrases as the constraints of a search: their spellings as token ids."""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from tf_transformer.terms.constraints import Constraints
from tf_transformer.terms.limits import MAX_PHRASE_TOKENS, MAX_PHRASES
from tf_transformer.text.sentencepiece_model_pb2 import ModelProto
from tf_transformer.text.special_ids import PAD_ID, SUPPRESSED_IDS
from tf_transformer.text.tokenizer import Tokenizer
from tf_transformer.text.word_characters import CONNECTORS, UNSPACED_CLASS, WORD_CLASS

# Of a row, before equal ones are merged.
_MAX_GIVEN = 4 * MAX_PHRASES


class WantedPhrases(NamedTuple):
    """The distinct phrases of each row.

    Attributes:
        text: `(rows, phrases)` strings; "" is padding, of at least one column.
        count: `(rows, phrases)` int32, how often each must occur.
        is_span: `(rows, phrases)` bool, whether it is a span of the source.
        num_ignored: `(rows,)` int32, number of phrases beyond `MAX_PHRASES`.
    """

    text: tf.Tensor
    count: tf.Tensor
    is_span: tf.Tensor
    num_ignored: tf.Tensor


def merge_phrases(terms: tf.RaggedTensor, spans: tf.RaggedTensor) -> WantedPhrases:
    """Merges equal phrases: a term must occur once, a span as often as in the source.

    Args:
        terms: `(rows, (terms))` strings.
        spans: `(rows, (spans))` strings.
    """
    is_span = tf.concat([tf.zeros_like(terms, tf.int32), tf.ones_like(spans, tf.int32)], axis=1)
    given = tf.concat([terms, spans], axis=1)
    num_given = tf.cast(given.row_lengths(), tf.int32)
    text = given[:, :_MAX_GIVEN].to_tensor("")
    is_span = is_span[:, :_MAX_GIVEN].to_tensor(0)
    is_same = text[:, :, tf.newaxis] == text[:, tf.newaxis]
    order = tf.range(tf.shape(text)[1])
    is_repeated = tf.reduce_any(is_same & (order < order[:, tf.newaxis]), axis=2)
    num_spans = tf.reduce_sum(tf.where(is_same, is_span[:, tf.newaxis], 0), axis=2)
    is_distinct = ~is_repeated & (text != "")
    columns = [
        tf.ragged.boolean_mask(x, is_distinct)
        for x in (text, tf.maximum(num_spans, 1), num_spans > 0)
    ]
    num_distinct = tf.cast(columns[0].row_lengths(), tf.int32)
    padded = [
        tf.pad(x[:, :MAX_PHRASES].to_tensor(pad), [[0, 0], [0, 1]], constant_values=pad)
        for x, pad in zip(columns, ("", 0, False), strict=True)
    ]
    num_ignored = tf.maximum(num_given - _MAX_GIVEN, 0) + tf.maximum(num_distinct - MAX_PHRASES, 0)
    text, count, is_span = padded
    return WantedPhrases(text, count, is_span, num_ignored)


class PhraseSpeller(tf.Module):
    """Finds the spellings of phrases.

    A phrase is spelled as at the begin of a word, with SentencePiece's symbol for a space, and as
    it is in the middle of a text without spaces. The second spelling may stand after anything but
    a letter or digit, or after any character if the phrase begins with none of those.

    Args:
        tokenizer: the tokenizer of the target language.
        end_ids: ids that end an output, which a phrase must not contain.
    """

    def __init__(self, tokenizer: Tokenizer, end_ids: Sequence[int]):
        super().__init__(name="phrase_speller")
        self.tokenizer = tokenizer
        self._forbidden = sorted({*SUPPRESSED_IDS, *end_ids} - {PAD_ID})
        self._spaces = [" ", ""] if tokenizer.is_byte_level else ["", ""]
        self.tokenizers = [_with_dummy_prefix(tokenizer, value) for value in (True, False)]

    def constraints(self, wanted: WantedPhrases) -> tuple[Constraints, tf.Tensor]:
        """Returns the constraints of a search.

        Args:
            wanted: the phrases.

        Returns:
            The constraints, and `(rows, phrases)` bool, whether the vocabulary can write a phrase:
            text of its ids is equal to the phrase, and they are at most `MAX_PHRASE_TOKENS`.
        """
        shape = tf.shape(wanted.text)
        flat = tf.reshape(wanted.text, (-1,))
        spellings = [
            self._spell(tokenizer, tf.where(flat == "", flat, space + flat))
            for tokenizer, space in zip(self.tokenizers, self._spaces, strict=True)
        ]
        longest = tf.maximum(*(tf.shape(ids)[1] for ids in spellings))
        ids = tf.stack(
            [tf.pad(ids, [[0, 0], [0, longest - tf.shape(ids)[1]]]) for ids in spellings], axis=1
        )
        ids = tf.reshape(ids, (shape[0], shape[1], len(spellings), longest))
        first = tf.gather(self._begins_word(), ids[..., 0])
        starts_in_word = first | ~_matches(wanted.text, f"[{WORD_CLASS}].*")[..., tf.newaxis]
        is_writable = tf.reduce_any(ids[..., 0] > 0, axis=2)
        constraints = Constraints(
            ids=ids,
            needed=tf.where(is_writable, wanted.count, 0),
            starts_in_word=starts_in_word,
            is_closed=wanted.is_span
            & (
                _matches(wanted.text, f".*[{WORD_CLASS}]")
                | tf.strings.regex_full_match(wanted.text, f"(?s).*[{CONNECTORS}]")
            ),
        )
        return constraints, is_writable

    def _spell(self, tokenizer, text):
        """Returns ids, `(texts, length)` padded with 0, of at least one column; 0 if impossible."""
        ragged = tokenizer.tokenize(text)
        ids = tf.pad(ragged[:, :MAX_PHRASE_TOKENS].to_tensor(0), [[0, 0], [0, 1]])
        is_known = tf.reduce_all(
            tf.reduce_all(ids[..., tf.newaxis] != self._forbidden, axis=2), axis=1
        )
        is_known &= ragged.row_lengths() <= MAX_PHRASE_TOKENS
        is_known &= self.tokenizer.detokenize(ids) == text
        return tf.where(is_known[:, tf.newaxis], ids, 0)

    def _begins_word(self):
        return tf.constant(self.tokenizer.begins_word)


def _matches(text, pattern):
    """Whether texts match, with a letter or digit of a script that separates words."""
    unspaced = pattern.replace(WORD_CLASS, UNSPACED_CLASS)
    match = tf.strings.regex_full_match
    return match(text, f"(?s){pattern}") & ~match(text, f"(?s){unspaced}")


def _with_dummy_prefix(tokenizer: Tokenizer, value: bool) -> Tokenizer:
    """Returns a tokenizer that puts a space before a text, or does not; none does before bytes."""
    if tokenizer.is_byte_level:
        return tokenizer
    model = ModelProto.FromString(tokenizer.model)
    if model.normalizer_spec.add_dummy_prefix == value:
        return tokenizer
    model.normalizer_spec.add_dummy_prefix = value
    return Tokenizer(model.SerializeToString())

"""Words of a text as TensorFlow ops, for vocabularies that are not segmented further."""

import tensorflow as tf

from tf_transformer.text.special_ids import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID
from tf_transformer.text.vocabulary import WORD_BEGIN

# As SentencePiece shows unknown pieces.
_UNKNOWN = "\u2047"


def split_words(text: tf.Tensor, separators: str) -> tf.RaggedTensor:
    """Splits texts into words.

    Args:
        text: `(batch,)` strings. Invalid UTF-8 is replaced by U+FFFD.
        separators: the characters that separate words.

    Returns:
        The pieces of the words, strings, ragged `(batch, (length))`.
    """
    text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")
    words = tf.strings.split(tf.strings.regex_replace(text, f"[{separators}]", " "), " ")
    words = tf.ragged.boolean_mask(words, words != "")
    return words.with_flat_values(WORD_BEGIN + words.flat_values)


def join_words(pieces: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Joins words with spaces between them, without the special ones.

    Args:
        pieces: pieces of the words, `(batch, length)` strings.
        ids: their ids, of the same shape.

    Returns:
        `(batch,)` strings.
    """
    words = tf.where(
        ids == UNKNOWN_ID, _UNKNOWN, tf.strings.regex_replace(pieces, f"^{WORD_BEGIN}", "")
    )
    is_word = (ids != PAD_ID) & (ids != BEGIN_ID) & (ids != END_ID)
    return tf.strings.reduce_join(tf.ragged.boolean_mask(words, is_word), axis=1, separator=" ")

"""The word that each piece of a text belongs to.

A piece belongs to the same word as the piece before it, unless it begins with SentencePiece's
symbol for a space. So words are the same for any segmentation of a text, such as the random ones of
`data.subword_dropout`. They are those that white space separates in the text, except where
SentencePiece's normalization makes spaces of other characters, or of a single one: the number of
words then differs, which tells such a text apart.
"""

import tensorflow as tf

from tf_transformer.text.vocabulary import WORD_SEPARATORS, Vocabulary
from tf_transformer.text.words import split_words


def word_indices(ids: tf.RaggedTensor, vocabulary: Vocabulary) -> tf.RaggedTensor:
    """Returns the index of each piece's word.

    Args:
        ids: ids of pieces without begin and end ids, ragged `(batch, (length))`.
        vocabulary: their vocabulary.

    Returns:
        int32, ragged as `ids`, counted from 0. `Vocabulary.begin_ids` belong to no word: -1.
    """
    begins = tf.gather(tf.constant(vocabulary.begins_word), ids.flat_values)
    if not vocabulary.begin_ids:
        return number_words(ids.with_flat_values(begins))
    is_outside = ids.flat_values == vocabulary.begin_ids[0]
    begins |= ~is_outside & tf.concat([[False], is_outside[:-1]], axis=0)
    return number_words(ids.with_flat_values(begins)) - 1


def number_words(begins: tf.RaggedTensor) -> tf.RaggedTensor:
    """Returns the index of each piece's word.

    Args:
        begins: whether each piece begins a word, bool, ragged `(batch, (length))`. The first piece
            of a row always does, also if the vocabulary has no space before a text.

    Returns:
        int32, ragged as `begins`, counted from 0.
    """
    rows, starts = begins.value_rowids(), begins.row_starts()
    is_first = tf.equal(tf.gather(starts, rows), tf.range(tf.size(rows, tf.int64)))
    numbers = tf.cumsum(tf.cast(is_first | begins.flat_values, tf.int32))
    before_row = tf.gather(tf.concat([[0], numbers], axis=0), starts)
    return begins.with_flat_values(numbers - 1 - tf.gather(before_row, rows))


def group_by_word(values: tf.RaggedTensor, words: tf.RaggedTensor) -> tf.RaggedTensor:
    """Groups values of pieces by the words that the pieces belong to.

    Args:
        values: a value of each piece, ragged `(batch, (length))`.
        words: the words of the pieces, see `word_indices`, ragged as `values`.

    Returns:
        Ragged `(batch, (words), (pieces))`; a reduction over the last axis gives values of words.
    """
    rows, indices = words.value_rowids(), words.flat_values
    begins = (rows[1:] != rows[:-1]) | (indices[1:] != indices[:-1])
    begins = tf.concat([tf.ones_like(rows[:1], tf.bool), begins], axis=0)
    row_of_word = tf.boolean_mask(rows, begins)
    pieces = tf.RaggedTensor.from_value_rowids(
        values.flat_values,
        tf.cumsum(tf.cast(begins, tf.int64)) - 1,
        nrows=tf.size(row_of_word, tf.int64),
    )
    return tf.RaggedTensor.from_value_rowids(pieces, row_of_word, nrows=words.nrows())


def count_words(text: tf.Tensor) -> tf.Tensor:
    """Returns the number of words between white space: `(batch,)` strings to int32."""
    words = split_words(text, WORD_SEPARATORS["white space"])
    return tf.cast(words.row_lengths(), tf.int32)

"""The words of a translation, as those who read it see them."""

import numpy as np
import tensorflow as tf

from tf_transformer.text.vocabulary import WORD_BEGIN, Vocabulary
from tf_transformer.text.word_characters import is_unspaced, is_word_character
from tf_transformer.word_alignment.piece_words import number_words


def readable_words(ids: tf.RaggedTensor, vocabulary: Vocabulary) -> tf.RaggedTensor:
    """Returns the index of each piece's word.

    Words are those that SentencePiece's symbol for a space separates. In a script without spaces
    between words, each piece that begins with a letter or digit is a word, with the punctuation,
    marks and bytes after it.

    Args:
        ids: ids of pieces without begin and end ids, ragged `(batch, (length))`.
        vocabulary: their vocabulary.

    Returns:
        int32, ragged as `ids`, counted from 0.
    """
    begins = tf.gather(tf.constant(vocabulary.begins_word), ids.flat_values)
    if not vocabulary.word_separators:  # otherwise each piece is a word
        is_unspaced_letter, is_other_letter, ends_unspaced, is_space = (
            tf.gather(tf.constant(table), ids.flat_values) for table in _tables(vocabulary)
        )
        begins |= is_unspaced_letter & ~_of_piece_before(is_space)
        begins |= is_other_letter & _of_piece_before(ends_unspaced)
    return number_words(ids.with_flat_values(begins))


def _of_piece_before(values: tf.Tensor) -> tf.Tensor:
    return tf.concat([[False], values[:-1]], axis=0)


def _tables(vocabulary: Vocabulary) -> tuple[np.ndarray, ...]:
    """Returns what each piece begins and ends with, `(vocab,)` bool each.

    The tables are whether it begins with a letter or digit of a script without spaces between
    words, with one of another script, whether it ends with one of a script without spaces, and
    whether it is only a space.
    """
    pieces = ["" if piece.startswith("<") else piece for piece in vocabulary.texts]
    first, last = ([piece[at : at + 1 or None] for piece in pieces] for at in (0, -1))
    return (
        np.array([is_unspaced(char) for char in first]),
        np.array([is_word_character(char) for char in first]),
        np.array([is_unspaced(char) for char in last]),
        np.array([piece == WORD_BEGIN for piece in pieces]),
    )

"""Begin and end ids around sentences, against Python lists."""

import numpy as np
import tensorflow as tf

from tf_transformer.text.framing import (
    append_end,
    end_and_pad,
    prepend_begin,
    remove_end,
    shift_right,
)

SENTENCES = [[7, 5], [], [9, 4, 6]]


def test_end_and_pad():
    ids = end_and_pad(tf.ragged.constant(SENTENCES, tf.int32))
    np.testing.assert_array_equal(ids, [[7, 5, 3, 0], [3, 0, 0, 0], [9, 4, 6, 3]])


def test_remove_end():
    assert remove_end(end_and_pad(tf.ragged.constant(SENTENCES, tf.int32))).to_list() == SENTENCES


def test_append_end():
    np.testing.assert_array_equal(append_end(tf.constant([7, 5])), [7, 5, 3])


def test_prepend_begin():
    np.testing.assert_array_equal(prepend_begin(tf.constant([[7, 5, 0]])), [[2, 7, 5, 0]])


def test_shift_right():
    """Each label is predicted from the target up to its own position."""
    targets = shift_right(end_and_pad(tf.ragged.constant(SENTENCES, tf.int32)))
    np.testing.assert_array_equal(targets, [[2, 7, 5, 0], [2, 0, 0, 0], [2, 9, 4, 6]])

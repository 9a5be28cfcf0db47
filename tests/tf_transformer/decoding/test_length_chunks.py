"""Rows are mapped in chunks of similar length, in any number, and return in order."""

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.decoding.length_chunks import map_chunks, rows_of_chunk


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 1, 3, 4, 10])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_every_number_of_rows(count, is_compiled):
    sizes = []

    def double(rows):
        tf.debugging.assert_greater(tf.shape(rows)[0], 0)  # a search of no rows need not work
        tf.py_function(lambda x: sizes.append(int(x)), [tf.shape(rows)[0]], [])
        return 2 * rows

    rows = tf.constant(np.random.default_rng(count).integers(0, 9, count), tf.int32)

    @tf.function
    def run(rows):
        return map_chunks(double, rows, rows, 3, tf.TensorSpec([], tf.int32), is_compiled)

    assert run(rows).numpy().tolist() == (2 * rows).numpy().tolist()
    assert sum(sizes) == count and max(sizes, default=0) <= 3


@pytest.mark.parametrize("num_apart", [0, 2, 3, 7, 10])
def test_rows_apart(num_apart):
    """No chunk has rows of both kinds, and none more chunks than needed."""
    chunks = []
    is_apart = np.random.default_rng(1).permutation(np.arange(10) < num_apart)
    lengths = np.random.default_rng(2).integers(0, 9, 10)

    def double(rows):
        tf.py_function(lambda x: chunks.append(x.numpy().tolist()), [rows["apart"]], [])
        return 2 * rows["lengths"]

    rows = {"lengths": tf.constant(lengths, tf.int32), "apart": tf.constant(is_apart)}
    found = map_chunks(
        double, rows, rows["lengths"], 3, tf.TensorSpec([], tf.int32), is_apart=rows["apart"]
    )
    assert found.numpy().tolist() == (2 * lengths).tolist()
    assert all(len(set(chunk)) == 1 and len(chunk) <= 3 for chunk in chunks)
    assert len(chunks) == -(-num_apart // 3) + -(-(10 - num_apart) // 3)


@pytest.mark.parametrize(("width", "rows"), [(16, 128), (128, 128), (256, 64), (4096, 32)])
def test_wide_models_decode_fewer_rows_together(width, rows):
    assert rows_of_chunk(width) == rows

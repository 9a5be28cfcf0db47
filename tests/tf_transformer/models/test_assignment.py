"""Large weights are assigned in parts: the values, types and shapes of one assignment."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.models import assignment


@pytest.mark.parametrize("shape", [(7, 3), (1, 30), (30,), (5, 2, 4)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_parts(monkeypatch, shape, dtype):
    array = np.random.default_rng(1).normal(size=shape).astype("float32")
    weight = keras.Variable(np.zeros(shape), dtype=dtype)
    expected = keras.Variable(np.zeros(shape), dtype=dtype)
    monkeypatch.setattr(assignment, "_PART_BYTES", 40)
    parts = []
    assignment.assign_in_parts(weight, array, parts.append)
    assert (len(parts) > 1) == (shape[0] > 1)
    np.testing.assert_array_equal(np.concatenate(parts), array)
    expected.assign(array)
    np.testing.assert_array_equal(np.asarray(weight), np.asarray(expected))


def test_distributed_weights(monkeypatch):
    array = np.random.default_rng(1).normal(size=(7, 3)).astype("float32")
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        weight = keras.Variable(np.zeros((7, 3)))
    monkeypatch.setattr(assignment, "_PART_BYTES", 40)
    assignment.assign_in_parts(weight, array, lambda part: None)
    np.testing.assert_array_equal(np.asarray(weight), array)

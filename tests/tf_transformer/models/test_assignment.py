"""Large weights share the memory of NumPy arrays: values, types and memory of what is assigned."""

import gc

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.models import assignment
from tf_transformer.models.assignment import (
    aligned_zeros,
    assign_parts,
    shared_array,
    shared_tensor,
    without_initial_values,
)


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.parametrize("shape", [(7, 3), (1, 30), (30,), (5, 2, 4)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("shared_bytes", [1, 1000])
def test_assigned_in_parts(monkeypatch, shape, dtype, shared_bytes):
    array = np.random.default_rng(1).normal(size=shape).astype("float32")
    weight = keras.Variable(np.zeros(shape), dtype=dtype)
    expected = keras.Variable(np.zeros(shape), dtype=dtype)
    monkeypatch.setattr(assignment, "_SHARED_BYTES", shared_bytes)
    assign_parts(weight, (array[start : start + 2] for start in range(0, len(array), 2)))
    expected.assign(array)
    np.testing.assert_array_equal(np.asarray(weight), np.asarray(expected))


def test_distributed_weights(monkeypatch):
    array = np.random.default_rng(1).normal(size=(7, 3)).astype("float32")
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        weight = keras.Variable(np.zeros((7, 3)))
    monkeypatch.setattr(assignment, "_SHARED_BYTES", 1)
    assign_parts(weight, [array[:4], array[4:]])
    np.testing.assert_array_equal(np.asarray(weight), array)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_memory_is_taken_once(dtype):
    """And not before: 200 MB of a new model, 200 MB assigned, and nothing more."""
    size = 200 * 2**20
    units = size // (1024 * tf.as_dtype(dtype).size)

    def build():
        model = keras.Sequential([keras.Input((1024,)), keras.layers.Dense(units, dtype=dtype)])
        model.build()
        return model

    gc.collect()
    before = resident_bytes()
    model = without_initial_values(build)
    assert resident_bytes() - before < size // 4
    kernel, bias = model.weights
    stored = np.ones(kernel.shape, "float32")
    before = resident_bytes()
    assign_parts(kernel, np.split(stored, 8))
    assert size // 2 < resident_bytes() - before < size * 1.25
    assert all(np.all(row == 1) for row in shared_array(kernel))
    assert resident_bytes() - before < size * 1.25
    assert not np.any(np.asarray(bias))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_array_outlives_its_name(dtype):
    array = aligned_zeros((1000, 1000), dtype)
    array[:] = 3.0
    weight = keras.Variable(shared_tensor(array), dtype=dtype)
    del array
    gc.collect()
    aligned_zeros((1000, 1000), dtype)[:] = 4.0  # would reuse memory that was returned
    np.testing.assert_array_equal(weight, np.full((1000, 1000), 3.0))


def test_a_view_cannot_be_written():
    with pytest.raises(ValueError, match="read-only"):
        shared_array(keras.Variable(np.zeros(3)))[0] = 1.0


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_without_initial_values_are_zeros(monkeypatch, dtype):
    monkeypatch.setattr(assignment, "_SHARED_BYTES", 16)
    model = without_initial_values(
        lambda: keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, dtype=dtype)])
    )
    assert [weight.dtype for weight in model.weights] == [dtype] * 2
    assert not any(np.any(np.asarray(weight)) for weight in model.weights)
    if dtype == "bfloat16":  # too coarse for such small steps
        return
    model.compile(optimizer="adam", loss="mse")
    model.fit(np.ones((2, 3)), np.ones((2, 4)), epochs=2, verbose=0)
    assert all(np.all(np.asarray(weight) > 0) for weight in model.weights)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_shared_array_has_the_values_of_a_weight_of_any_type(dtype):
    values = np.array([[1.0, -2.5], [0.0, 3e4]])
    weight = keras.Variable(values, dtype=dtype)
    shared = shared_array(weight)
    assert shared.dtype == dtype
    np.testing.assert_array_equal(shared.astype("float32"), weight.numpy().astype("float32"))
    assert np.shares_memory(shared, shared_array(weight))

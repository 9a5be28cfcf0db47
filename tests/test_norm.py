"""Norms against their equations in NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.norm import DeviationNormalization, make_norm

EPSILON = 1e-3


def layer(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + EPSILON)


def rms(x):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + EPSILON)


def sample_std(x):
    return (x - x.mean(-1, keepdims=True)) / (x.std(-1, ddof=1, keepdims=True) + EPSILON)


def l1(x):
    centred = x - x.mean(-1, keepdims=True)
    return centred / (np.abs(centred).mean(-1, keepdims=True) + EPSILON)


@pytest.mark.parametrize("equation", [layer, rms, sample_std, l1])
def test_equation(equation):
    rng = np.random.default_rng(1)
    norm = make_norm(equation.__name__, EPSILON, "float32", "norm")
    norm.build((None, None, 6))
    x = rng.normal(2, 3, size=(2, 3, 6))
    gamma, beta = rng.uniform(0.5, 1.5, 6), rng.normal(size=6)
    norm.set_weights([gamma] if equation is rms else [gamma, beta])
    expected = gamma * equation(x) + (0 if equation is rms else beta)
    np.testing.assert_allclose(norm(x.astype("float32")), expected, atol=1e-5)


@pytest.mark.parametrize("deviation", ["sample_std", "l1"])
def test_constant_vector(deviation):
    """No spread at all: the output is beta and the gradient finite."""
    norm = DeviationNormalization(deviation=deviation)
    x = tf.Variable(tf.fill((1, 4), 7.0))
    with tf.GradientTape() as tape:
        y = norm(x)
        value = tf.reduce_sum(y * tf.constant([1.0, -2.0, 3.0, 0.5]))
    np.testing.assert_array_equal(y, np.zeros((1, 4)))
    assert np.isfinite(tape.gradient(value, x)).all()


def test_serialisation_and_precision():
    norm = DeviationNormalization(deviation="l1", epsilon=0.1, dtype="mixed_bfloat16")
    output = norm(np.ones((1, 4), "float32") * [[1, 2, 3, 4]])
    assert keras.backend.standardize_dtype(output.dtype) == "bfloat16"
    restored = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(norm))
    assert restored.get_config() == norm.get_config()

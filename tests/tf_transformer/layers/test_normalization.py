"""Norms against their equations in NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.layers.normalization import DeviationNormalization, make_norm

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


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_written_gradient_is_the_derived_one(dtype):
    """Training's own gradient beside the one that TensorFlow derives outside training."""
    rng = np.random.default_rng(1)
    norm = make_norm("layer", 1e-6, dtype, "norm")
    norm.build((None, None, 16))
    norm.set_weights([rng.normal(size=16), rng.normal(size=16)])
    x = tf.constant(rng.normal(2, 3, size=(2, 3, 16)), norm.compute_dtype)
    weights = tf.constant(rng.normal(size=x.shape), norm.compute_dtype)

    def results(training):
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = norm(x, training=training)
            value = tf.reduce_sum(outputs * weights)
        variables = [variable.value for variable in norm.trainable_variables]
        return [outputs, *tape.gradient(value, [x, *variables])]

    for found, expected in zip(results(True), results(None), strict=True):
        assert found.dtype == expected.dtype
        found, expected = (tf.cast(array, tf.float32) for array in (found, expected))
        tolerance = 1e-5 if dtype == "float32" else 0.05
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_layer_normalization_is_that_of_keras(dtype):
    rng = np.random.default_rng(2)
    gamma, beta = rng.normal(size=(2, 16))
    x = tf.constant(rng.normal(2, 3, size=(5, 3, 16)), dtype)
    outputs = []
    for norm in (
        make_norm("layer", 1e-5, dtype, "norm"),
        keras.layers.LayerNormalization(epsilon=1e-5, dtype=dtype),
    ):
        norm.build(x.shape)
        norm.set_weights([gamma, beta])
        outputs.append(norm(x))
    assert outputs[0].dtype == outputs[1].dtype == dtype
    found, expected = (tf.cast(array, tf.float32) for array in outputs)
    tolerance = 1e-5 if dtype == "float32" else 0.03
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)

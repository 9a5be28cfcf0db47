"""Every faster form against its plain form: values and gradients."""

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.layers import kernels


def normal(*shape, dtype="float32"):
    values = np.random.default_rng(sum(shape)).normal(size=shape)
    return tf.constant(values, "float32") if dtype == "float32" else tf.cast(values, dtype)


def compare(fast, plain, arguments, rtol=1e-5):
    """Values and gradients of all arguments, for an upstream gradient that differs everywhere."""
    results = []
    for function in (fast, plain):
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            outputs = function(*arguments)
            total = tf.reduce_sum(outputs * tf.cast(normal(*outputs.shape), outputs.dtype))
        gradients = tape.gradient(total, arguments)
        results.append([outputs, *map(tf.convert_to_tensor, gradients)])
    for ours, expected in zip(*results, strict=True):
        assert ours.dtype == expected.dtype
        scale = np.abs(tf.cast(expected, tf.float32)).max()
        np.testing.assert_allclose(
            tf.cast(ours, tf.float32), tf.cast(expected, tf.float32), atol=rtol * scale
        )


@pytest.mark.parametrize("shape", [(5, 16), (2, 3, 16)])
def test_layer_norm(shape):
    compare(
        lambda *x: kernels.layer_norm(*x, epsilon=1e-6),
        lambda *x: kernels.plain_layer_norm(*x, epsilon=1e-6),
        [normal(*shape), normal(16), normal(16)],
    )


def test_layer_norm_of_half_precision():
    compare(
        lambda *x: kernels.layer_norm(*x, epsilon=1e-6),
        lambda *x: kernels.plain_layer_norm(*x, epsilon=1e-6),
        [normal(6, 16, dtype="bfloat16"), normal(16), normal(16)],
        rtol=1e-2,
    )


def test_affine():
    arguments = [normal(7, 4), normal(4, 9), normal(9)]
    compare(kernels.affine, kernels.plain_affine, arguments)
    compare(tf.function(kernels.affine), kernels.plain_affine, arguments)


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_small_products(transpose, dtype):
    right = (2, 3, 5, 4) if transpose else (2, 3, 4, 5)
    compare(
        lambda a, b: kernels.small_products(tf.cast(a, dtype), tf.cast(b, dtype), transpose),
        lambda a, b: kernels.plain_small_products(tf.cast(a, dtype), tf.cast(b, dtype), transpose),
        [normal(2, 3, 1, 4), normal(*right)],
    )


@pytest.mark.parametrize("shape", [(5, 4), (2, 3, 4)])
def test_times_transposed(shape):
    arguments = [normal(*shape), normal(9, 4)]
    compare(kernels.times_transposed, kernels.plain_times_transposed, arguments)


@pytest.mark.parametrize("rows", [1, 2])
def test_take_columns(rows):
    indices = tf.constant([[3, 0, 0, 4, 1], [2, 2, 1, 0, 4]][:rows])
    compare(
        lambda a: kernels.take_columns(a, indices),
        lambda a: kernels.plain_take_columns(a, indices),
        [normal(2, 3, 4, 5)],
    )


def test_small_products_avoid_onednn():
    """TensorFlow's pass for oneDNN knows the names BatchMatMul and BatchMatMulV2 only."""
    spec = tf.TensorSpec((None, 2, None, 4), tf.float32)
    graph = tf.function(lambda a, b: kernels.small_products(a, b, True)).get_concrete_function(
        spec, spec
    )
    assert [o.type for o in graph.graph.get_operations() if "MatMul" in o.type] == ["BatchMatMulV3"]


def test_small_softmax():
    scores = 5 * normal(2, 3, 4, 7) + tf.constant([0.0] * 5 + [-1e9] * 2)
    compare(kernels.small_softmax, tf.nn.softmax, [scores])
    assert not np.any(kernels.small_softmax(scores)[..., 5:])


def test_scaled_relu():
    factors = kernels.dropout_factors(normal(50, 20), 0.3, [1, 2])
    compare(
        lambda x: kernels.scaled_relu(x, factors, 1 / 0.7),
        lambda x: kernels.plain_scaled_relu(x, factors),
        [normal(50, 20)],
    )


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 2, 7])
def test_linear_recurrence(length):
    arguments = [tf.sigmoid(normal(length, 4, 3)), normal(length, 4, 3)]
    traced = tf.function(
        kernels.linear_recurrence, input_signature=[tf.TensorSpec((None, None, 3))] * 2
    )
    for fast in (kernels.linear_recurrence, traced):
        compare(fast, kernels.plain_linear_recurrence, arguments)
    factors, terms = (array.numpy() for array in arguments)
    state = np.zeros((4, 3))
    for t, found in enumerate(kernels.plain_linear_recurrence(*arguments)):
        state = factors[t] * state + terms[t]
        np.testing.assert_allclose(found, state, atol=1e-6)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.999999])
def test_dropout_factors(rate):
    """Two values, in the right shares, other ones for other seeds."""
    factors = kernels.dropout_factors(tf.zeros((300, 301)), rate, [1, 2]).numpy()
    kept = factors > 0
    np.testing.assert_allclose(factors[kept], 1 / (1 - rate), rtol=1e-6)
    assert abs(kept.mean() - (1 - rate)) < 0.005
    if 0 < rate < 0.9:
        other = kernels.dropout_factors(tf.zeros((300, 301)), rate, [1, 3]).numpy()
        assert (factors != other).any()


def test_permute_rows():
    order = np.random.default_rng(1).permutation(9)
    compare(
        lambda x: kernels.permute_rows(x, order, np.argsort(order)),
        lambda x: kernels.plain_take_rows(x, order),
        [normal(9, 5)],
    )


@pytest.mark.parametrize("num_padding", [1, 3])
def test_select_rows(num_padding):
    """Rows 1, 4 and 5 of 6; the others point behind the three outputs."""
    target = [3, 0, 3 + num_padding - 1, 3, 1, 2]
    compare(
        lambda x: kernels.select_rows(x, [1, 4, 5], target, num_padding),
        lambda x: kernels.plain_take_rows(x, [1, 4, 5]),
        [normal(6, 5)],
    )

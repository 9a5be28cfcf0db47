"""Attention against the equations in NumPy."""

import keras
import numpy as np
import pytest
from keras import ops

from tests.numpy_reference import (
    Attention,
    Linear,
    multi_head_attention,
    read_attention,
    scaled_dot_product_attention,
)
from tf_transformer.decoding.kv_cache import KVCache
from tf_transformer.layers import attention
from tf_transformer.layers.attention import CrossAttention, SelfAttention
from tf_transformer.layers.layout import Beam

D_MODEL = 8
NUM_HEADS = 2


@pytest.fixture(autouse=True)
def rng():
    keras.utils.set_random_seed(1)
    return np.random.default_rng(1)


@pytest.fixture
def weights(rng):
    def linear():
        return Linear(rng.normal(size=(D_MODEL, D_MODEL)), rng.normal(size=D_MODEL))

    return Attention(linear(), linear(), linear(), linear(), NUM_HEADS)


def side_by_side(*linears):
    """Kernel and bias of one dense layer that computes all of `linears`."""
    return [
        np.concatenate([linear.kernel for linear in linears], axis=1),
        np.concatenate([linear.bias for linear in linears]),
    ]


def self_attention(weights):
    layer = SelfAttention(num_heads=NUM_HEADS)
    layer.build((None, None, D_MODEL))
    layer.query_key_value.set_weights(side_by_side(weights.query, weights.key, weights.value))
    layer.output_projection.set_weights(side_by_side(weights.output))
    return layer


def cross_attention(weights):
    layer = CrossAttention(num_heads=NUM_HEADS)
    layer.build((None, None, D_MODEL))
    layer.query.set_weights(side_by_side(weights.query))
    layer.key_value.set_weights(side_by_side(weights.key, weights.value))
    layer.output_projection.set_weights(side_by_side(weights.output))
    return layer


def random_mask(rng, *shape):
    """At least one key for every query."""
    mask = rng.random(shape) < 0.5
    mask[..., 0] |= ~mask.any(axis=-1)
    return mask


@pytest.mark.parametrize("masked", [False, True])
def test_scaled_dot_product_attention(rng, masked):
    query, key = rng.normal(size=(5, 3)), rng.normal(size=(7, 3))
    value = rng.normal(size=(7, 4))
    mask = random_mask(rng, 5, 7) if masked else None
    computed, _ = attention.scaled_dot_product_attention(
        *(ops.convert_to_tensor(array, "float32") for array in (query, key, value)), mask
    )
    expected = scaled_dot_product_attention(query, key, value, mask)
    np.testing.assert_allclose(computed, expected, rtol=1e-5, atol=1e-5)


def test_masked_keys_have_exactly_no_weight(rng):
    """Even a value of 1e30 behind the mask, or a score of 1e4, does not show."""
    query, key = rng.normal(size=(2, 4)).astype("float32"), np.zeros((3, 4), "float32")
    key[2] = 1e4 * query[0]
    value = np.array([[1.0], [3.0], [1e30]], "float32")
    computed, _ = attention.scaled_dot_product_attention(
        query, key, value, np.array([[True, True, False]])
    )
    np.testing.assert_allclose(computed, [[2.0], [2.0]], rtol=1e-6)


def test_large_scores_stay_finite():
    query = np.array([[1e4, 1e4]], "float32")
    key = np.array([[1e4, 1e4], [-1e4, -1e4]], "float32")
    value = np.array([[1.0], [2.0]], "float32")
    computed, _ = attention.scaled_dot_product_attention(query, key, value)
    np.testing.assert_allclose(computed, [[1.0]])


def test_query_without_any_key_stays_finite(rng):
    arrays = [rng.normal(size=(3, 4)).astype("float32") for _ in range(3)]
    computed, _ = attention.scaled_dot_product_attention(*arrays, np.zeros((3, 3), bool))
    assert np.isfinite(computed).all()


def test_bfloat16_stays_bfloat16(rng):
    """Weights and result; only the softmax is wider. 200 keys, so that its sum matters."""
    arrays = [ops.convert_to_tensor(rng.normal(size=(200, 4)), "bfloat16") for _ in range(3)]
    dtypes = []

    def watch(weights):
        dtypes.append(keras.backend.standardize_dtype(weights.dtype))
        return weights

    computed, _ = attention.scaled_dot_product_attention(
        *arrays, np.ones((1, 200), bool), dropout=watch
    )
    assert dtypes == ["bfloat16"]
    assert keras.backend.standardize_dtype(computed.dtype) == "bfloat16"
    expected = scaled_dot_product_attention(
        *(np.asarray(ops.cast(array, "float32")) for array in arrays)
    )
    # Processors without bfloat16 arithmetic round the products' partial sums, to 0.013 here; a
    # softmax in bfloat16 would be off by 0.03.
    np.testing.assert_allclose(ops.cast(computed, "float32"), expected, atol=0.02)


def test_dropout_is_applied_to_the_weights(rng):
    arrays = [rng.normal(size=(3, 4)).astype("float32") for _ in range(3)]
    computed, _ = attention.scaled_dot_product_attention(
        *arrays, dropout=lambda weights: 0 * weights
    )
    np.testing.assert_array_equal(computed, np.zeros((3, 4)))


@pytest.mark.parametrize("masked", [False, True])
def test_self_attention(rng, weights, masked):
    inputs = rng.normal(size=(2, 5, D_MODEL))
    mask = random_mask(rng, 2, 5, 5) if masked else None
    computed = self_attention(weights)(
        inputs.astype("float32"), None if mask is None else mask[:, None]
    )
    expected = multi_head_attention(weights, inputs, inputs, mask)
    np.testing.assert_allclose(computed, expected, rtol=1e-4, atol=1e-4)


def test_self_attention_with_a_mask_for_each_head(rng, weights):
    """The mask broadcasts over heads, or differs among them."""
    inputs = rng.normal(size=(1, 4, D_MODEL)).astype("float32")
    layer = self_attention(weights)
    first, second = random_mask(rng, 1, 1, 4, 4), random_mask(rng, 1, 1, 4, 4)
    assert (first != second).any()
    bias = weights.output.bias
    width = D_MODEL // NUM_HEADS
    mixed = layer(inputs, np.concatenate([first, second], axis=1)) - bias
    parts = []
    for head, mask in enumerate([first, second]):
        only = np.zeros_like(weights.output.kernel)
        only[head * width : (head + 1) * width] = weights.output.kernel[
            head * width : (head + 1) * width
        ]
        layer.output_projection.set_weights([only, 0 * bias])
        parts.append(np.asarray(layer(inputs, mask)))
    np.testing.assert_allclose(mixed, sum(parts), atol=1e-4)


@pytest.mark.parametrize("masked", [False, True])
def test_cross_attention(rng, weights, masked):
    inputs, memory = rng.normal(size=(2, 3, D_MODEL)), rng.normal(size=(2, 6, D_MODEL))
    mask = random_mask(rng, 2, 3, 6) if masked else None
    computed = cross_attention(weights)(
        inputs.astype("float32"),
        memory.astype("float32"),
        None if mask is None else mask[:, None],
    )
    expected = multi_head_attention(weights, inputs, memory, mask)
    np.testing.assert_allclose(computed, expected, rtol=1e-4, atol=1e-4)


def test_self_attention_step_by_step(rng, weights):
    """One token at a time, over hypotheses that differ, is causal attention to each of them."""
    batch, beam, length = 2, 3, 4
    inputs = rng.normal(size=(batch, beam, length, D_MODEL)).astype("float32")
    layer = self_attention(weights)
    cache = KVCache.empty([(NUM_HEADS, D_MODEL // NUM_HEADS)], batch, beam, length, "float32")
    same = np.tile(np.arange(beam, dtype="int32"), (batch, 1))
    steps = []
    for number in range(length):
        cache, step = cache.begin_step(same, number)
        output, layer_cache = layer.step(
            inputs[:, :, number].reshape(-1, D_MODEL), cache.layers[0], step
        )
        cache = cache._replace(layers=[layer_cache])
        steps.append(np.reshape(output, (batch, beam, D_MODEL)))
    rows = inputs.reshape(batch * beam, length, D_MODEL)
    expected = multi_head_attention(weights, rows, rows, np.tril(np.ones((length, length), bool)))
    np.testing.assert_allclose(
        np.stack(steps, axis=2), expected.reshape(inputs.shape), rtol=1e-4, atol=1e-4
    )


def test_cross_attention_from_hypotheses(rng, weights):
    """Hypotheses are so many queries to the one memory of their sentence."""
    hypotheses, memory = rng.normal(size=(2, 3, D_MODEL)), rng.normal(size=(2, 5, D_MODEL))
    mask = random_mask(rng, 2, 1, 5)
    layer = cross_attention(weights)
    projected = layer.project_memory(memory.astype("float32"))
    assert projected["key"].shape == (2, NUM_HEADS, 5, D_MODEL // NUM_HEADS)
    computed, _ = layer.attend_projected(
        hypotheses.reshape(-1, D_MODEL).astype("float32"),
        projected,
        mask[:, None],
        layout=Beam(3),
    )
    expected = multi_head_attention(weights, hypotheses, memory, mask)
    np.testing.assert_allclose(np.reshape(computed, expected.shape), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("make", [self_attention, cross_attention])
def test_reading_weights_out_of_a_layer(weights, make):
    """What other tests read is what was put in."""
    read = read_attention(make(weights))
    for name in ("query", "key", "value", "output"):
        np.testing.assert_allclose(getattr(read, name).kernel, getattr(weights, name).kernel, 1e-6)
        np.testing.assert_allclose(getattr(read, name).bias, getattr(weights, name).bias, 1e-6)


@pytest.mark.parametrize("layer_class", [SelfAttention, CrossAttention])
def test_heads_must_divide_the_width(layer_class):
    with pytest.raises(
        ValueError, match=r"`num_heads` must divide .* Received: num_heads=3, width=8"
    ):
        layer_class(num_heads=3).build((None, None, D_MODEL))


@pytest.mark.parametrize("relative_positions", ["keys", "keys_values"])
def test_relative_positions(rng, relative_positions):
    """Shaw et al., 2018, equations 3 and 4, in loops, with k = 2."""
    layer = SelfAttention(
        num_heads=2, relative_positions=relative_positions, max_relative_distance=2
    )
    layer.build((None, None, D_MODEL))
    inputs = rng.normal(size=(1, 6, D_MODEL)).astype("float32")
    head_dim = D_MODEL // 2
    projected = inputs[0] @ np.asarray(layer.query_key_value.kernel)
    query, key, value = projected.reshape(6, 3, 2, head_dim).transpose(1, 2, 0, 3)
    keys = np.asarray(layer.relative_keys.vectors)
    values = np.zeros_like(keys)
    if relative_positions == "keys_values":
        values = np.asarray(layer.relative_values.vectors)
    attended = np.zeros((6, 2, head_dim))
    for head in range(2):
        for i in range(6):
            places = [max(-2, min(2, j - i)) + 2 for j in range(6)]
            scores = [query[head, i] @ (key[head, j] + keys[places[j]]) for j in range(6)]
            weights = np.exp(np.array(scores) / np.sqrt(head_dim))
            weights /= weights.sum()
            attended[i, head] = sum(
                weights[j] * (value[head, j] + values[places[j]]) for j in range(6)
            )
    expected = attended.reshape(6, D_MODEL) @ np.asarray(layer.output_projection.kernel)
    np.testing.assert_allclose(layer(inputs)[0], expected, atol=1e-5)


def test_scaled_dot_products_have_unit_variance():
    """q.k of independent unit normals has variance d_k, and 1 once scaled (section 3.2.1)."""
    rng = np.random.default_rng(1)
    query, key = rng.normal(size=(2, 400, 64))
    products = query @ key.T
    assert abs(np.var(products) / 64 - 1) < 0.05
    _, weights = attention.scaled_dot_product_attention(query, key, key)
    # A softmax row tells its scores up to a constant.
    scores = np.log(weights)
    scores -= scores.mean(axis=1, keepdims=True)
    assert abs(np.var(scores) - 1) < 0.05

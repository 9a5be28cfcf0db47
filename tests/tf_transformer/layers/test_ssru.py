"""The recurrent layer against its equations, one position after the other."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.decoding.recurrent_cache import RecurrentCache
from tf_transformer.layers.layout import Packed
from tf_transformer.layers.ssru import SSRU

D_MODEL = 6
LENGTHS = (5, 1, 3)
MASK = np.arange(max(LENGTHS)) < np.array(LENGTHS)[:, None]


@pytest.fixture(autouse=True)
def rng():
    keras.utils.set_random_seed(1)
    return np.random.default_rng(1)


def make_layer(rng, **options):
    layer = SSRU(**options)
    layer.build((None, None, D_MODEL))
    for weight in layer.weights:
        weight.assign(rng.normal(scale=0.6, size=weight.shape))
    return layer


def normal(rng, *shape):
    return rng.normal(size=shape).astype("float32")


def reference(layer, sentence):
    """Kim et al., 2019, in float64: `(length, d_model)` to the same."""
    weight, forget_weight = np.split(np.asarray(layer.value_gate.kernel, np.float64), 2, axis=1)
    state, outputs = np.zeros(D_MODEL), []
    for x in np.asarray(sentence, np.float64):
        forget = 1 / (1 + np.exp(-(x @ forget_weight + np.asarray(layer.gate_bias))))
        state = forget * state + (1 - forget) * (x @ weight)
        outputs.append(np.maximum(state, 0))
    return np.array(outputs)


def test_equations(rng):
    layer, inputs = make_layer(rng), normal(rng, 3, 5, D_MODEL)
    outputs = layer(inputs)
    for sentence, output in zip(inputs, outputs, strict=True):
        np.testing.assert_allclose(output, reference(layer, sentence), atol=1e-6)
    assert (np.asarray(outputs) > 0).any()
    assert [weight.path.partition("/")[2] for weight in layer.weights] == [
        "gate_bias",
        "value_gate/kernel",
    ]


def test_packed_sentences_do_not_see_each_other(rng):
    """Nor their padding: outputs and gradients are those of each sentence alone."""
    layer = make_layer(rng)
    inputs, upstream = normal(rng, 3, 5, D_MODEL), normal(rng, 3, 5, D_MODEL)
    layout = Packed.from_padding_mask(tf.constant(MASK))

    def gradients(function, vectors, directions):
        with tf.GradientTape() as tape:
            tape.watch(vectors)
            outputs = function(vectors)
            value = tf.reduce_sum(outputs * directions)
        return outputs, tape.gradient(value, [vectors, *[w.value for w in layer.weights]])

    outputs, (found, *found_weights) = gradients(
        lambda x: layer(x, layout=layout), tf.constant(inputs[MASK]), upstream[MASK]
    )
    expected = [
        gradients(layer, tf.constant(x[None, :n]), d[None, :n])
        for x, d, n in zip(inputs, upstream, LENGTHS, strict=True)
    ]
    np.testing.assert_allclose(
        outputs, np.concatenate([alone[0] for alone, _ in expected]), atol=1e-6
    )
    np.testing.assert_allclose(
        found, np.concatenate([alone[0][0] for _, alone in expected]), atol=1e-5
    )
    for index, gradient in enumerate(found_weights):
        sums = sum(alone[1 + index].numpy() for _, alone in expected)
        assert np.abs(sums).max() > 0.1
        np.testing.assert_allclose(gradient, sums, atol=1e-5)


def test_weights_have_the_gradient_of_finite_differences(rng):
    layer, inputs, direction = make_layer(rng), normal(rng, 1, 4, D_MODEL), normal(rng, 4, D_MODEL)
    with tf.GradientTape() as tape:
        value = tf.reduce_sum(layer(inputs)[0] * direction)
    gradients = tape.gradient(value, [weight.value for weight in layer.weights])
    for weight, gradient in zip(layer.weights, gradients, strict=True):
        values = np.array(weight)
        for place in [tuple(rng.integers(values.shape)) for _ in range(8)]:
            differences = []
            for sign in (1, -1):
                moved = values.copy()
                moved[place] += sign * 1e-3
                weight.assign(moved)
                differences.append(sign * (reference(layer, inputs[0]) * direction).sum())
            weight.assign(values)
            np.testing.assert_allclose(gradient[place], sum(differences) / 2e-3, atol=2e-3)


def test_steps_continue_the_states_of_their_parents(rng):
    """Hypotheses that change places, double and vanish, as in a search."""
    layer, beam_size = make_layer(rng), 3
    cache = RecurrentCache.empty(1, 2, beam_size, D_MODEL)
    pasts = np.zeros((2, beam_size, 0, D_MODEL), "float32")
    for number in range(6):
        parents = rng.integers(0, beam_size, (2, beam_size)).astype("int32")
        pasts = np.take_along_axis(pasts, parents[:, :, None, None], axis=1)
        newest = normal(rng, 2, beam_size, 1, D_MODEL)
        pasts = np.concatenate([pasts, newest], axis=2)
        cache, step = cache.begin_step(parents, number)
        outputs, layer_cache = layer.step(newest.reshape(-1, D_MODEL), cache.layers[0], step)
        cache = cache._replace(layers=[layer_cache])
        expected = [reference(layer, past)[-1] for past in pasts.reshape(6, -1, D_MODEL)]
        np.testing.assert_allclose(outputs, expected, atol=1e-6)
    chosen = cache.select_rows(tf.constant([1]), None, None, 6, 8).layers[0]
    np.testing.assert_array_equal(chosen, cache.layers[0][1:])


@pytest.mark.slow
def test_the_recurrence_is_float32(rng):
    """In bfloat16, with gates of 0.998, rounded factors and states would add up."""
    layer = make_layer(rng)
    layer.gate_bias.assign(np.full(D_MODEL, 6.0))
    half = SSRU(dtype="mixed_bfloat16")
    half.build((None, None, D_MODEL))
    half.set_weights(layer.get_weights())
    inputs = normal(rng, 1, 400, D_MODEL)
    outputs = half(inputs)
    assert outputs.dtype == "bfloat16"
    expected = reference(layer, inputs[0])
    error = np.asarray(tf.cast(outputs[0], "float32")) - expected
    assert np.linalg.norm(error) < 0.01 * np.linalg.norm(expected)

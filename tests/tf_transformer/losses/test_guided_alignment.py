"""The alignment loss against NumPy, and what its gradient reaches."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer import Transformer, TransformerConfig
from tf_transformer.layers.masks import padding_mask
from tf_transformer.losses.guided_alignment import alignment_losses

HEAD, HEADS, WIDTH = 1, 2, 8
SIZES = dict(
    source_vocab_size=11,
    target_vocab_size=11,
    num_encoder_layers=1,
    num_decoder_layers=3,
    d_model=WIDTH,
    d_ff=16,
    num_heads=HEADS,
    alignment_head=HEAD,
)
SOURCE = np.array([[4, 5, 6, 7, 3], [8, 9, 3, 0, 0], [10, 3, 0, 0, 0]], "int32")
TARGET = np.array([[2, 9, 8, 7], [2, 4, 0, 0], [2, 0, 0, 0]], "int32")
INPUTS = {"source": SOURCE, "target": TARGET}
LINKS = ((0, 0, 1), (0, 0, 2), (0, 2, 0), (1, 1, 1))  # of a row, a target and a source position


@pytest.fixture
def alignment():
    alignment = np.zeros((*TARGET.shape, SOURCE.shape[1]), bool)
    alignment[tuple(zip(*LINKS, strict=True))] = True
    return alignment


@pytest.fixture
def make():
    def make_model(dtype="float32", **changes):
        keras.utils.set_random_seed(1)
        return Transformer(TransformerConfig(**(SIZES | changes)), dtype=dtype)

    return make_model


def losses_of(model, alignment):
    _, log_weights = model.aligned_hidden_at(INPUTS, padding_mask(TARGET))
    return alignment_losses(log_weights, tf.constant(alignment))


def test_equals_the_equation(alignment):
    """-sum_i G_ji log A_ji, where row 0 of G is 1/2 at two entries."""
    rng = np.random.default_rng(1)
    weights = rng.dirichlet(np.ones(5), size=(3, 4))
    losses, is_aligned = alignment_losses(
        tf.constant(np.log(weights), tf.float32), tf.constant(alignment)
    )
    expected = np.zeros((3, 4))
    for row, target, sources in ((0, 0, [1, 2]), (0, 2, [0]), (1, 1, [1])):
        expected[row, target] = -np.mean(np.log(weights[row, target, sources]))
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    np.testing.assert_array_equal(is_aligned, expected > 0)


@pytest.mark.slow
@pytest.mark.representatives(every=3)
@pytest.mark.parametrize(
    ("changes", "layer"),
    [
        ({}, 1),
        (dict(num_decoder_layers=1), 0),
        (dict(norm_position="pre", layer_history=True), 1),
        (dict(decoder_autoregression="ssru"), 1),
        (dict(source_end=False), 1),
        (dict(decoder=dict(cross_num_heads=4)), 1),
    ],
    ids=str,
)
def test_packed_weights_are_those_of_the_states(make, changes, layer):
    """The alignment is the head's weights in `states`, whose logarithm training computes."""
    model = make(**changes)
    weights = model.states(INPUTS).decoder.cross_attention[layer][:, HEAD]
    np.testing.assert_array_equal(model.alignment(INPUTS), weights)
    hidden, log_weights = model.aligned_hidden_at(INPUTS, padding_mask(TARGET))
    assert log_weights.dtype == "float32"
    real = TARGET != 0
    np.testing.assert_allclose(np.exp(log_weights)[real], np.asarray(weights)[real], atol=1e-6)
    np.testing.assert_array_equal(hidden, model.hidden_at(INPUTS, padding_mask(TARGET)))


@pytest.mark.slow
def test_alignment_without_a_head_is_the_mean(make):
    model, guided = make(alignment_head=None), make()
    guided.set_weights(model.get_weights())
    weights = model.states(INPUTS).decoder.cross_attention[1]
    np.testing.assert_allclose(model.alignment(INPUTS), np.mean(weights, axis=1), rtol=1e-6)
    np.testing.assert_array_equal(guided(INPUTS), model(INPUTS))
    with pytest.raises(ValueError, match="needs a model with an `alignment_head`"):
        model.aligned_hidden_at(INPUTS, padding_mask(TARGET))


@pytest.mark.slow
def test_gradient_reaches_one_head_and_what_is_below(make, alignment):
    model = make()
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(losses_of(model, alignment)[0])
    gradients = dict(
        zip(
            (weight.path for weight in model.trainable_variables),
            tape.gradient(loss, [weight.value for weight in model.trainable_variables]),
            strict=True,
        )
    )
    attention = "decoder/layer_1/cross_attention"
    found = {path.partition("/")[2]: gradient for path, gradient in gradients.items()}
    columns = np.arange(WIDTH) // (WIDTH // HEADS) == HEAD
    query = np.abs(found[f"{attention}/query/kernel"]).max(axis=0)
    keys_values = np.abs(found[f"{attention}/key_value/kernel"]).max(axis=0)
    np.testing.assert_array_equal(query > 0, columns)
    np.testing.assert_array_equal(keys_values > 0, [*columns, *np.zeros(WIDTH, bool)])
    assert found[f"{attention}/output_projection/kernel"] is None
    assert not any(
        gradient is not None for path, gradient in found.items() if "decoder/layer_2" in path
    )
    for below in ("encoder/layer_0", "decoder/layer_0"):
        kernels = [g for path, g in found.items() if path.startswith(below) and "kernel" in path]
        assert all(np.abs(gradient).max() > 0 for gradient in kernels)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_small_weights_in_half_precision(make, alignment, dtype):
    """Where the weight of a link underflows, the loss and its gradient are still finite."""
    model = make(dtype)
    for weight in model.decoder.stacked_layers[1].cross_attention.query.weights:
        weight.assign(weight * 300.0 if len(weight.shape) > 1 else weight + 100.0)
    weights = model.states(INPUTS).decoder.cross_attention[1][:, HEAD]
    assert np.min(np.asarray(weights)[alignment]) == 0.0
    with tf.GradientTape() as tape:
        losses, _ = losses_of(model, alignment)
        loss = tf.reduce_mean(losses)
    assert losses.dtype == tf.float32
    assert np.isfinite(loss) and loss > 10
    query = model.decoder.stacked_layers[1].cross_attention.query.kernel
    assert np.isfinite(tape.gradient(loss, query.value)).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(alignment_head=2), "less than the number of heads of the cross-attention, 2"),
        (dict(alignment_head=-1), "`alignment_head` must be"),
        (
            dict(decoder_only=True, source_vocab_size=None),
            "no use for `alignment_head`",
        ),
    ],
)
def test_heads_that_do_not_exist(changes, message):
    with pytest.raises(ValueError, match=message):
        TransformerConfig(**(SIZES | changes))

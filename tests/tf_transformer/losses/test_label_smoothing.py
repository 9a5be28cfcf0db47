"""The loss and its hand-written gradient against the smoothed distribution and differences."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tests.numpy_reference import (
    finite_differences,
    smoothed_cross_entropy,
    smoothed_cross_entropy_gradient,
    smoothed_distribution,
    token_losses,
)
from tf_transformer.losses import label_smoothing as loss_module
from tf_transformer.losses.label_smoothing import LabelSmoothedCrossEntropy

VOCAB = 7
# Rows of very different length: 1, 6 and 3 tokens.
LABELS = np.array([[4, 0, 0, 0, 0, 0], [1, 6, 2, 2, 5, 3], [3, 3, 6, 0, 0, 0]], "int32")


@pytest.fixture(autouse=True)
def rng():
    keras.utils.set_random_seed(1)
    return np.random.default_rng(1)


@pytest.fixture
def logits(rng):
    return rng.normal(scale=2.0, size=(*LABELS.shape, VOCAB)).astype("float32")


def value_and_gradient(loss, labels, logits):
    logits = tf.convert_to_tensor(logits)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        value = loss(labels, logits)
    return value.numpy(), tape.gradient(value, logits).numpy()


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_value_and_gradient(logits, label_smoothing, dtype):
    loss = LabelSmoothedCrossEntropy(label_smoothing)
    value, gradient = value_and_gradient(loss, LABELS.astype(dtype), logits)
    np.testing.assert_allclose(
        value, smoothed_cross_entropy(LABELS, logits, label_smoothing), rtol=1e-5
    )
    differences = finite_differences(
        lambda z: smoothed_cross_entropy(LABELS, z, label_smoothing), logits
    )
    np.testing.assert_allclose(gradient, differences, atol=1e-6)
    np.testing.assert_allclose(
        gradient, smoothed_cross_entropy_gradient(LABELS, logits, label_smoothing), atol=1e-7
    )


def test_value_and_gradient_in_a_graph_of_any_shape(logits):
    loss = LabelSmoothedCrossEntropy(0.1)
    graph = tf.function(
        lambda labels, logits: value_and_gradient_in_graph(loss, labels, logits),
        input_signature=[
            tf.TensorSpec((None, None), tf.int32),
            tf.TensorSpec((None, None, VOCAB), tf.float32),
        ],
    )
    value, gradient = graph(LABELS, logits)
    np.testing.assert_allclose(value, smoothed_cross_entropy(LABELS, logits, 0.1), rtol=1e-5)
    np.testing.assert_allclose(
        gradient, smoothed_cross_entropy_gradient(LABELS, logits, 0.1), atol=1e-7
    )


def value_and_gradient_in_graph(loss, labels, logits):
    with tf.GradientTape() as tape:
        tape.watch(logits)
        value = loss(labels, logits)
    return value, tape.gradient(value, logits)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_gradient_of_tokens_that_weigh_differently(rng, logits, label_smoothing):
    """The chain rule: each token's gradient is scaled by what comes from above."""
    weights = rng.normal(size=LABELS.shape).astype("float32")

    def weighted(labels, logits):
        losses = loss_module.smoothed_cross_entropy(labels, logits, label_smoothing)
        return tf.reduce_sum(losses * weights)

    value, gradient = value_and_gradient(weighted, LABELS, logits)

    def reference(z):
        return (token_losses(LABELS, z, label_smoothing) * weights).sum()

    np.testing.assert_allclose(value, reference(logits), rtol=1e-5)
    np.testing.assert_allclose(gradient, finite_differences(reference, logits), atol=1e-5)


def test_gradient_reaches_through_the_logits(rng):
    """Logits that are themselves a product, as in the model."""
    hidden = tf.constant(rng.normal(size=(*LABELS.shape, 3)), tf.float32)
    matrix = tf.Variable(rng.normal(size=(3, VOCAB)), dtype=tf.float32)
    with tf.GradientTape() as tape:
        value = LabelSmoothedCrossEntropy(0.1)(LABELS, hidden @ matrix)
    expected = finite_differences(
        lambda m: smoothed_cross_entropy(LABELS, hidden.numpy().astype("float64") @ m, 0.1),
        matrix.numpy(),
    )
    np.testing.assert_allclose(tape.gradient(value, matrix), expected, atol=1e-6)


def test_the_smoothed_distribution_is_one():
    q = smoothed_distribution(LABELS, VOCAB, 0.1)
    np.testing.assert_allclose(q.sum(axis=-1), 1.0)
    np.testing.assert_allclose(q[0, 0], np.where(np.arange(VOCAB) == 4, 0.9 + 0.1 / 7, 0.1 / 7))


def test_loss_is_smallest_at_the_smoothed_distribution():
    """Gradient 0, and the entropy of q left over."""
    q = smoothed_distribution(LABELS, VOCAB, 0.1)
    value, gradient = value_and_gradient(
        LabelSmoothedCrossEntropy(0.1), LABELS, np.log(q).astype("float32")
    )
    np.testing.assert_allclose(value, -(q[0, 0] * np.log(q[0, 0])).sum(), rtol=1e-6)
    np.testing.assert_allclose(gradient, np.zeros_like(q), atol=1e-7)


def test_padding_contributes_nothing(rng, logits):
    loss = LabelSmoothedCrossEntropy(0.1)
    value, gradient = value_and_gradient(loss, LABELS, logits)
    assert not gradient[LABELS == 0].any()
    assert gradient[LABELS != 0].any(axis=-1).all()
    # Neither what is predicted there, nor more of it.
    logits = logits.copy()
    logits[LABELS == 0] = rng.normal(scale=50.0, size=(np.sum(LABELS == 0), VOCAB))
    other_value, other_gradient = value_and_gradient(loss, LABELS, logits)
    np.testing.assert_array_equal(value, other_value)
    np.testing.assert_array_equal(gradient, other_gradient)
    wide_value, wide_gradient = value_and_gradient(
        loss, np.pad(LABELS, [(0, 2), (0, 3)]), np.pad(logits, [(0, 2), (0, 3), (0, 0)])
    )
    np.testing.assert_allclose(wide_value, value, rtol=1e-6)
    np.testing.assert_allclose(wide_gradient[:3, :6], gradient, atol=1e-8)


def test_every_token_weighs_the_same():
    """Not every row: 1 token among 10 has a tenth of the gradient, wherever it lies."""
    uniform = np.zeros((*LABELS.shape, VOCAB), "float32")
    _, gradient = value_and_gradient(LabelSmoothedCrossEntropy(0.0), LABELS, uniform)
    at_labels = np.take_along_axis(gradient, LABELS[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(at_labels[LABELS != 0], (1 / VOCAB - 1) / 10, rtol=1e-6)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_batch_of_padding_alone(logits, label_smoothing):
    value, gradient = value_and_gradient(
        LabelSmoothedCrossEntropy(label_smoothing), np.zeros_like(LABELS), logits
    )
    assert value == 0
    assert not gradient.any()


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("scale", [1e4, -1e4])
def test_extreme_logits_stay_finite(rng, label_smoothing, scale):
    """The label far above all, far below all, and all entries far from zero together."""
    logits = rng.normal(size=(*LABELS.shape, VOCAB)).astype("float32")
    for row in range(2):
        for position in range(LABELS.shape[1]):
            logits[row, position, LABELS[row, position]] = scale
    logits[2] += scale
    value, gradient = value_and_gradient(LabelSmoothedCrossEntropy(label_smoothing), LABELS, logits)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
    # float32 numbers around 1e4 lie 1e-3 apart.
    np.testing.assert_allclose(
        value, smoothed_cross_entropy(LABELS, logits, label_smoothing), rtol=1e-5, atol=1e-3
    )
    np.testing.assert_allclose(
        gradient, smoothed_cross_entropy_gradient(LABELS, logits, label_smoothing), atol=1e-6
    )


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_cross_entropy_for_reading(logits, scale):
    computed = loss_module.cross_entropy(LABELS, ops.convert_to_tensor(scale * logits))
    np.testing.assert_allclose(
        computed, token_losses(LABELS, scale * logits, 0.0), rtol=1e-5, atol=1e-6 * scale
    )


def test_config_round_trip():
    loss = LabelSmoothedCrossEntropy(0.3, name="smoothed")
    config = json.loads(json.dumps(loss.get_config()))
    assert config == {"name": "smoothed", "label_smoothing": 0.3, "smoothed_over": "all"}
    assert LabelSmoothedCrossEntropy.from_config(config).get_config() == config


def test_serialisation(logits):
    loss = LabelSmoothedCrossEntropy(0.3)
    serialised = json.loads(json.dumps(keras.saving.serialize_keras_object(loss)))
    assert serialised["registered_name"] == "tf_transformer>LabelSmoothedCrossEntropy"
    restored = keras.saving.deserialize_keras_object(serialised)
    np.testing.assert_array_equal(restored(LABELS, logits), loss(LABELS, logits))


def test_default_is_the_paper():
    assert LabelSmoothedCrossEntropy().label_smoothing == 0.1


@pytest.mark.parametrize("label_smoothing", [-0.1, 1, 1.5, float("nan")])
def test_label_smoothing_must_be_a_share(label_smoothing):
    with pytest.raises(
        ValueError,
        match="`label_smoothing` must be at least 0 and less than 1. "
        f"Received: label_smoothing={label_smoothing}",
    ):
        LabelSmoothedCrossEntropy(label_smoothing)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("smoothed_over", ["all", "others", "others_but_padding"])
def test_fast_and_plain_form_agree(rng, logits, label_smoothing, smoothed_over):
    """Values and gradients, without the labels at padding, which the loss masks out."""
    labels = np.where(LABELS == 0, 3, LABELS)
    weights = tf.constant(rng.normal(size=labels.shape), tf.float32)
    results = []
    for function in (
        loss_module.smoothed_cross_entropy,
        loss_module.plain_smoothed_cross_entropy,
    ):
        with tf.GradientTape() as tape:
            z = tf.convert_to_tensor(logits, tf.float32)
            tape.watch(z)
            losses = function(labels, z, label_smoothing, smoothed_over)
            value = tf.reduce_sum(losses * weights)
        results.append((losses, tape.gradient(value, z)))
    (fast, fast_gradient), (plain, plain_gradient) = results
    np.testing.assert_allclose(fast, plain, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(fast_gradient, plain_gradient, atol=1e-6)


@pytest.mark.parametrize("smoothed_over", ["all", "others", "others_but_padding"])
def test_conventions(rng, logits, smoothed_over):
    """Value and gradient against the distribution written out; values of whole rows."""
    labels = np.where(LABELS == 0, 3, LABELS)
    q = np.zeros(logits.shape)
    for place in np.ndindex(*labels.shape):
        for k in range(VOCAB):
            if k == labels[place]:
                q[place][k] = 0.8 + (0.2 / VOCAB if smoothed_over == "all" else 0)
            elif smoothed_over == "others":
                q[place][k] = 0.2 / (VOCAB - 1)
            elif smoothed_over == "all":
                q[place][k] = 0.2 / VOCAB
            elif k != 0:
                q[place][k] = 0.2 / (VOCAB - 2)
    np.testing.assert_allclose(q.sum(axis=-1), 1.0)
    log_p = logits - np.log(np.exp(logits.astype("float64")).sum(axis=-1, keepdims=True))

    def weighted(labels, logits):
        losses = loss_module.smoothed_cross_entropy(labels, logits, 0.2, smoothed_over)
        return tf.reduce_sum(losses * tf.constant(weights, tf.float32))

    weights = rng.normal(size=labels.shape)
    value, gradient = value_and_gradient(weighted, labels, logits)
    expected = -(q * log_p).sum(axis=-1)
    computed = loss_module.smoothed_cross_entropy(labels, logits, 0.2, smoothed_over)
    np.testing.assert_allclose(computed, expected, rtol=1e-5)
    np.testing.assert_allclose(gradient, (np.exp(log_p) - q) * weights[..., None], atol=1e-5)
    np.testing.assert_allclose(value, (expected * weights).sum(), rtol=1e-4)
    # The distribution by itself, and its entropy.
    for label, expected in ((labels, q), (int(labels[0, 0]), q[0, 0])):
        distribution = loss_module.label_distribution(label, VOCAB, 0.2, smoothed_over)
        np.testing.assert_allclose(distribution, expected, rtol=1e-6)
    positive = q[0, 0][q[0, 0] > 0]
    np.testing.assert_allclose(
        loss_module.label_entropy(VOCAB, 0.2, smoothed_over),
        -(positive * np.log(positive)).sum(),
        rtol=1e-6,
    )


def test_unknown_convention():
    message = "`smoothed_over` must be one of .*Received: smoothed_over='some'"
    with pytest.raises(ValueError, match=message):
        LabelSmoothedCrossEntropy(smoothed_over="some")


def test_other_reductions_are_refused():
    with pytest.raises(ValueError, match=r"the loss is a sum over tokens.* Received: reduction='n"):
        LabelSmoothedCrossEntropy(0.1, reduction="none")
    assert LabelSmoothedCrossEntropy(0.1, reduction="sum").reduction == "sum"

"""NiuTensor's article model, written anew in NumPy, from the same weights."""

import numpy as np
import pytest
import tensorflow as tf

from tests.tf_transformer.models.niutensor import Network, random_weights, smoothed_loss
from tf_transformer import LabelSmoothedCrossEntropy, Transformer, TransformerConfig
from tf_transformer.formats.naming import convert_weights, load_weights
from tf_transformer.formats.originals import NIUTENSOR
from tf_transformer.storage.weight_shapes import weight_shapes

SOURCE = np.array([[5, 6, 7, 8, 3], [9, 4, 3, 0, 0]], "int32")
TARGET = np.array([[2, 4, 9, 10, 6, 1], [2, 11, 5, 7, 0, 0]], "int32")
LABELS = np.array([[4, 9, 10, 6, 1, 3], [11, 5, 7, 3, 0, 0]], "int32")
LAYERS, HEADS, EPSILON = 2, 4, 1e-6


@pytest.fixture
def both():
    """The model, the NumPy program, and their weights."""
    rng = np.random.default_rng(1)
    weights = random_weights(rng, 10, 12, LAYERS, 16, 24)
    config = TransformerConfig.preset(
        "niutensor",
        source_vocab_size=10,
        target_vocab_size=12,
        num_encoder_layers=LAYERS,
        num_decoder_layers=LAYERS,
        d_model=16,
        d_ff=24,
        norm_position="post",  # the article; the preset has the program's pre-norm
        layer_norm_epsilon=EPSILON,
    )
    model = Transformer(config)
    load_weights(model, NIUTENSOR, weights)
    return model, Network(weights, LAYERS, HEADS, EPSILON), weights


def test_logits(both):
    model, network, _ = both
    expected = network.logits(SOURCE, TARGET)
    computed = np.asarray(model({"source": SOURCE, "target": TARGET}))
    np.testing.assert_allclose(computed[TARGET != 0], expected[TARGET != 0], atol=1e-5)


@pytest.mark.slow
def test_gradients_of_the_smoothed_loss(both):
    """Against central differences in float64, along four random directions of every array.

    To 1e-4 of the largest, and closer than that where an array's are small.
    """
    model, network, weights = both
    with tf.GradientTape() as tape:
        logits = model({"source": SOURCE, "target": TARGET})
        value = LabelSmoothedCrossEntropy(0.1)(LABELS, logits)
    np.testing.assert_allclose(
        value, smoothed_loss(network.logits(SOURCE, TARGET), LABELS, 0.1), rtol=1e-5
    )
    gradients = {
        variable.path.partition("/")[2]: np.asarray(tf.convert_to_tensor(gradient))
        for variable, gradient in zip(
            model.trainable_variables, tape.gradient(value, model.trainable_variables), strict=True
        )
    }
    rng = np.random.default_rng(2)
    shapes = weight_shapes(model.config)
    for name, array in [pair for pair in weights.items() for _ in range(4)]:
        direction = rng.normal(size=array.shape)
        direction /= np.linalg.norm(direction)
        values = []
        for step in (1e-5, -1e-5):
            weights[name] = array + step * direction
            values.append(smoothed_loss(network.logits(SOURCE, TARGET), LABELS, 0.1))
        weights[name] = array
        expected = (values[0] - values[1]) / 2e-5
        zero = {other: np.zeros_like(value) for other, value in weights.items()}
        ours = convert_weights(shapes, NIUTENSOR, zero | {name: direction})
        computed = sum((gradients[ours_name] * part).sum() for ours_name, part in ours)
        np.testing.assert_allclose(computed, expected, rtol=1e-4, atol=1e-6, err_msg=name)


def test_what_does_not_fit_is_refused(both):
    model, _, weights = both
    missing = {name: value for name, value in weights.items() if name != "encoder.1.inner.bias"}
    with pytest.raises(ValueError, match=r"No weight 'encoder.1.inner.bias' for .*inner/bias"):
        load_weights(model, NIUTENSOR, missing)
    with pytest.raises(ValueError, match=r"no weights for decoder\.7\.inner\.bias"):
        load_weights(model, NIUTENSOR, weights | {"decoder.7.inner.bias": np.zeros(3)})
    with pytest.raises(ValueError, match=r"expected the shape \(16, 12\).*Received: \(16, 11\)"):
        load_weights(model, NIUTENSOR, weights | {"output.weight": np.zeros((16, 11))})

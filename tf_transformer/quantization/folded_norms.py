"""Norms before sublayers that are one factor a row; the weights around them take over the rest.

A norm is gamma x' + beta with x' = (x - mean(x)) / sqrt(variance(x) + epsilon), and only a product
reads it in a pre-norm layer, so that

    W (gamma x' + beta) + b = (W diag(gamma)) x' + (W beta + b).

x has mean 0, and x' = x / sqrt(mean(x^2) + epsilon), if what enters the stack has mean 0, and so
have the outputs of all sublayers, which are added to it: their last products lose the mean of their
columns and of their bias. The stack's last norm does not see the difference.

In post-norm layers the residual connection reads the norm's output, too, so nothing can be folded.
"""

from collections.abc import Iterator

import keras
import numpy as np

from tf_transformer.layers.decoder import DecoderLayer
from tf_transformer.layers.dense import Projection
from tf_transformer.layers.normalization import LayerNormalization
from tf_transformer.layers.residual import Residual
from tf_transformer.layers.stack import Stack, TransformerLayer
from tf_transformer.private_interfaces import sublayers

# Wider norms, whose share of the time is smaller, were not measured (`python -m benchmarks.norms`).
_MAX_WIDTH = 512


def fold_norms(model: keras.Model) -> None:
    """Folds the norms of the pre-norm stacks of a float32 model, permanently.

    The outputs are unchanged except for rounding. Stacks that it cannot fold stay as they are: with
    other norms than layer norm, without a last norm, without biases, with SSRU, with a layer
    history, wider than 512, or with products that were replaced or have LoRA weights.

    Args:
        model: the model to change, which is then used for decoding and nothing else.
    """
    for stack in sublayers(model):
        if isinstance(stack, Stack) and _can_be_folded(stack):
            _fold(stack)


def _can_be_folded(stack: Stack) -> bool:
    settings = stack.layer_settings
    if (
        settings.norm_position != "pre"
        or getattr(settings, "autoregression", "self_attention") != "self_attention"
        or not isinstance(stack.final_norm, LayerNormalization)
        or not settings.dense_bias
        or stack.settings.layer_history
        or stack.compute_dtype != "float32"
        or stack.final_norm.gamma.shape[0] > _MAX_WIDTH
    ):
        return False
    products = [
        product
        for layer in stack.stacked_layers
        for _, first, last in _sublayers(layer)
        for product in (first, last)
    ]
    return not any(
        x.product is not None or x.update is not None or x.lora_enabled for x in products
    )


def _sublayers(layer: TransformerLayer) -> Iterator[tuple[Residual, Projection, Projection]]:
    """Yields the residual connection of each sublayer, its first product, and its last one."""
    attention, feed_forward = layer.self_attention, layer.feed_forward
    yield layer.self_attention_residual, attention.query_key_value, attention.output_projection
    if isinstance(layer, DecoderLayer) and layer.has_cross_attention:
        attention = layer.cross_attention
        yield layer.cross_attention_residual, attention.query, attention.output_projection
    yield layer.feed_forward_residual, feed_forward.inner, feed_forward.outer


def _fold(stack: Stack) -> None:
    for layer in stack.stacked_layers:
        for residual, first, last in _sublayers(layer):
            gamma, beta, kernel, bias = (
                np.asarray(weight, "float64")
                for weight in (residual.norm.gamma, residual.norm.beta, first.kernel, first.bias)
            )
            first.kernel.assign(gamma[:, None] * kernel)
            first.bias.assign(beta @ kernel + bias)
            residual.norm.fold()
            for weight in (last.kernel, last.bias):
                values = np.asarray(weight, "float64")
                weight.assign(values - values.mean(axis=-1, keepdims=True))
    stack.is_centred = True

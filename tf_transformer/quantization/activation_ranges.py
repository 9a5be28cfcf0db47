"""The ranges of the inputs of a model's products, observed while the model computes."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_transformer.errors import InputError
from tf_transformer.layers.dense import Projection
from tf_transformer.models.base import DecoderModel
from tf_transformer.private_interfaces import sublayers, tracker_unlocked

# A magnitude is counted by the upper half of its float32: 8 bits of the exponent and 7 of the
# mantissa. Bins are at most 1/128 of their values wide.
_DROPPED_BITS = 16
_NUM_BINS = 2**15
_FIRST_INFINITE_BIN = 0x7F80


class MagnitudeCounts:
    """Counts of the magnitudes of values, in bounded memory.

    The counts are exact integers, so they do not depend on the order of the values.
    """

    def __init__(self) -> None:
        self._counts = tf.Variable(tf.zeros(_NUM_BINS, tf.int64), trainable=False)

    def add(self, values: tf.Tensor) -> None:
        """Counts values, float32 of any shape, eagerly or as part of a graph."""
        bits = tf.bitcast(tf.abs(values), tf.int32)
        tf.raw_ops.ResourceScatterAdd(
            resource=self._counts.handle,
            indices=tf.bitwise.right_shift(bits, _DROPPED_BITS),
            updates=tf.constant(1, tf.int64),
        )

    def percentile(self, percentile: float) -> float:
        """Returns a range that contains a percentage of the magnitudes other than 0.

        Zeros, half of the outputs of a ReLU, say nothing about a range.

        Args:
            percentile: above 0, at most 100.

        Returns:
            The upper end of a bin, at most 1/128 above the percentile; 1 if all values were 0.

        Raises:
            InputError: values were not finite.
        """
        counts = self._counts.numpy()
        if counts[_FIRST_INFINITE_BIN:].any():
            raise InputError("the activations of the model are not finite, so they have no range")
        counts[0] = 0
        total = int(counts.sum())
        if not total:
            return 1.0
        index = int(np.searchsorted(np.cumsum(counts), total * (percentile / 100)))
        bits = np.array((index + 1) << _DROPPED_BITS, np.int32)
        return float(np.minimum(bits.view(np.float32), np.finfo(np.float32).max))


def products_of(model: DecoderModel) -> list[keras.layers.Layer]:
    """Returns the layers with products that `quantize` replaces: projections, and tied logits."""
    layers = [layer for layer in sublayers(model) if isinstance(layer, Projection)]
    return layers if model.logits_projection is not None else [*layers, model.target_embedding]


@contextlib.contextmanager
def observed_inputs(model: DecoderModel) -> Iterator[dict[keras.layers.Layer, MagnitudeCounts]]:
    """Counts the magnitudes of the inputs of every product, in a `with` statement.

    Functions that were traced before the statement count nothing, and those traced in it count
    after it as well.

    Args:
        model: a float32 model without tiled or quantized weights.

    Yields:
        The counts by layer, see `products_of`.
    """
    counts = {layer: MagnitudeCounts() for layer in products_of(model)}
    for layer in counts:
        _set_product(layer, _observing(layer, counts[layer]))
    try:
        yield counts
    finally:
        for layer in counts:
            _set_product(layer, None)


def _observing(layer, counts) -> Callable[[Any], Any]:
    """Returns the product of a layer, which also counts its inputs."""

    def product(inputs):
        counts.add(inputs)
        return layer.own_product(inputs)

    return product


def _set_product(layer, product):
    with tracker_unlocked(layer):
        layer.product = product

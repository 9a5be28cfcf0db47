"""Weights laid out for decoding, where a product has few rows and reading the weights is its cost.

A row-major matrix is read in long strides by a product of 2 to 100 rows, which takes twice to three
times as long as reading it straight through once the weights no longer fit the processor's cache.
In column tiles it is read straight through: `python -m benchmarks.products`.
"""

from typing import Any

import keras
import numpy as np
from keras import ops

from tf_transformer.layers.dense import Projection
from tf_transformer.models.base import DecoderModel
from tf_transformer.private_interfaces import sublayers

_TILE_WIDTH = 64
# Smaller ones stay in the cache.
_LEAST_SIZE = 512 * 512


class TiledProduct(keras.layers.Layer):
    """x W + b, tile by tile of W's columns.

    Args:
        kernel: W, `(inputs, outputs)`; the outputs must be a multiple of the tile's width.
        bias: b, `(outputs,)`, or None.

    Call arguments:
        inputs: `(..., inputs)`.

    Returns:
        `(..., outputs)`.
    """

    def __init__(self, kernel: np.ndarray, bias: np.ndarray | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        kernel = np.asarray(kernel)
        num_inputs, self.num_outputs = kernel.shape
        tiles = kernel.reshape(num_inputs, -1, _TILE_WIDTH).transpose(1, 0, 2)
        self.tiles = self.add_weight(shape=tiles.shape, name="tiles")
        self.tiles.assign(tiles)
        self.bias = None
        if bias is not None:
            self.bias = self.add_weight(shape=bias.shape, name="bias")
            self.bias.assign(bias)
        self.built = True

    def call(self, inputs):
        rows = ops.reshape(inputs, (1, -1, inputs.shape[-1]))
        # (1, rows, inputs) x (tiles, inputs, width) -> (tiles, rows, width) -> (rows, tiles, width)
        outputs = ops.transpose(ops.matmul(rows, self.tiles), (1, 0, 2))
        outputs = ops.reshape(outputs, (*ops.shape(inputs)[:-1], self.num_outputs))
        return outputs if self.bias is None else outputs + self.bias


def tile_weights(model: DecoderModel) -> None:
    """Lays out the weights of large products in tiles, for good.

    The outputs stay the same but for rounding. A model that is trained on, saved or looked into
    needs its own layout: do this to models that only decode.
    """
    for layer in sublayers(model):
        if isinstance(layer, Projection) and layer.product is None and _is_worth_it(layer.kernel):
            layer.replace_product(TiledProduct(layer.kernel, layer.bias, dtype=layer.dtype_policy))
    table = np.transpose(model.target_embedding.embeddings)
    if model.logits_projection is None and _is_worth_it(table):
        model.target_embedding.set_product(TiledProduct(table, dtype="float32"))


def _is_worth_it(kernel):
    num_inputs, num_outputs = kernel.shape
    return num_inputs * num_outputs >= _LEAST_SIZE and num_outputs % _TILE_WIDTH == 0

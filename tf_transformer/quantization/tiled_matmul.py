"""Weights arranged for decoding, where products have few rows and reading the weights dominates.

A product of 2 to 100 rows reads a row-major matrix in long strides. On processors with AVX-512, if
the matrix does not fit the cache, this takes up to 1.7 times as long as reading it sequentially,
as weights in column tiles are read. On processors without, row-major matrices take less time for
few rows, and that of the logits for any (`python -m benchmarks.products`). There, and where it is
small, an embedding matrix whose transpose gives the logits gets a transposed copy, see
`TransposedProduct`.
"""

from typing import Any

import keras
import numpy as np
from keras import ops

from tf_transformer.layers.dense import Projection
from tf_transformer.models.assignment import aligned_zeros, shared_array, shared_tensor
from tf_transformer.models.base import DecoderModel
from tf_transformer.private_interfaces import sublayers
from tf_transformer.processor import has_avx512

_TILE_WIDTH = 64
# Smaller matrices stay in the cache.
_MIN_SIZE = 512 * 512


class TiledProduct(keras.layers.Layer):
    """Computes x W + b with W in tiles of 64 columns.

    Args:
        kernel: W, `(inputs, outputs)`; the last tile is filled up with zeros.
        bias: b, `(outputs,)`, or None.
        **kwargs: those of `keras.layers.Layer`.

    Call arguments:
        inputs: `(..., inputs)`.

    Returns:
        `(..., outputs)`.
    """

    def __init__(self, kernel: np.ndarray, bias: np.ndarray | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        num_inputs, self.num_outputs = kernel.shape
        num_tiles = -(-self.num_outputs // _TILE_WIDTH)
        tiles = aligned_zeros((num_tiles, num_inputs, _TILE_WIDTH), self.variable_dtype)
        for index, tile in enumerate(tiles):
            columns = kernel[:, index * _TILE_WIDTH : (index + 1) * _TILE_WIDTH]
            tile[:, : columns.shape[1]] = columns
        self.tiles = self.add_weight(
            shape=tiles.shape,
            initializer=lambda shape, dtype: shared_tensor(tiles),
            name="tiles",
        )
        self.bias = None
        if bias is not None:
            self.bias = self.add_weight(shape=bias.shape, name="bias")
            self.bias.assign(bias)
        self.built = True

    def call(self, inputs):
        rows = ops.reshape(inputs, (1, -1, inputs.shape[-1]))
        if rows.shape[1] is not None:
            # The search that XLA compiles has a static number of rows. XLA's product is twice as
            # fast with copies of them; TensorFlow's is not, and copies of many rows take long.
            rows = ops.repeat(rows, self.tiles.shape[0], axis=0)
        # (1, rows, inputs) x (tiles, inputs, width) -> (tiles, rows, width) -> (rows, tiles, width)
        outputs = ops.transpose(ops.matmul(rows, self.tiles), (1, 0, 2))
        shape = (*ops.shape(inputs)[:-1], self.tiles.shape[0] * _TILE_WIDTH)
        outputs = ops.reshape(outputs, shape)[..., : self.num_outputs]
        return outputs if self.bias is None else outputs + self.bias

    def columns(self, indices: Any) -> Any:
        """Returns some columns of W, `(inputs, columns)`."""
        num_inputs = self.tiles.shape[1]
        rows = ops.arange(num_inputs, dtype=indices.dtype)[:, None]
        tile, column = indices // _TILE_WIDTH, indices % _TILE_WIDTH
        entries = (tile * num_inputs + rows) * _TILE_WIDTH + column
        return ops.take(ops.reshape(self.tiles, (-1,)), entries)


class TransposedProduct(keras.layers.Layer):
    """Computes x E^T with a copy of E^T.

    With `transpose_b`, TensorFlow's product takes longer, most for few rows: 3.6 times for 5 rows
    of 128 x 1200 (`python -m benchmarks.products --shape 128 1200 --megabytes 1 --rows 5`).

    Args:
        matrix: E, `(outputs, inputs)`.
        **kwargs: those of `keras.layers.Layer`.

    Call arguments:
        inputs: `(..., inputs)`.

    Returns:
        `(..., outputs)` float32.
    """

    def __init__(self, matrix: np.ndarray, **kwargs: Any):
        super().__init__(dtype="float32", **kwargs)
        transposed = aligned_zeros(matrix.shape[::-1])
        transposed[:] = matrix.T
        self.kernel = self.add_weight(
            shape=transposed.shape,
            initializer=lambda shape, dtype: shared_tensor(transposed),
            name="kernel",
        )
        self.built = True

    def call(self, inputs):
        rows = ops.reshape(inputs, (-1, inputs.shape[-1]))
        shape = (*ops.shape(inputs)[:-1], self.kernel.shape[1])
        return ops.reshape(ops.matmul(rows, self.kernel), shape)


def arrange_weights(model: DecoderModel, tiled: bool | None = None) -> None:
    """Arranges the weights of products for decoding on a CPU, permanently.

    Those of large products get tiles; an embedding matrix that gives the logits gets tiles, too, or
    a transposed copy. Products that another one has replaced, such as an 8-bit one, stay as they
    are.

    The outputs are unchanged except for rounding. Arrange only models that are used for decoding
    and nothing else: training, saving and inspection need the original weights.

    Args:
        model: the model to change.
        tiled: whether there are tiles; None means on processors with AVX-512.
    """
    tiled = has_avx512() if tiled is None else tiled
    for layer in sublayers(model):
        if (
            tiled
            and isinstance(layer, Projection)
            and layer.product is None
            and _benefits_from_tiles(layer.kernel)
        ):
            kernel = shared_array(layer.kernel)
            layer.replace_product(TiledProduct(kernel, layer.bias, dtype=layer.dtype_policy))
    if model.logits_projection is None and model.target_embedding.table is None:
        matrix = shared_array(model.target_embedding.embeddings)
        is_large = tiled and _benefits_from_tiles(matrix.T)
        product = TiledProduct(matrix.T, dtype="float32") if is_large else TransposedProduct(matrix)
        model.target_embedding.set_product(product)


def _benefits_from_tiles(kernel):
    num_inputs, num_outputs = kernel.shape
    return num_inputs * num_outputs >= _MIN_SIZE and num_outputs >= _TILE_WIDTH

"""Matrices in integers with one scale, expanded to float32 when they are read."""

import struct
from typing import NamedTuple

import numpy as np

from tf_transformer.formats.tensors.dtypes import ITEM_SIZES, decode, num_values
from tf_transformer.formats.tensors.stored_file import FormatError, StoredFile, naming


class IntegerType(NamedTuple):
    """A type of matrices in integers.

    Attributes:
        name: its name.
        integers: the type of the integers.
        embeddings_transposed: whether embeddings are stored transposed, as all others are.
    """

    name: str
    integers: str
    embeddings_transposed: bool


class QuantizedMatrix:
    """A matrix in integers with one scale, see `Tensor`.

    Args:
        file: the file.
        begin: position of the first byte.
        shape: shape of the matrix.
        kind: its type.
        transposed: whether it is stored transposed.
    """

    def __init__(
        self,
        file: StoredFile,
        begin: int,
        shape: tuple[int, ...],
        kind: IntegerType,
        transposed: bool,
    ):
        self.shape, self._file, self._begin = shape, file, begin
        self._kind, self._transposed = kind, transposed

    @property
    def dtype(self) -> str:
        """Name of the type in the file."""
        return self._kind.name

    @property
    def num_bytes(self) -> int:
        """Bytes that are read: the integers and the scale."""
        return num_values(self.shape) * ITEM_SIZES[self._kind.integers] + ITEM_SIZES["float32"]

    def read(self) -> np.ndarray:
        """Returns the values in float32: as in Marian, times the inverse of the scale."""
        size = self.num_bytes - ITEM_SIZES["float32"]
        raw = np.empty(size, np.uint8)
        with naming(self._file.path):
            self._file.fill(self._begin, raw)
            (scale,) = struct.unpack("<f", self._file.read(self._begin + size, 4))
            if not scale > 0:
                raise FormatError(f"damaged: expected a positive scale of a matrix, got {scale}")
        with np.errstate(over="ignore"):  # values that are not finite are found later
            inverse = np.float32(1) / np.float32(scale)
        integers, columns = decode(raw, self._kind.integers), self.shape[-1]
        matrix = integers.reshape(columns, -1).T if self._transposed else integers
        values = matrix.astype(np.float32, order="C").reshape(self.shape)
        with np.errstate(invalid="ignore"):
            values *= inverse
        return values

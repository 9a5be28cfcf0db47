"""Tensors that are read from their file each time that they are needed."""

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from tf_transformer.formats.tensors.dtypes import ITEM_SIZES, decode, num_values
from tf_transformer.formats.tensors.stored_file import FormatError, StoredFile, naming
from tf_transformer.printable import shown

_MAX_NAME_LENGTH = 1_000


class Tensor(Protocol):
    """A tensor in a file.

    Attributes:
        shape: its shape.
        dtype: name of the type of its values in the file, such as `bfloat16`.
        num_bytes: bytes that are read for it.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def num_bytes(self) -> int: ...

    def read(self) -> np.ndarray:
        """Returns the values: float32 for every floating-point type, others as they are.

        Raises:
            InputError: the file is damaged.
        """
        ...


@dataclasses.dataclass(eq=False)
class Storage:
    """Consecutive values in a file.

    Attributes:
        file: the file.
        dtype: name of their type.
        size: number of values.
        begin: position in the file of the first byte.
    """

    file: StoredFile
    dtype: str
    size: int
    begin: int

    @property
    def num_bytes(self) -> int:
        return self.size * ITEM_SIZES[self.dtype]


class StoredTensor:
    """A tensor whose values are in a storage, at regular distances.

    Args:
        storage: the values.
        start: index in the storage of the first value.
        shape: shape of the tensor.
        strides: for each axis, the distance in the storage of neighbours along it; None if the
            values are consecutive, in C order.

    Raises:
        FormatError: a value is outside the storage, the tensor has more values than the storage, or
            a stride is not positive.
    """

    def __init__(
        self,
        storage: Storage,
        start: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None = None,
    ):
        count = num_values(shape)
        self.shape, self._storage, self._start = shape, storage, start
        self._strides = (
            _contiguous(shape) if strides is None or not count else _plain(shape, strides)
        )
        self._span = count and 1 + sum(
            (size - 1) * stride for size, stride in zip(shape, self._strides, strict=True)
        )
        if start < 0 or start + self._span > storage.size or count > storage.size:
            raise FormatError(
                f"a tensor of shape {shape} is not inside its {storage.size:,} values"
            )

    @property
    def dtype(self) -> str:
        """Name of the type of the values in the file."""
        return self._storage.dtype

    @property
    def num_bytes(self) -> int:
        """Bytes that are read: from the first to the last value."""
        return self._span * ITEM_SIZES[self.dtype]

    def read(self) -> np.ndarray:
        """Returns the values, see `Tensor`."""
        raw = np.empty(self.num_bytes, np.uint8)
        with naming(self._storage.file.path):
            begin = self._storage.begin + self._start * ITEM_SIZES[self.dtype]
            self._storage.file.fill(begin, raw)
        values = decode(raw, self.dtype)
        if self._span == 0 or self._strides == _contiguous(self.shape):
            return values.reshape(self.shape)
        strides = [stride * values.itemsize for stride in self._strides]
        return np.ascontiguousarray(np.lib.stride_tricks.as_strided(values, self.shape, strides))

    def __repr__(self) -> str:
        return f"StoredTensor(shape={self.shape}, dtype={self.dtype!r})"


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, stride = [], 1
    for size in reversed(shape):
        strides.append(stride)
        stride *= max(size, 1)
    return tuple(reversed(strides))


def _plain(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the strides, checked; those of axes of size 1, which can be any number, replaced."""
    if len(strides) != len(shape) or any(type(stride) is not int for stride in strides):
        raise FormatError("the strides of a tensor must be an integer for each axis")
    if any(size > 1 and stride < 1 for size, stride in zip(shape, strides, strict=True)):
        raise FormatError("expanded tensors and negative strides are not supported")
    plain = _contiguous(shape)
    return tuple(
        stride if size > 1 else own for size, stride, own in zip(shape, strides, plain, strict=True)
    )


class TensorFile(Mapping[str, np.ndarray]):
    """The tensors of a file by name, in the file's order; `file[name]` reads one.

    Each access reads the tensor from disk, so iteration needs memory for one tensor at a time. The
    files are closed at the end of a `with` statement, by `close`, or when this object is collected.

    Args:
        path: the file that names the tensors.
        tensors: the tensors.
        files: the files to close; other than `path` if the tensors are in several files.

    Attributes:
        path: the file that names the tensors.
        shapes: shape of each tensor.
        dtypes: name of the type of each tensor's values in the file. `file[name]` is of type
            float32 for every floating-point type, and of this type otherwise.

    Raises:
        FormatError: a name is not printable text.
    """

    def __init__(
        self, path: pathlib.Path, tensors: Mapping[str, Tensor], files: Sequence[StoredFile]
    ):
        for name in tensors:
            if not name or len(name) > _MAX_NAME_LENGTH or not name.isprintable():
                raise FormatError(f"the name of a tensor is not printable text: {shown(name)}")
        self.path = path
        self._tensors, self._files = dict(tensors), tuple(files)
        self.shapes = {name: tensor.shape for name, tensor in tensors.items()}
        self.dtypes = {name: tensor.dtype for name, tensor in tensors.items()}

    def __getitem__(self, name: str) -> np.ndarray:
        return self._tensors[name].read()

    def __contains__(self, name: object) -> bool:
        return name in self._tensors  # that of `Mapping` reads the tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def close(self) -> None:
        """Closes the files; the tensors cannot be read any more."""
        for file in self._files:
            file.close()

    def __enter__(self) -> "TensorFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

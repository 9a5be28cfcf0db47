"""Marian's binary models: those of marian-conv, and those of Firefox and Bergamot.

    u64 version, 1 | u64 number of items
    of each item: u64 bytes of its name | u64 type | u64 axes | u64 bytes of its values
    the names, each with NUL at its end | i32 size of each axis, item after item
    u64 bytes of padding, and the padding | the values of each item, perhaps with padding

All little-endian. `src/common/binary.cpp` and `types.h` of marian-nmt/marian-dev and of its branch
browsermt/marian-dev, which Firefox's models come from, write and number it.

A matrix in integers is followed by a float32, by which its values were multiplied. It is stored
transposed, under its own shape; in browsermt's files, embeddings are not transposed. Types that
contain the name of a kind of CPU have another order of the values and are refused.
"""

import struct
from typing import NamedTuple

from tf_transformer.formats.foreign_content import NUM_BYTES, describe
from tf_transformer.formats.marian.quantized_matrix import IntegerType, QuantizedMatrix
from tf_transformer.formats.tensors.dtypes import num_values
from tf_transformer.formats.tensors.stored_file import FormatError, StoredFile
from tf_transformer.formats.tensors.tensor_file import Storage, StoredTensor, Tensor
from tf_transformer.printable import shown

_VERSION, _ENCRYPTED = 1, 2
_PLAIN = {
    0x101: "int8", 0x102: "int16", 0x104: "int32", 0x108: "int64",
    0x201: "uint8", 0x202: "uint16", 0x204: "uint32", 0x208: "uint64",
    0x402: "float16", 0x404: "float32", 0x408: "float64",
}  # fmt: skip
# By kinds of CPU, those of marian-nmt and of FBGEMM.
_OF_ONE_CPU = {
    0x802: "packed16", 0x1801: "packed8avx2", 0x2801: "packed8avx512",
    0x18001: "intgemm8ssse3", 0x11001: "intgemm8avx2", 0x12001: "intgemm8avx512",
    0x13001: "intgemm8avx512vnni", 0x14002: "intgemm16sse2", 0x11002: "intgemm16avx2",
    0x12002: "intgemm16avx512",
}  # fmt: skip
_EMBEDDINGS = "Wemb"
# Values are padded to a multiple of 256 bytes, or not at all.
_MOST_PADDING = 256
_MAX_NAME_BYTES, _MAX_AXES = 500, 4
# What an item takes at least on average, with its header; the object of an item takes 1 kB.
_LEAST_ITEM_BYTES = 200
_QUANTIZED = {
    0x4101: IntegerType("intgemm8", "int8", False),
    0x4102: IntegerType("intgemm16", "int16", False),
    0x10001: IntegerType("intgemm8", "int8", True),
    0x10002: IntegerType("intgemm16", "int16", True),
}
QUANTIZED_NAMES = frozenset(kind.name for kind in _QUANTIZED.values())


class _Header(NamedTuple):
    name_bytes: int
    type: int
    num_axes: int
    num_bytes: int


def begins_like_marian(begin: bytes, size: int) -> bool:
    """Returns whether a file begins like a binary model of Marian.

    Args:
        begin: its first 16 bytes.
        size: its size in bytes.
    """
    if len(begin) < 16:
        return False
    version, count = struct.unpack("<2Q", begin[:16])
    return version == _VERSION and 0 < count <= size // _LEAST_ITEM_BYTES


def read_binary_model(file: StoredFile) -> dict[str, Tensor]:
    """Returns the items of a file by name, whose values are read when they are needed.

    Raises:
        FormatError: it is of another format or version, encrypted, or damaged, declares what it
            does not hold, or has values in the layout of one kind of CPU.
    """
    cursor = _Cursor(file)
    _check_version(file, cursor)
    if not 0 < (count := cursor.number()) <= file.size // _LEAST_ITEM_BYTES:
        raise FormatError(f"declares {count:,} items, but is a file of {file.size:,} bytes")
    headers = [_Header(*struct.unpack("<4Q", cursor.take(32))) for _ in range(count)]
    names = [cursor.name(header.name_bytes) for header in headers]
    shapes = [cursor.shape(header.num_axes) for header in headers]
    padding = cursor.number()
    cursor.position += padding
    tensors: dict[str, Tensor] = {}
    for name, shape, header in zip(names, shapes, headers, strict=True):
        if name in tensors:
            raise FormatError(f"the item {shown(name)} occurs twice")
        tensor = _tensor(file, cursor.position, name, shape, header.type)
        if not 0 <= header.num_bytes - tensor.num_bytes <= _MOST_PADDING:
            raise FormatError(f"the shape of {shown(name)} does not match the bytes of its values")
        tensors[name] = tensor
        cursor.position += header.num_bytes
    if cursor.position != file.size:
        raise FormatError(f"expected {cursor.position:,} bytes, the file has {file.size:,}")
    file.check_stored(sum(header.num_bytes for header in headers))
    return tensors


def _check_version(file: StoredFile, cursor: "_Cursor") -> None:
    begin = file.read(0, min(file.size, NUM_BYTES))
    version = cursor.number() if file.size >= 8 else 0
    if version == _ENCRYPTED:
        raise FormatError("an encrypted model of Marian is not supported")
    if version != _VERSION:
        hint = describe(begin)
        raise FormatError(
            f"expected a binary model of Marian, version {_VERSION}; "
            + (f"this is {hint}" if hint else "this is another file")
        )


def _tensor(
    file: StoredFile, begin: int, name: str, shape: tuple[int, ...], number: int
) -> StoredTensor | QuantizedMatrix:
    count = num_values(shape)
    if number in _PLAIN:
        # That the file holds the values is known when all sizes are.
        return StoredTensor(Storage(file, _PLAIN[number], count, begin), 0, shape)
    if number in _OF_ONE_CPU:
        raise FormatError(
            f"{shown(name)} is of type {_OF_ONE_CPU[number]}, in the layout of one kind of CPU; "
            "expected a file that is for all, such as of marian-conv --gemm-type intgemm8"
        )
    if number not in _QUANTIZED:
        raise FormatError(f"{shown(name)} is of the unknown type {number:#x}")
    if not count:
        raise FormatError(f"the matrix {shown(name)} has no values")
    kind = _QUANTIZED[number]
    transposed = kind.embeddings_transposed or _EMBEDDINGS not in name
    return QuantizedMatrix(file, begin, shape, kind, transposed)


class _Cursor:
    """Reads a file from its begin, without the values of items."""

    def __init__(self, file: StoredFile):
        self._file = file
        self.position = 0

    def number(self) -> int:
        return int.from_bytes(self.take(8), "little")

    def name(self, num_bytes: int) -> str:
        content = self.take(num_bytes) if 1 < num_bytes <= _MAX_NAME_BYTES else b""
        name = content[:-1]
        if content[-1:] != b"\0" or not name.isascii() or not name.decode("ascii").isprintable():
            raise FormatError(f"damaged: expected a name at byte {self.position:,}")
        return name.decode("ascii")

    def shape(self, num_axes: int) -> tuple[int, ...]:
        if not 0 < num_axes <= _MAX_AXES:
            raise FormatError(f"an item has {num_axes:,} axes; expected 1 to {_MAX_AXES}")
        return struct.unpack(f"<{num_axes}i", self.take(4 * num_axes))

    def take(self, num_bytes: int) -> bytes:
        content = self._file.read(self.position, num_bytes)
        self.position += num_bytes
        return content

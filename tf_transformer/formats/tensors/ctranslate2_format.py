"""The file `model.bin` of CTranslate2, versions 4 to 6 of its format.

    u32 version | string name of the specification | u32 its revision
    u32 number of variables, and for each: string name | u8 axes | u32 size of each axis |
        u8 type | u32 bytes | the values, in C order
    u32 number of aliases, and for each: string alias | string name of a variable

All little-endian; a string is u16 bytes and so many characters, the last of them NUL.
`ModelSpec._serialize` in CTranslate2's python/ctranslate2/specs/model_spec.py writes it.
"""

import struct
from typing import NamedTuple

from tf_transformer.formats.tensors.dtypes import ITEM_SIZES, num_values
from tf_transformer.formats.tensors.stored_file import FormatError, StoredFile
from tf_transformer.formats.tensors.tensor_file import Storage, StoredTensor
from tf_transformer.printable import shown

VERSIONS = range(4, 7)
# By their numbers in the file, include/ctranslate2/types.h.
_DTYPES = ("float32", "int8", "int16", "int32", "float16", "bfloat16")
_MAX_ENTRIES = 100_000
_MAX_NAME_BYTES = 500


class CTranslate2File(NamedTuple):
    """The contents of a file, but for the values.

    Attributes:
        version: version of the format.
        specification: name of the kind of model, such as `TransformerSpec`.
        tensors: the variables by name, aliases included.
    """

    version: int
    specification: str
    tensors: dict[str, StoredTensor]


def read_ctranslate2(file: StoredFile) -> CTranslate2File:
    """Reads a file.

    Raises:
        FormatError: it is of another format or version, or damaged.
    """
    cursor = _Cursor(file)
    version = cursor.number("I")
    if version not in VERSIONS:
        raise FormatError(
            f"expected a model.bin of version {VERSIONS[0]} to {VERSIONS[-1]}, got {version:,}"
        )
    specification = cursor.text()
    cursor.number("I")
    tensors: dict[str, StoredTensor] = {}
    for _ in range(cursor.count()):
        name = cursor.text()
        if name in tensors:
            raise FormatError(f"the variable {shown(name)} occurs twice")
        tensors[name] = cursor.tensor(name)
    for _ in range(cursor.count()):
        alias, name = cursor.text(), cursor.text()
        if alias in tensors or name not in tensors:
            raise FormatError(
                f"an alias {shown(alias)} of {shown(name)} does not fit the variables"
            )
        tensors[alias] = tensors[name]
    if cursor.position != file.size:
        raise FormatError(f"expected {cursor.position:,} bytes, the file has {file.size:,}")
    return CTranslate2File(version, specification, tensors)


class _Cursor:
    """Reads a file from its begin, without the values of variables."""

    def __init__(self, file: StoredFile):
        self._file = file
        self.position = 0

    def number(self, code: str) -> int:
        size = struct.calcsize(f"<{code}")
        (value,) = struct.unpack(f"<{code}", self._take(size))
        return value

    def count(self) -> int:
        count = self.number("I")
        if count > _MAX_ENTRIES:
            raise FormatError(f"expected at most {_MAX_ENTRIES:,} entries, got {count:,}")
        return count

    def text(self) -> str:
        size = self.number("H")
        content = self._take(size) if 0 < size <= _MAX_NAME_BYTES else b""
        if content[-1:] != b"\0" or not content[:-1].isascii():
            raise FormatError(f"damaged: expected a name at byte {self.position:,}")
        return content[:-1].decode("ascii")

    def tensor(self, name: str) -> StoredTensor:
        shape = tuple(self.number("I") for _ in range(self.number("B")))
        number, num_bytes = self.number("B"), self.number("I")
        if number >= len(_DTYPES):
            raise FormatError(f"{shown(name)} is of the unknown type {number}")
        dtype = _DTYPES[number]
        count = num_values(shape)
        if num_bytes != count * ITEM_SIZES[dtype]:
            raise FormatError(f"the shape of {shown(name)} does not match the bytes of its values")
        begin, self.position = self.position, self.position + num_bytes
        return StoredTensor(Storage(self._file, dtype, count, begin), 0, shape)

    def _take(self, size: int) -> bytes:
        content = self._file.read(self.position, size)
        self.position += size
        return content

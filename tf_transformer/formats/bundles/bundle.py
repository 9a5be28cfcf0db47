"""The variables of a checkpoint: `NAME.index`, and values in `NAME.data-00000-of-00001`.

The names of the fields are those of TensorFlow's `tensor_bundle.proto` and `tensor_shape.proto`.
TensorFlow's own reader of the index ends the process if a shape in it is not valid.
"""

import contextlib
import dataclasses
import pathlib
from collections.abc import Mapping

import numpy as np

from tf_transformer.formats.bundles.crc32c import crc32c, unmasked
from tf_transformer.formats.bundles.sorted_table import is_table, read_table
from tf_transformer.formats.bundles.wire_format import number_of, read_fields
from tf_transformer.formats.tensors.dtypes import ITEM_SIZES, decode, num_values
from tf_transformer.formats.tensors.stored_file import FormatError, StoredFile, naming
from tf_transformer.formats.tensors.tensor_file import TensorFile
from tf_transformer.printable import shown

INDEX_SUFFIX = ".index"
# The numbers of `types.proto`.
_DTYPES = {
    1: "float32",
    2: "float64",
    3: "int32",
    4: "uint8",
    5: "int16",
    6: "int8",
    9: "int64",
    10: "bool",
    14: "bfloat16",
    17: "uint16",
    19: "float16",
    22: "uint32",
    23: "uint64",
}
_STRING = 7
# Fields of BundleHeaderProto, and of BundleEntryProto.
_NUM_SHARDS, _ENDIANNESS = 1, 2
_DTYPE, _SHAPE, _SHARD, _OFFSET, _SIZE, _CHECKSUM, _SLICES = range(1, 8)
# Fields of TensorShapeProto and its Dim.
_DIM, _UNKNOWN_RANK, _DIM_SIZE = 2, 3, 1
_MAX_SHARDS = 100


@dataclasses.dataclass(frozen=True)
class BundleTensor:
    """A tensor of a checkpoint, see `Tensor`.

    Attributes:
        file: the file of its values.
        name: its name, for error messages.
        shape: its shape.
        dtype: name of the type of its values.
        begin: position of the first byte.
        checksum: CRC-32C of the bytes.
    """

    file: StoredFile
    name: str
    shape: tuple[int, ...]
    dtype: str
    begin: int
    checksum: int

    @property
    def num_bytes(self) -> int:
        return num_values(self.shape) * ITEM_SIZES[self.dtype]

    def read(self) -> np.ndarray:
        """Returns the values, whose checksum is compared."""
        raw = np.empty(self.num_bytes, np.uint8)
        with naming(self.file.path):
            self.file.fill(self.begin, raw)
            if crc32c(raw) != self.checksum:
                raise FormatError(f"damaged: the checksum of {shown(self.name)} is wrong")
        return decode(raw, self.dtype).reshape(self.shape)


def is_index(path: pathlib.Path) -> bool:
    """Returns whether a file is the index of a checkpoint.

    Raises:
        InputError: it is not a regular file.
        FileNotFoundError: it does not exist.
    """
    with contextlib.closing(StoredFile(path)) as file:
        return is_table(file)


def open_bundle(path: pathlib.Path) -> TensorFile:
    """Opens a checkpoint, checks what its index declares, and reads no values yet.

    Args:
        path: the index.

    Returns:
        The tensors by name, without strings, which describe the program's objects.

    Raises:
        InputError: the index is damaged, or the files do not hold what it declares; later, that
            values are damaged.
        FileNotFoundError: the index or a file of values does not exist.
    """
    with naming(path):
        with contextlib.closing(StoredFile(path)) as file:
            entries = list(read_table(file))
        num_shards = _read_header(entries)
        with contextlib.ExitStack() as on_error:
            files = {}
            for shard in range(num_shards):
                name = f"{path.stem}.data-{shard:05d}-of-{num_shards:05d}"
                files[shard] = StoredFile(path.with_name(name))
                on_error.callback(files[shard].close)
            tensors = _read_tensors(entries[1:], files)
            opened = TensorFile(path, tensors, list(files.values()))
            on_error.pop_all()
    return opened


def _read_header(entries: list[tuple[bytes, bytes]]) -> int:
    """Returns the number of files of values."""
    if not entries or entries[0][0]:
        raise FormatError("expected the index of a checkpoint of TensorFlow, with a header")
    header = read_fields(entries[0][1])
    num_shards = number_of(header, _NUM_SHARDS)
    if not 1 <= num_shards <= _MAX_SHARDS:
        raise FormatError(f"expected at most {_MAX_SHARDS} files of values, got {num_shards:,}")
    if number_of(header, _ENDIANNESS):
        raise FormatError("values with the highest byte first are not supported")
    return num_shards


def _read_tensors(
    entries: list[tuple[bytes, bytes]], files: Mapping[int, StoredFile]
) -> dict[str, BundleTensor]:
    tensors = {}
    totals = dict.fromkeys(files, 0)
    for key, value in entries:
        try:
            name = key.decode()
        except UnicodeDecodeError as error:
            raise FormatError("damaged: the name of a variable is not UTF-8") from error
        fields = read_fields(value)
        if number_of(fields, _DTYPE) == _STRING:
            continue
        shard = number_of(fields, _SHARD)
        if shard not in files:
            raise FormatError(f"damaged: {shown(name)} is in file {shard:,} of {len(files)}")
        tensors[name] = _read_tensor(name, fields, files[shard])
        totals[shard] += tensors[name].num_bytes
    for shard, file in files.items():
        with naming(file.path):
            file.check_stored(totals[shard])
    return tensors


def _read_tensor(name: str, fields: dict[int, list[int | bytes]], file: StoredFile) -> BundleTensor:
    code = number_of(fields, _DTYPE)
    if code not in _DTYPES:
        raise FormatError(f"{shown(name)} is of type {code}, which is not supported")
    if _SLICES in fields:
        raise FormatError(f"{shown(name)} is stored in slices, which are not supported")
    begin, size = number_of(fields, _OFFSET), number_of(fields, _SIZE)
    shape, dtype = _read_shape(fields), _DTYPES[code]
    if num_values(shape) * ITEM_SIZES[dtype] != size:
        raise FormatError(f"the shape of {shown(name)} does not match the bytes of its values")
    if begin + size > file.size:
        raise FormatError(
            f"{shown(name)} is outside {file.path.name}, which ends after {file.size:,} bytes"
        )
    return BundleTensor(file, name, shape, dtype, begin, unmasked(number_of(fields, _CHECKSUM)))


def _read_shape(fields: dict[int, list[int | bytes]]) -> tuple[int, ...]:
    content = fields.get(_SHAPE, [b""])[-1]
    if not isinstance(content, bytes):
        raise FormatError("damaged: expected a shape")
    shape = read_fields(content)
    if number_of(shape, _UNKNOWN_RANK):
        raise FormatError("damaged: a shape of unknown rank")
    sizes = []
    for dim in shape.get(_DIM, []):
        if not isinstance(dim, bytes):
            raise FormatError("damaged: expected the sizes of a shape")
        sizes.append(number_of(read_fields(dim), _DIM_SIZE))
    return tuple(sizes)

"""Files of the safetensors format.

    8 bytes          size of the header, little-endian
    header           JSON: name -> {"dtype": ..., "shape": [...], "data_offsets": [begin, end]}
    values           in C order, little-endian

https://github.com/huggingface/safetensors#format. Read without the package of that name: it maps
files into memory, where a file that is cut off while it is read ends the process, and returns
bfloat16 only with PyTorch or ml_dtypes.
"""

from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.formats.tensors.dtypes import ITEM_SIZES, num_values
from tf_transformer.formats.tensors.stored_file import FormatError, StoredFile
from tf_transformer.formats.tensors.tensor_file import Storage, StoredTensor
from tf_transformer.printable import shown
from tf_transformer.storage.json_files import parse_json

# Enough for about 100,000 tensors. The format allows 100 MB, of which a hostile file would make
# gigabytes of Python objects.
_MAX_HEADER_BYTES = 2**24
_DTYPES = {
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "I8": "int8",
    "I16": "int16",
    "I32": "int32",
    "I64": "int64",
    "U8": "uint8",
    "U16": "uint16",
    "U32": "uint32",
    "U64": "uint64",
    "BOOL": "bool",
}


def is_safetensors(file: StoredFile) -> bool:
    """Returns whether a file begins like a safetensors file: with a size, and a JSON object."""
    return file.size > 8 and file.read(8, 1) == b"{" and _header_size(file) <= file.size - 8


def _header_size(file: StoredFile) -> int:
    return int.from_bytes(file.read(0, 8), "little")


def read_safetensors(file: StoredFile) -> dict[str, StoredTensor]:
    """Returns the tensors of a safetensors file, in the order of its header.

    Raises:
        FormatError: the header is too large or not valid, a type is not supported, or the values do
            not fill the file without gaps and overlaps, as the format demands.
    """
    size = _header_size(file)
    if size > _MAX_HEADER_BYTES:
        raise FormatError(f"expected a header of at most {_MAX_HEADER_BYTES:,} bytes, got {size:,}")
    try:
        header = parse_json(file.read(8, size), "its header", unique_keys=True)
    except InputError as error:
        raise FormatError(str(error)) from error
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict):
        raise FormatError(f"expected an object as __metadata__, got {shown(metadata)}")
    values_begin = 8 + size
    tensors, ranges = {}, []
    for name, entry in header.items():
        begin, end, tensors[name] = _tensor(file, name, entry, values_begin)
        ranges.append((begin, end))
    position = 0
    for begin, end in sorted(ranges):
        if begin != position:
            raise FormatError("the values of the tensors overlap, or have gaps between them")
        position = end
    if (expected := values_begin + position) != file.size:
        raise FormatError(f"expected {expected:,} bytes, the file has {file.size:,}")
    file.check_stored(position)
    return tensors


def _tensor(
    file: StoredFile, name: str, entry: Any, values_begin: int
) -> tuple[int, int, StoredTensor]:
    """Returns where the values of a tensor begin and end, and the tensor."""
    match entry:
        case {"dtype": str(code), "shape": list(sizes), "data_offsets": [int(begin), int(end)]}:
            pass
        case _:
            raise FormatError(f"expected dtype, shape and data_offsets of {shown(name)}")
    if code not in _DTYPES:
        raise FormatError(
            f"{shown(name)} is of type {shown(code)}; supported are {', '.join(_DTYPES)}"
        )
    dtype, shape = _DTYPES[code], tuple(sizes)
    count = num_values(shape)
    if begin < 0 or end - begin != count * ITEM_SIZES[dtype]:
        raise FormatError(f"the shape of {shown(name)} does not match the bytes of its values")
    storage = Storage(file, dtype, count, values_begin + begin)
    return begin, end, StoredTensor(storage, 0, shape)

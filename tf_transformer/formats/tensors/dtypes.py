"""Types of the values in files of tensors, and their conversion to NumPy arrays."""

import numpy as np

from tf_transformer.formats.tensors.stored_file import FormatError

# The names that NumPy and PyTorch have in common, and how the values are stored. NumPy has no
# bfloat16, which is the upper half of a float32.
_STORED = {
    "float16": "<f2",
    "bfloat16": "<u2",
    "float32": "<f4",
    "float64": "<f8",
    "int8": "|i1",
    "int16": "<i2",
    "int32": "<i4",
    "int64": "<i8",
    "uint8": "|u1",
    "uint16": "<u2",
    "uint32": "<u4",
    "uint64": "<u8",
    "bool": "|u1",
}
ITEM_SIZES = {name: np.dtype(code).itemsize for name, code in _STORED.items()}
# As the kinds and sizes that NumPy writes into files; it writes bfloat16 as values without a type.
NUMPY_NAMES = {
    ("b1" if name == "bool" else np.dtype(code).str[1:]): name
    for name, code in _STORED.items()
    if name != "bfloat16"
}

_MAX_AXES = 32
_MAX_VALUES = 2**48


def num_values(shape: tuple[int, ...]) -> int:
    """Returns the number of values in an array of this shape, which comes from a file.

    Raises:
        FormatError: it is not a shape: it has more than 32 axes, or one that is not a number from 0
            on, or more values than any memory can hold.
    """
    if len(shape) > _MAX_AXES:
        raise FormatError(f"a tensor of {len(shape):,} axes; at most {_MAX_AXES} are supported")
    count, bound = 1, 1
    for size in shape:
        if type(size) is not int or size < 0:
            raise FormatError("the shape of a tensor must be integers from 0 on")
        count *= size
        bound *= max(size, 1)
        if bound > _MAX_VALUES:  # also with an axis of size 0, where NumPy counts the others too
            raise FormatError("the shape of a tensor is too large")
    return count


def decode(raw: np.ndarray, dtype: str, *, big_endian: bool = False) -> np.ndarray:
    """Returns the values that stored bytes stand for.

    Args:
        raw: the bytes, uint8 of shape `(num_bytes,)`. The result may share their memory.
        dtype: name of the type.
        big_endian: whether the first byte of a value is its highest.

    Returns:
        Values of shape `(num_values,)`: float32 for every floating-point type, else `dtype`. Values
        of float64 beyond float32 become infinite.
    """
    code = np.dtype(_STORED[dtype])
    values = raw.view(code.newbyteorder(">") if big_endian else code)
    if dtype == "bfloat16":
        bits = values.astype(np.uint32)
        bits <<= 16
        return bits.view(np.float32)
    if dtype == "bool":
        return values != 0
    native = np.dtype(np.float32) if code.kind == "f" else code.newbyteorder("=")
    with np.errstate(over="ignore"):
        return values.astype(native, copy=False)

r"""NumPy's .npz archives, which Marian writes, too: one .npy file for each array.

    6 bytes          b"\x93NUMPY"
    2 bytes          version of the format
    2 or 4 bytes     size of the header, little-endian
    header           a Python literal: {"descr": "<f4", "fortran_order": False, "shape": (2, 3)}
    values

https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html. Objects, which are stored as
pickles, and records are not supported.
"""

import ast

import numpy as np

from tf_transformer.formats.tensors.dtypes import ITEM_SIZES, NUMPY_NAMES, decode, num_values
from tf_transformer.formats.tensors.stored_file import FormatError, StoredFile, naming
from tf_transformer.formats.tensors.zip_archive import Member, inflate
from tf_transformer.printable import shown

_MAX_HEADER_BYTES = 10_000  # as NumPy reads
# Trained weights deflate to 90 % of their size. Arrays of zeros deflate to 0.1 %, but are small.
_MAX_RATIO = 20
_MIN_LIMIT_BYTES = 2**26


class NpzTensor:
    """An array in an archive.

    Args:
        file: the archive.
        member: the .npy file in it.

    Raises:
        FormatError: it is not a .npy file of numbers, or its size is not that of its array.
    """

    def __init__(self, file: StoredFile, member: Member):
        self._file, self._member = file, member
        beginning = b"".join(inflate(file, member, 12 + _MAX_HEADER_BYTES))
        header, self._values_begin = _header(beginning)
        match header:
            case {"descr": str(descr), "fortran_order": bool(fortran), "shape": tuple(shape)}:
                pass
            case _:
                raise FormatError("the header of an array has other entries than .npy files have")
        if descr[1:] not in NUMPY_NAMES or descr[0] not in "<>|=":
            raise FormatError(f"an array of type {shown(descr)} is not supported")
        self.shape: tuple[int, ...] = shape
        self.dtype = NUMPY_NAMES[descr[1:]]
        self._big_endian, self._fortran = descr[0] == ">", fortran
        if member.size != self._values_begin + num_values(shape) * ITEM_SIZES[self.dtype]:
            raise FormatError("the shape of an array does not match the bytes of its values")

    @property
    def num_bytes(self) -> int:
        """Bytes that are read."""
        return self._member.size

    def read(self) -> np.ndarray:
        """Returns the values, see `Tensor`. Checks the archive's CRC."""
        raw, position = np.empty(self._member.size, np.uint8), 0
        with naming(self._file.path):
            for piece in inflate(self._file, self._member):
                raw[position : position + len(piece)] = np.frombuffer(piece, np.uint8)
                position += len(piece)
        values = decode(raw[self._values_begin :], self.dtype, big_endian=self._big_endian)
        return np.asarray(
            values.reshape(self.shape, order="F" if self._fortran else "C"), order="C"
        )


def _header(beginning: bytes) -> tuple[object, int]:
    """Returns the header and the position after it."""
    if beginning[:6] != b"\x93NUMPY" or len(beginning) < 12 or beginning[6] not in (1, 2, 3):
        raise FormatError("a member of the archive is not a .npy file")
    begin = 10 if beginning[6] == 1 else 12
    end = begin + int.from_bytes(beginning[8:begin], "little")
    if end > min(begin + _MAX_HEADER_BYTES, len(beginning)):
        raise FormatError("the header of an array is cut off or too long")
    try:
        return ast.literal_eval(beginning[begin:end].decode("latin-1").strip()), end
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise FormatError("the header of an array cannot be read") from error


def read_npz(file: StoredFile, members: dict[str, Member]) -> dict[str, NpzTensor]:
    """Returns the arrays of an archive by name, in the order of its directory.

    Args:
        file: the archive.
        members: its members.

    Raises:
        FormatError: a member is not a .npy file of numbers, or the members would be far larger than
            the archive when inflated.
    """
    limit = max(_MAX_RATIO * file.size, _MIN_LIMIT_BYTES)
    if (size := sum(member.size for member in members.values())) > limit:
        raise FormatError(f"would inflate to {size:,} bytes; expected at most {limit:,}")
    file.check_stored(sum(member.num_stored for member in members.values()))
    tensors = {}
    for name, member in members.items():
        if not name.endswith(".npy"):
            raise FormatError(f"expected an archive of .npy files, got the member {shown(name)}")
        try:
            tensors[name.removesuffix(".npy")] = NpzTensor(file, member)
        except FormatError as error:
            raise FormatError(f"{shown(name)}: {error}") from error
    return tensors

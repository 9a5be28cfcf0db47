"""Reading from an untrusted file at given positions, never more than the file holds."""

import contextlib
import pathlib
from collections.abc import Iterator

import numpy as np

from tf_transformer.errors import InputError
from tf_transformer.storage.regular_files import regular_size, stored_bytes

_CHUNK = 2**16


class FormatError(Exception):
    """What is wrong in a file, in one line; `naming` turns it into an `InputError`."""


@contextlib.contextmanager
def naming(path: pathlib.Path) -> Iterator[None]:
    """Turns a `FormatError` into an `InputError` whose message begins with the path."""
    try:
        yield
    except FormatError as error:
        raise InputError(f"{path}: {error}") from error


class StoredFile:
    """A regular file that is open for reading. Not for use by several threads at once.

    Args:
        path: the file.

    Attributes:
        path: the file.
        size: its size in bytes.

    Raises:
        InputError: it is not a regular file.
        FileNotFoundError: it does not exist.
    """

    def __init__(self, path: pathlib.Path):
        self.path = path
        self.size = regular_size(path)
        self._file = open(path, "rb")  # noqa: SIM115 (closed by `close`)

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self.close()

    def close(self) -> None:
        """Closes the file; tensors in it cannot be read any more."""
        self._file.close()

    def read(self, offset: int, num_bytes: int) -> bytes:
        """Returns bytes of the file.

        Args:
            offset: position of the first byte.
            num_bytes: number of bytes.

        Raises:
            FormatError: the file does not hold them.
        """
        self._check_range(offset, num_bytes)
        self._file.seek(offset)
        content = self._file.read(num_bytes)
        if len(content) != num_bytes:
            raise FormatError("the file became shorter while it was read")
        return content

    def fill(self, offset: int, buffer: np.ndarray) -> None:
        """Fills an array of uint8, shape `(num_bytes,)`, with bytes of the file.

        Args:
            offset: position of the first byte.
            buffer: the array.

        Raises:
            FormatError: the file does not hold so many bytes.
        """
        self._check_range(offset, buffer.size)
        self._file.seek(offset)
        if self._file.readinto(buffer.data) != buffer.size:
            raise FormatError("the file became shorter while it was read")

    def check_stored(self, num_bytes: int) -> None:
        """Checks that the file can hold this many bytes of values, and is not mostly holes.

        Args:
            num_bytes: the bytes of all values that the file declares.

        Raises:
            FormatError: the file is too small, or less than half of these bytes are on disk.
        """
        if num_bytes > self.size:
            raise FormatError(f"declares {num_bytes:,} bytes of values, the file has {self.size:,}")
        if 2 * (stored := stored_bytes(self.path)) < num_bytes:
            raise FormatError(f"declares {num_bytes:,} bytes of values, the file stores {stored:,}")

    def _check_range(self, offset: int, num_bytes: int) -> None:
        if offset < 0 or num_bytes < 0 or offset + num_bytes > self.size:
            raise FormatError(f"damaged: the file ends after {self.size:,} bytes, too early")


class ByteReader:
    """Reads a range of a file from its begin to its end, in small pieces.

    Args:
        file: the file.
        begin: position of the first byte.
        end: position after the last byte.
    """

    def __init__(self, file: StoredFile, begin: int, end: int):
        self._file = file
        self._next = begin  # where the file is read next
        self._end = min(end, file.size)
        self._buffer = b""
        self._used = 0  # bytes of the buffer that were taken

    @property
    def position(self) -> int:
        """Position in the file of the byte that is taken next."""
        return self._next - len(self._buffer) + self._used

    def take(self, num_bytes: int) -> bytes:
        """Returns the next bytes.

        Raises:
            FormatError: the range ends before.
        """
        end = self._used + num_bytes
        if end > len(self._buffer):
            self._fetch(num_bytes)
            end = num_bytes
        content = self._buffer[self._used : end]
        self._used = end
        return content

    def take_line(self, max_bytes: int) -> bytes:
        """Returns the bytes before the next line feed, and skips the line feed.

        Raises:
            FormatError: none follows within `max_bytes` bytes.
        """
        line = bytearray()
        while (char := self.take(1)) != b"\n":
            line += char
            if len(line) > max_bytes:
                raise FormatError(f"damaged: a line of more than {max_bytes:,} bytes")
        return bytes(line)

    def _fetch(self, num_bytes: int) -> None:
        rest = self._buffer[self._used :]
        missing, left = num_bytes - len(rest), self._end - self._next
        if missing > left:
            raise FormatError(f"damaged, or cut off: data ends early at byte {self._end:,}")
        count = min(max(missing, _CHUNK), left)
        self._buffer = rest + self._file.read(self._next, count)
        self._next += count
        self._used = 0

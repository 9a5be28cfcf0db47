"""Reading of Zstandard files. Unlike the reader of `zstandard`, it detects truncated files."""

import io
from typing import Any, BinaryIO

import zstandard

# Compressed bytes to read at once. As four bytes can expand to a block of 128 KiB, these expand to
# at most 32 MiB.
_READ_SIZE = 1 << 10


class ZstdFile(io.RawIOBase):
    """The decompressed bytes of all frames of a file.

    Args:
        file: the compressed file.

    Raises:
        zstandard.ZstdError: the file is damaged or ends within a frame; raised while reading.
    """

    def __init__(self, file: BinaryIO):
        self._file = file
        self._frame: Any = None
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        """Returns the file descriptor of the compressed file, as `gzip.GzipFile.fileno` does."""
        return self._file.fileno()

    def readinto(self, buffer) -> int:
        while not self._ready:
            between_frames = self._frame is None or self._frame.eof
            compressed = (self._frame and self._frame.unused_data) or self._file.read(_READ_SIZE)
            if not compressed:
                if not between_frames:
                    raise zstandard.ZstdError("it ends within a frame")
                return 0
            if between_frames:
                self._frame = zstandard.ZstdDecompressor().decompressobj()
            self._ready = memoryview(self._frame.decompress(compressed))
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

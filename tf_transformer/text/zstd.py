"""Reading Zstandard files; the package's own reader does not see that one is cut off."""

import io
from typing import Any, BinaryIO

import zstandard

# Four bytes may stand for a block of 128 KiB, so that these are at most 32 MiB at once.
_PIECE = 1 << 10


class ZstdFile(io.RawIOBase):
    """The decompressed bytes of a file, all of its frames one after the other.

    Args:
        file: the compressed bytes.

    Raises:
        zstandard.ZstdError: in reading; the bytes are damaged or end within a frame.
    """

    def __init__(self, file: BinaryIO):
        self._file = file
        self._frame: Any = None
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        """That of the compressed file, as `gzip.GzipFile` has it."""
        return self._file.fileno()

    def readinto(self, buffer) -> int:
        while not self._ready:
            between_frames = self._frame is None or self._frame.eof
            compressed = (self._frame and self._frame.unused_data) or self._file.read(_PIECE)
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

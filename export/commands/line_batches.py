"""Lines of text in batches, as they come: from a file, a pipe or a terminal."""

import contextlib
import dataclasses
import gzip
import io
import os
import pathlib
import select
import stat
import time
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

from tf_transformer.command_line.standard_streams import STANDARD_INPUT, standard_input
from tf_transformer.storage.files import naming

BATCH_SIZE = 256
# Seconds after its first line in which a batch waits for more. Whatever the pipe, no line waits
# longer for others; a file, or a program that writes without pauses, fills its batches.
_PATIENCE = 0.02
# Little, so that the position in a file tells how much of it is done.
_READ_BYTES = 2**12
# A longer line is no sentence; without line feeds a stream would fill the memory.
MAX_LINE_BYTES = 2**20


@contextlib.contextmanager
def open_lines(path: pathlib.Path | None) -> Iterator["Lines"]:
    """Opens a text file, plain or .gz, or standard input in place of None.

    Raises:
        OSError: it cannot be opened, or standard input is closed.
    """
    if path is None:
        yield Lines(standard_input(), STANDARD_INPUT)
    else:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            yield Lines(file, str(path))


@dataclasses.dataclass(frozen=True)
class Lines:
    """Text that is being read, one sentence a line.

    Lines end at a line feed; carriage returns are dropped, as in training.

    Args:
        file: the text.
        name: for messages.
    """

    file: BinaryIO
    name: str

    def batches(
        self, prepare: Callable[[bytes, str], bytes], batch_size: int = BATCH_SIZE
    ) -> Iterator[list[bytes]]:
        """Reads batch by batch, each as soon as it is full or no further line is there.

        Args:
            prepare: called with each line, and with its file and number for messages; what it
                returns takes the line's place.
            batch_size: most lines of a batch.

        Raises:
            ValueError: a line is too long, or `prepare` refuses it. The lines before it have been
                yielded.
            OSError: as reading does, likewise.
        """
        batch: list[bytes] = []
        number, deadline = 0, 0.0
        arriving = self._arriving()
        try:
            while True:
                if batch and not self._is_ready(max(deadline - time.monotonic(), 0.0)):
                    yield batch
                    batch = []
                lines = next(arriving, None)
                if lines is None:
                    break
                for line in lines:
                    number += 1
                    where = f"{self.name}:{number}"
                    if len(line) > MAX_LINE_BYTES:
                        raise ValueError(
                            f"{where}: expected a sentence, got more than {MAX_LINE_BYTES:,} bytes "
                            "without a line feed"
                        )
                    if not batch:
                        deadline = time.monotonic() + _PATIENCE
                    batch.append(prepare(line, where))
                    if len(batch) == batch_size:
                        yield batch
                        batch = []
        except (OSError, ValueError):
            if batch:
                yield batch
            raise
        if batch:
            yield batch

    def _arriving(self) -> Iterator[list[bytes]]:
        """The lines that end in each block, and a beginning that is too long for a line."""
        rest = b""
        while block := self._read():
            *lines, rest = (rest + block).split(b"\n")
            if len(rest) > MAX_LINE_BYTES:
                lines.append(rest)
            yield [line.replace(b"\r", b"") for line in lines]
        if rest := rest.replace(b"\r", b""):
            yield [rest]

    def _read(self) -> bytes:
        self._is_ready(None)  # where reading itself would not wait
        try:
            with naming(self.name):
                return self.file.read1(_READ_BYTES)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{self.name}: not a whole gzip file ({error})") from error

    def _is_ready(self, seconds: float | None) -> bool:
        """Whether there is something to read, or the end, before so many seconds are over."""
        descriptor = self._descriptor()
        if descriptor is None:
            return True
        return bool(select.select([descriptor], [], [], seconds)[0])

    def _descriptor(self) -> int | None:
        try:
            return self.file.fileno()
        except io.UnsupportedOperation:  # bytes in memory
            return None

    def status(self) -> os.stat_result | None:
        """The regular file that is read; None for pipes, terminals and other devices."""
        descriptor = self._descriptor()
        if descriptor is None:
            return None
        status = os.fstat(descriptor)
        return status if stat.S_ISREG(status.st_mode) else None

    def position(self) -> int:
        """How many bytes of the regular file have been read."""
        return os.lseek(self.file.fileno(), 0, os.SEEK_CUR)

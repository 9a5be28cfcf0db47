"""Lines of text in batches, as they come: from a file, a pipe or a terminal."""

import contextlib
import dataclasses
import io
import os
import select
import stat
import time
from collections.abc import Callable, Iterator

from tf_transformer.command_line.standard_streams import STANDARD_INPUT, standard_input
from tf_transformer.storage.files import naming
from tf_transformer.text.reading import (
    MAX_LINE_BYTES,
    damage_named,
    open_text,
    sentence,
    split_name,
)

BATCH_SIZE = 256
# Seconds after its first line in which a batch waits for more. Whatever the pipe, no line waits
# longer for others; a file, or a program that writes without pauses, fills its batches.
_PATIENCE = 0.02
# Little, so that the position in a file tells how much of it is done.
_READ_BYTES = 2**12


@contextlib.contextmanager
def open_lines(name: str | None) -> Iterator["Lines"]:
    """Opens a text file by its name, see `split_name`, or standard input in place of None or `-`.

    Raises:
        OSError: it cannot be opened, or standard input is closed.
        ValueError: there is no such column number.
    """
    if name in (None, "-"):
        yield Lines(standard_input(), STANDARD_INPUT)
    else:
        path, column = split_name(name)
        with open_text(path) as file:
            yield Lines(file, str(path), column)


@dataclasses.dataclass(frozen=True)
class Lines:
    """Text that is being read, one sentence a line.

    Lines end at a line feed; carriage returns are dropped, as in training.

    Args:
        file: the text.
        name: for messages.
        column: for TSV files, the column that holds the sentence, counted from 1; else None.
    """

    file: io.BufferedIOBase
    name: str
    column: int | None = None

    def batches(
        self, prepare: Callable[[bytes, str], bytes], batch_size: int = BATCH_SIZE
    ) -> Iterator[list[bytes]]:
        """Reads batch by batch, each as soon as it is full or no further line is there.

        Args:
            prepare: called with each line, and with its file and number for messages; what it
                returns takes the line's place.
            batch_size: most lines of a batch.

        Raises:
            ValueError: a line is no sentence, see `sentence`, or `prepare` refuses it. The lines
                before it have been yielded.
            OSError: as reading does, likewise.
        """
        batch: list[bytes] = []
        number, deadline = 0, 0.0
        arriving = self._arriving()
        try:
            while True:
                if batch and not self.is_ready(max(deadline - time.monotonic(), 0.0)):
                    yield batch
                    batch = []
                lines = next(arriving, None)
                if lines is None:
                    break
                for line in lines:
                    number += 1
                    where = f"{self.name}:{number}"
                    text = sentence(line, where, self.column).encode()
                    if not batch:
                        deadline = time.monotonic() + _PATIENCE
                    batch.append(prepare(text, where))
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
            yield lines
        if rest.strip(b"\r"):
            yield [rest]

    def _read(self) -> bytes:
        self.is_ready()  # where reading itself would not wait
        with damage_named(self.name), naming(self.name):
            return self.file.read1(_READ_BYTES)

    def is_ready(self, seconds: float | None = None) -> bool:
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

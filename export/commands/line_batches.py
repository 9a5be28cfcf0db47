"""Reads lines of text in batches, as they arrive from a file, a pipe or a terminal."""

import contextlib
import dataclasses
import io
import itertools
import os
import select
import stat
import time
from collections.abc import Callable, Iterator

from tf_transformer.command_line.standard_streams import STANDARD_INPUT, standard_input
from tf_transformer.storage.files import name_in_errors
from tf_transformer.text.reading import (
    MAX_LINE_BYTES,
    decode_line,
    name_damaged_file,
    open_text,
    split_name,
)

BATCH_SIZE = 256
# Seconds that a batch waits for more lines after its first one. No line waits longer, while a file
# or a program that writes without pauses fills its batches.
_MAX_WAIT = 0.02
# Small, so that the position in a file is a measure of progress.
_READ_BYTES = 2**12


@contextlib.contextmanager
def open_lines(name: str | None) -> Iterator["Lines"]:
    """Opens a text file by its name, see `split_name`; None or `-` is standard input.

    Raises:
        OSError: the file cannot be opened, or standard input is closed.
        InputError: the column number is invalid.
    """
    if name in (None, "-"):
        yield Lines(standard_input(), STANDARD_INPUT)
    else:
        path, column = split_name(name)
        with open_text(path) as file:
            yield Lines(file, str(path), column)


def unless_empty(lines: "Lines", batches: Iterator[list[bytes]]) -> Iterator[list[bytes]] | None:
    """Returns the batches, or None if the input is known to be empty.

    For empty input no model is loaded. Input that has not arrived yet is not waited for, so that a
    model is loaded while the first line is typed.

    Args:
        lines: the input.
        batches: the result of `lines.batches`.
    """
    if not lines.is_ready(0):
        return batches
    first = next(batches, None)
    return None if first is None else itertools.chain([first], batches)


@dataclasses.dataclass(frozen=True)
class Lines:
    """An open text with one sentence per line.

    Lines end with a line feed; carriage returns are removed, as in training.

    Args:
        file: the open file.
        name: the file's name in messages.
        column: for TSV files, the column that holds the sentence, counted from 1; else None.
    """

    file: io.BufferedIOBase
    name: str
    column: int | None = None

    def batches(
        self, prepare: Callable[[bytes, str], bytes], batch_size: int = BATCH_SIZE
    ) -> Iterator[list[bytes]]:
        """Yields batches, each as soon as it is full or no further line arrives.

        Args:
            prepare: maps a line, and its location `FILE:NUMBER` for messages, to the line to use.
            batch_size: maximum number of lines in a batch.

        Raises:
            InputError: a line is invalid, see `sentence`, or `prepare` raised it. The lines before
                it are yielded first.
            OSError: reading failed. The lines read so far are yielded first.
        """
        batch: list[bytes] = []
        number, deadline = 0, 0.0
        blocks = self._blocks()
        try:
            while True:
                if batch and not self.is_ready(max(deadline - time.monotonic(), 0.0)):
                    yield batch
                    batch = []
                lines = next(blocks, None)
                if lines is None:
                    break
                for line in lines:
                    number += 1
                    where = f"{self.name}:{number}"
                    text = decode_line(line, where, self.column).encode()
                    if not batch:
                        deadline = time.monotonic() + _MAX_WAIT
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

    def _blocks(self) -> Iterator[list[bytes]]:
        """Yields the lines that end in each block read, and an unfinished line that is too long."""
        rest = b""
        while block := self._read():
            *lines, rest = (rest + block).split(b"\n")
            if len(rest) > MAX_LINE_BYTES:
                lines.append(rest)
            yield lines
        if rest.strip(b"\r"):
            yield [rest]

    def _read(self) -> bytes:
        self.is_ready()  # waits, which a read of a non-blocking descriptor would not
        with name_damaged_file(self.name), name_in_errors(self.name):
            return self.file.read1(_READ_BYTES)

    def is_ready(self, seconds: float | None = None) -> bool:
        """Returns whether a read would not block, waiting up to `seconds` (None: for ever)."""
        descriptor = self._descriptor()
        if descriptor is None:
            return True
        return bool(select.select([descriptor], [], [], seconds)[0])

    def _descriptor(self) -> int | None:
        try:
            return self.file.fileno()
        except io.UnsupportedOperation:  # an in-memory file
            return None

    def status(self) -> os.stat_result | None:
        """Returns the status of a regular file; None for pipes, terminals and other devices."""
        descriptor = self._descriptor()
        if descriptor is None:
            return None
        status = os.fstat(descriptor)
        return status if stat.S_ISREG(status.st_mode) else None

    def position(self) -> int:
        """Returns how many bytes of a regular file have been read."""
        return os.lseek(self.file.fileno(), 0, os.SEEK_CUR)

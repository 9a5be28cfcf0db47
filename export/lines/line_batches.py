"""Reads lines of text in batches, as they arrive from a file, a pipe or a terminal."""

import contextlib
import dataclasses
import io
import itertools
import os
import select
import stat
import sys
import time
from collections.abc import Callable, Iterator

from tf_transformer.command_line.standard_streams import STANDARD_INPUT, standard_input
from tf_transformer.errors import InputError
from tf_transformer.storage.files import name_in_errors
from tf_transformer.text.reading import (
    MAX_LINE_BYTES,
    decode_line,
    is_line,
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
def open_lines(name: str | None, shard: tuple[int, int] | None = None) -> Iterator["Lines"]:
    """Opens a text file by its name, see `split_name`; None or `-` is standard input.

    If that is a terminal, tells the user so, who may not expect that the program waits for text.

    Args:
        name: the name.
        shard: i and n select the i-th of n consecutive parts with almost equal numbers of lines.
            The file is read twice then, and must be a regular one.

    Raises:
        OSError: the file cannot be opened, or standard input is closed.
        InputError: the column number is invalid, or a shard of anything but a file.
    """
    first, end = 0, None
    if shard is not None:
        with open_lines(name) as lines:
            if name in (None, "-") or lines.status() is None:
                raise InputError(f"--shard: expected a file as --input. Received: {lines.name}")
            total = lines.count()
        first, end = (total * part // shard[1] for part in (shard[0] - 1, shard[0]))
    if name in (None, "-"):
        stream = standard_input()
        if stream.isatty():
            print(
                "tf-transformer: reading lines from the keyboard until Ctrl-D; --input F reads a "
                "file",
                file=sys.stderr,
            )
        yield Lines(stream, STANDARD_INPUT)
    else:
        path, column = split_name(name)
        with open_text(path) as file:
            yield Lines(file, str(path), column, first, end)


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

    Lines end with a line feed; carriage returns and the byte order mark at the beginning are
    removed, as in training.

    Args:
        file: the open file.
        name: the file's name in messages.
        column: for TSV files, the column that holds the sentence, counted from 1; else None.
        first: number of lines to skip.
        end: number of the last line to read; None reads all.
    """

    file: io.BufferedIOBase
    name: str
    column: int | None = None
    first: int = 0
    end: int | None = None

    def count(self) -> int:
        """Reads and counts all lines."""
        return sum(map(len, self._blocks()))

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
        deadline = 0.0
        blocks = self._selected_blocks()
        try:
            while True:
                if batch and not self.is_ready(max(deadline - time.monotonic(), 0.0)):
                    yield batch
                    batch = []
                first, lines = next(blocks, (0, None))
                if lines is None:
                    break
                for number, line in enumerate(lines, first):
                    text = decode_line(line, self.name, number, self.column).encode()
                    if not batch:
                        deadline = time.monotonic() + _MAX_WAIT
                    batch.append(prepare(text, f"{self.name}:{number}"))
                    if len(batch) == batch_size:
                        yield batch
                        batch = []
        except (OSError, ValueError):
            if batch:
                yield batch
            raise
        if batch:
            yield batch

    def _selected_blocks(self) -> Iterator[tuple[int, list[bytes]]]:
        """Yields the lines to read of each block, after the number of the first of them."""
        number = 0
        for lines in self._blocks():
            stop = len(lines) if self.end is None else min(self.end - number, len(lines))
            start = min(max(self.first - number, 0), stop)
            yield number + start + 1, lines[start:stop]
            number += len(lines)
            if self.end is not None and number >= self.end:
                return

    def _blocks(self) -> Iterator[list[bytes]]:
        """Yields the lines that end in each block read, and an unfinished line that is too long."""
        rest, number = b"", 1
        while block := self._read():
            *lines, rest = (rest + block).split(b"\n")
            number += len(lines)
            if len(rest) > MAX_LINE_BYTES:
                lines.append(rest)
            yield lines
        if is_line(rest, number):
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

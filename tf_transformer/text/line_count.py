"""Counting lines, recording their offsets and digesting a file in one fast pass."""

import dataclasses
import hashlib
import pathlib

import numpy as np

from tf_transformer.text.file_state import file_state
from tf_transformer.text.reading import MAX_LINE_BYTES, check_length, is_line, open_text

# Bytes per read. A line within one read cannot exceed the maximum length.
_CHUNK_BYTES = MAX_LINE_BYTES


@dataclasses.dataclass(frozen=True)
class LineCount:
    """The result of one pass over a file.

    Args:
        lines: number of lines that `TextFile.lines` yields.
        offsets: offset of every `every`-th line in the decompressed bytes, beginning with line 0,
            and of the end of the file.
        digest: BLAKE2 digest of the decompressed bytes.
        state: `file_state` of the file before the pass.
    """

    lines: int
    offsets: list[int]
    digest: str
    state: list[int] | None


LineCounts = dict[pathlib.Path, LineCount]


def count_lines(path: pathlib.Path, every: int) -> LineCount:
    """Counts lines as `TextFile.lines` yields them, see `is_line`.

    Args:
        path: the file, which may be compressed.
        every: distance in lines of the recorded offsets.

    Returns:
        The number of lines, the offsets, and the digest.

    Raises:
        InputError: a compressed file is truncated, or a line is too long, see `check_length`.
    """
    state = file_state(path)
    digest = hashlib.blake2b(digest_size=16)
    lines, position, begin, offsets, has_rest = 0, 0, 0, [0], False
    with open_text(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            ends = np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n"))
            end = ends[0] if len(ends) else len(chunk)
            check_length(position + end - begin, f"{path}:{lines + 1}")
            if len(ends):
                begin = position + ends[-1] + 1
            # Of the lines that begin after these line feeds, those whose index `every` divides.
            first = -(lines + 1) % every
            offsets += (position + 1 + ends[first::every]).tolist()
            lines += len(ends)
            if len(ends):
                has_rest = is_line(chunk[ends[-1] + 1 :], lines + 1)
            else:
                has_rest |= is_line(chunk, lines + 1)
            position += len(chunk)
    lines += has_rest
    offsets = offsets[: -(-lines // every)]
    return LineCount(lines, [*offsets, position], digest.hexdigest(), state)


def split_lines(text: bytes, first: int) -> list[bytes]:
    """Returns the lines that `count_lines` counts, without their line feeds.

    Args:
        text: a part of a file, of whole lines.
        first: the number of its first line in the file, counted from 1.
    """
    lines = text.split(b"\n")
    if not is_line(lines[-1], first + len(lines) - 1):
        lines.pop()
    return lines

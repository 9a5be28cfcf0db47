"""One quick pass over a file of lines: how many there are, where they begin, a digest."""

import dataclasses
import hashlib
import pathlib

import numpy as np

from tf_transformer.text.reading import MAX_LINE_BYTES, check_length, open_text
from training.data.corpus import file_state

# A line that lies in a piece is not too long.
_PIECE = MAX_LINE_BYTES


@dataclasses.dataclass(frozen=True)
class LineCount:
    """What one pass over a file finds.

    Args:
        lines: those that `TextFile.lines` reads.
        offsets: where every `every`-th line begins, in decompressed bytes, from line 0 on; at last
            where the file ends.
        digest: BLAKE2 digest of the decompressed bytes.
        state: of the file before the pass, see `file_state`.
    """

    lines: int
    offsets: list[int]
    digest: str
    state: list[int] | None


def count_lines(path: pathlib.Path, every: int) -> LineCount:
    """Counts lines as `TextFile.lines` has them: a rest of carriage returns alone is no line.

    Raises:
        ValueError: a compressed file is not whole, or a line is too long, see `check_length`.
    """
    state = file_state(path)
    digest = hashlib.blake2b(digest_size=16)
    lines, position, begin, offsets, rest = 0, 0, 0, [0], b""
    with open_text(path) as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
            ends = np.flatnonzero(np.frombuffer(piece, np.uint8) == ord("\n"))
            end = ends[0] if len(ends) else len(piece)
            check_length(position + end - begin, f"{path}:{lines + 1}")
            if len(ends):
                begin = position + ends[-1] + 1
            # Of the lines that begin behind these line feeds, those with a multiple of `every`.
            first = -(lines + 1) % every
            offsets += (position + 1 + ends[first::every]).tolist()
            lines += len(ends)
            rest = piece[ends[-1] + 1 :] if len(ends) else rest + piece.strip(b"\r")[:1]
            position += len(piece)
    lines += bool(rest.strip(b"\r"))
    offsets = offsets[: -(-lines // every)]
    return LineCount(lines, [*offsets, position], digest.hexdigest(), state)

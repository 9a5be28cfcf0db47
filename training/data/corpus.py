"""Parallel text files: whether they fit each other, and whether they are the same as before."""

import hashlib
import itertools
import pathlib

from tf_transformer.errors import InputError
from tf_transformer.text.text_file import TextFile


def file_state(path: pathlib.Path) -> list[int] | None:
    """Size and time of the last change; None where there is no file.

    While they stay what they are, so does the text.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns]


def digest(*files: TextFile | None) -> str:
    """BLAKE2 digest of the sentences of all files."""
    total = hashlib.blake2b(digest_size=16)
    for file in files:
        for line in file.lines() if file else ():
            total.update(line.encode() + b"\n")
        total.update(b"\f")
    return total.hexdigest()


def check_parallel(source: TextFile, target: TextFile) -> int:
    """Reads both files once and returns the number of sentence pairs.

    Raises:
        ValueError: the files differ in length or are empty, or a line is faulty.
    """
    counts = [0, 0]
    for pair in itertools.zip_longest(source.lines(), target.lines()):
        for side, line in enumerate(pair):
            counts[side] += line is not None
    check_counts(source, target, *counts)
    return counts[0]


def check_counts(source: TextFile, target: TextFile, num_sources: int, num_targets: int) -> None:
    """Checks that two files have as many lines, and at least one.

    Raises:
        ValueError: they differ in length or are empty.
    """
    if num_sources != num_targets:
        raise InputError(
            "source and target must have one line for each other: "
            f"{source} has {num_sources} lines, {target} has {num_targets}"
        )
    if num_sources == 0:
        both = f"{source} and {target} are" if source != target else f"{source} is"
        raise InputError(f"{both} empty")

"""Checks and digests of parallel text files."""

import hashlib
import itertools

from tf_transformer.errors import InputError
from tf_transformer.text.text_file import TextFile


def digest(*files: TextFile | None) -> str:
    """Returns the BLAKE2 digest of the sentences of all files; None counts as an empty file."""
    hasher = hashlib.blake2b(digest_size=16)
    for file in files:
        for line in file.lines() if file else ():
            hasher.update(line.encode() + b"\n")
        hasher.update(b"\f")
    return hasher.hexdigest()


def check_parallel(source: TextFile, target: TextFile) -> int:
    """Reads both files once and returns the number of sentence pairs.

    Raises:
        InputError: the files differ in their number of lines or are empty, or a line is invalid.
    """
    counts = [0, 0]
    for pair in itertools.zip_longest(source.lines(), target.lines()):
        for side, line in enumerate(pair):
            counts[side] += line is not None
    check_counts(source, target, *counts)
    return counts[0]


def check_counts(source: TextFile, target: TextFile, num_sources: int, num_targets: int) -> None:
    """Checks that two files have the same number of lines, and at least one.

    Args:
        source: the source text, for the message.
        target: the target text, for the message.
        num_sources: number of lines of the source.
        num_targets: number of lines of the target.

    Raises:
        InputError: the numbers differ or are 0.
    """
    if num_sources != num_targets:
        raise InputError(
            "source and target must have the same number of lines: "
            f"{source} has {num_sources} lines, {target} has {num_targets}"
        )
    if num_sources == 0:
        both = f"{source} and {target} are" if source != target else f"{source} is"
        raise InputError(f"{both} empty")

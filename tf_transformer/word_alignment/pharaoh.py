"""Word alignments as text, in Pharaoh's format: one line per sentence pair, such as `0-0 1-2 2-1`.

`i-j` links word i of the source with word j of the target, both counted from 0. Words are what
white space separates, as in eflomal, fast_align and `str.split`. In a reference made by hand,
`i-j` is a sure link, and `i?j`, or `ipj`, a possible one.
"""

import itertools
import re
from collections.abc import Iterable
from typing import NamedTuple

from tf_transformer.errors import InputError
from tf_transformer.printable import shown
from tf_transformer.text.text_file import TextFile

Links = set[tuple[int, int]]

# No line of text has words of more digits.
_LINK = re.compile(r"([0-9]{1,7})([-?p])([0-9]{1,7})")


class Reference(NamedTuple):
    """The alignment of a sentence pair by hand.

    Attributes:
        sure: links that are not in doubt.
        possible: the others.
    """

    sure: Links
    possible: Links


def parse_reference(line: str, where: str) -> Reference:
    """Parses a line of a reference.

    Args:
        line: the line.
        where: file and line, for the error message.

    Raises:
        InputError: something is not a link.
    """
    reference = Reference(set(), set())
    # As TensorFlow separates them, and not at other white space.
    for word in re.split("[ \t]+", line.strip(" \t")):
        match = _LINK.fullmatch(word)
        if match:
            links = reference.sure if match[2] == "-" else reference.possible
            links.add((int(match[1]), int(match[3])))
        elif word:
            raise InputError(f"{where}: expected links of words such as 0-0 1-2, got {shown(word)}")
    return reference


def parse_links(line: str, where: str) -> Links:
    """Parses a line of an alignment; possible links count like the others.

    Args:
        line: the line.
        where: file and line, for the error message.

    Raises:
        InputError: something is not a link.
    """
    reference = parse_reference(line, where)
    return reference.sure | reference.possible


def check_range(links: Iterable[tuple[int, int]], words: tuple[int, int], where: str) -> None:
    """Checks that links are of words that exist.

    Args:
        links: the links.
        words: number of words of source and target.
        where: file and line, for the error message.

    Raises:
        InputError: one is not.
    """
    for link in links:
        for side, index, number in zip(("source", "target"), link, words, strict=True):
            if index >= number:
                raise InputError(
                    f"{where}: the link {link[0]}-{link[1]} is of a word that the {side} does not "
                    f"have: it has {number} (counted from 0, separated by white space)"
                )


def format_links(links: Iterable[tuple[int, int]]) -> str:
    """Returns the line of an alignment, in the order of the source."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def check_alignments(
    alignments: TextFile, source: TextFile, target: TextFile, most: int | None = None
) -> None:
    """Reads the alignments of a parallel text and checks them.

    Args:
        alignments: the alignments, a line for each pair.
        source: the source text.
        target: the target text.
        most: number of lines to check; None checks all.

    Raises:
        InputError: there are more or fewer lines than pairs, or a line is not one of links between
            words of its pair; the message names file and line.
    """
    files = (alignments, source, target)
    lines = itertools.islice(itertools.zip_longest(*(file.lines() for file in files)), most)
    for number, row in enumerate(lines, 1):
        if None in row:
            counts = [f"{file} has {sum(1 for _ in file.lines())} lines" for file in files]
            raise InputError(f"alignments must have a line for each pair: {', '.join(counts)}")
        where = f"{alignments.path}:{number}"
        words = (len(row[1].split()), len(row[2].split()))
        check_range(parse_links(row[0], where), words, where)

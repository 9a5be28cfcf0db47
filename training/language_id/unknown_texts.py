"""Random text in scripts that no known text is in, by the Unicode tables of Python."""

import random
import unicodedata
from collections.abc import Mapping, Sequence

# Characters of one script are neighbours in Unicode. The scripts of a text are found by blocks of
# this many code points; a block with fewer of its characters is not one of its scripts, as that of
# the Greek letters for one formula.
_BLOCK = 128
_LEAST_KNOWN = 3
# Alphabets and syllables; then CJK characters, which are many more, kana and Hangul; then symbols.
_AREAS = ((0x0080, 0x3000), (0x3000, 0xD800), (0xF900, 0xFE00), (0x1F300, 0x1FA00))
_LEAST_ASSIGNED = 32
# One unknown text for so many known ones of a language.
_SHARE = 4


def make_unknown_texts(known: Mapping[str, Sequence[str]], draw: random.Random) -> list[str]:
    """Returns texts of random characters, each of one script that the known texts do not have.

    They are one for every four known texts of a language, or none if all scripts are known.

    Args:
        known: texts by their language.
        draw: source of random numbers.
    """
    characters = {char for texts in known.values() for text in texts for char in text}
    areas = [blocks for area in _AREAS if (blocks := _unknown_blocks(*area, characters))]
    if not areas:
        return []
    count = sum(map(len, known.values())) // (len(known) * _SHARE) + 1
    return [_random_text(draw.choice(draw.choice(areas)), draw) for _ in range(count)]


def _unknown_blocks(begin: int, end: int, known: set[str]) -> list[list[str]]:
    """Returns the characters of each block of which less than `_LEAST_KNOWN` are known."""
    blocks = []
    for first in range(begin, end, _BLOCK):
        chars = [chr(code) for code in range(first, first + _BLOCK)]
        chars = [char for char in chars if unicodedata.category(char)[0] in "LMNPS"]
        unknown = [char for char in chars if char not in known]
        if len(chars) >= _LEAST_ASSIGNED and len(chars) - len(unknown) < _LEAST_KNOWN:
            blocks.append(unknown)
    return blocks


def _random_text(characters: Sequence[str], draw: random.Random) -> str:
    words = [
        "".join(draw.choices(characters, k=draw.randint(1, 9))) for _ in range(draw.randint(1, 9))
    ]
    return " ".join(words)

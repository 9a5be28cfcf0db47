"""The words of a text, between which tags may stand.

A word is a run of letters, digits and marks, with single signs such as apostrophes, hyphens and
points inside it. Other signs stand alone. Scripts that write no spaces have a word per character.
Placeholders such as {name} and %s, and URLs, are one word.
"""

import bisect
import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from tf_transformer.terms.span_patterns import PLACEHOLDER, URL

# Han and kana, and the scripts of Southeast Asia that write no spaces; first and last character.
_NO_SPACES = (
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x2E80, 0x2FDF), (0x3005, 0x3007),
    (0x3041, 0x30FF), (0x31F0, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xA9E0, 0xA9FF),
    (0xAA60, 0xAA7F), (0xF900, 0xFAFF), (0xFF66, 0xFF9D), (0x1B000, 0x1B16F), (0x20000, 0x3FFFF),
)  # fmt: skip
_JOINING = frozenset("'’ʼ-‐‑.,:/_@&+#%·")
# Classes: w letter or digit, i character of a script without spaces, m mark or invisible, j sign
# that joins, p other sign, s space.
_WORD = re.compile("m*w[wm]*(?:jm*w[wm]*)*|im*|m+|[jp]m*")
_PART = re.compile("jm*|[^j]+")
_UNIT = re.compile(f"{URL}|{PLACEHOLDER}", re.ASCII)
_UNIT_SIGNS = re.compile(r"[{%]|://|www\.", re.IGNORECASE)


class Span(NamedTuple):
    """A range of characters.

    Attributes:
        start: index of the first one.
        end: index after the last one.
    """

    start: int
    end: int


class _Classes(dict):
    def __missing__(self, code: int) -> str:
        self[code] = found = _class_of(chr(code))
        return found


def _class_of(char: str) -> str:
    if char.isspace():
        return "s"
    category = unicodedata.category(char)
    if category[0] == "M" or category in ("Cf", "Cn", "Cs"):
        return "m"
    if any(first <= ord(char) <= last for first, last in _NO_SPACES):
        return "i"
    if char in _JOINING:
        return "j"
    return "w" if char.isalnum() else "p"


_CLASSES = _Classes()


def split_words(text: str) -> list[Span]:
    """Returns the words of a text; only white space is in none, but for that in {{ name }}."""
    classes = text.translate(_CLASSES)
    units = _UNIT.finditer(text) if _UNIT_SIGNS.search(text) else ()
    words: list[Span] = []
    end = 0
    for unit in units:
        words += _words_of(classes, end, unit.start())
        words.append(Span(*unit.span()))
        end = unit.end()
    return words + _words_of(classes, end, len(text))


def _words_of(classes, start, end):
    return [Span(*match.span()) for match in _WORD.finditer(classes, start, end)]


def split_at_signs(text: str, word: Span) -> list[Span]:
    """Returns the parts of a word and the signs that join them; of an address, the whole.

    Args:
        text: the text that the word is in.
        word: the word.
    """
    characters = text[word.start : word.end]
    if _UNIT.match(characters):
        return [word]
    parts = _PART.finditer(characters.translate(_CLASSES))
    return [Span(word.start + part.start(), word.start + part.end()) for part in parts]


def has_space(text: str) -> bool:
    """Returns whether a text has white space."""
    return any(map(str.isspace, text))


def is_part_of_word(char: str) -> bool:
    """Returns whether a character is a letter, a digit or a mark."""
    return _CLASSES[ord(char)] in "wim"


def is_inside_word(text: str, place: int) -> bool:
    """Returns whether the characters before and after a place belong to the same word."""
    return any(start < place < end for start, end in split_words(text))


def writes_spaces(text: str) -> bool:
    """Returns whether a text is in a language that has spaces between words."""
    classes = text.translate(_CLASSES)
    return "s" in classes or ("w" in classes and "i" not in classes)


def is_sign(word: str) -> bool:
    """Returns whether a word has no letter or digit."""
    return not any(map(str.isalnum, word))


def overlapping(words: Sequence[Span], span: Span) -> range:
    """Returns the indices of the words that share a character with a range.

    Args:
        words: words in order.
        span: the range.
    """
    if span.start >= span.end:
        return range(0)
    first = bisect.bisect_right(words, span.start, key=lambda word: word.end)
    last = bisect.bisect_left(words, span.end, key=lambda word: word.start)
    return range(first, max(first, last))

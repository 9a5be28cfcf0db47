"""Marks that a text has without an element: raised digits, numbers in brackets, signs."""

import re

from export.markup.marks.elements import NOTE_SIGNS, stands_as_mark
from export.markup.marks.raised import FRACTION_SIGNS, marks_by_raising, visible
from export.markup.parsing.tokens import Kind, Token, escape_text

_DIGITS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_MARK = re.compile(
    rf"(?P<raised>[{_DIGITS}]+(?:[,⁻–˒][{_DIGITS}]+)*)"
    r"|(?P<bracketed>\[[0-9]{1,3}(?:\s?[,–-]\s?[0-9]{1,3})*\])"
    rf"|(?P<sign>[{re.escape(NOTE_SIGNS)}]{{1,2}})(?![{re.escape(NOTE_SIGNS)}])"
    r"|(?P<back>[↑^↩])"
)
_SHORT_WORD = re.compile(r"(?<![^\W\d_])[^\W\d_]{1,2}$")
_CONTEXT = 64
_EMPHASIS = re.compile(
    r"(?<![^\s(])\*{1,3}[^\s*][^*]*+\*"
)  # of a text with its own markup, as in *this*


def split_marks(token: Token, before: str, after: str) -> list[Token]:
    """Returns a text as texts and marks.

    Args:
        token: the text.
        before: the text before it without marks, some words of it at least.
        after: the text after it.
    """
    text = token.text
    if _MARK.search(text) is None or _EMPHASIS.search(text):
        return [token]
    found: list[Token] = []
    start = 0
    for match in _MARK.finditer(text):
        rest = (text[match.end() : match.end() + _CONTEXT] + after)[:_CONTEXT]
        if _is_mark(match, before + visible(text[start : match.start()]), rest):
            before += visible(text[start : match.start()])
            found += [*_texts(text[start : match.start()]), _mark(match[0])]
            start = match.end()
    return [*found, *_texts(text[start:])] if found else [token]


def _texts(text) -> list[Token]:
    return [Token(Kind.TEXT, escape_text(text), text=text)] if text else []


def _mark(text) -> Token:
    return Token(Kind.MARK, escape_text(text))


def _is_mark(match: re.Match, before: str, after: str) -> bool:
    kind = match.lastgroup
    is_first = not before.strip()
    if kind == "back":
        return is_first and after[:1].isspace()
    if is_first or before[-1].isspace():
        return is_first and stands_as_mark("", after)
    if kind == "raised":
        return not after.startswith(FRACTION_SIGNS) and marks_by_raising(match[0], before, after)
    is_short_word = _SHORT_WORD.search(before) is not None
    return stands_as_mark(before, after) and not (kind == "sign" and is_short_word)

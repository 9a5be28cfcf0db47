"""Marks that a text has without an element: raised digits, numbers in brackets, signs."""

import re

from export.markup.marks.elements import NOTE_SIGNS, begins_sentence, stands_as_mark
from export.markup.marks.raised import (
    FRACTION_SIGNS,
    marks_by_raising,
    starts_sentence,
    visible,
)
from export.markup.parsing.tokens import Kind, Token, escape_text, text_token

_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹⁽⁾⁺⁻ᵃᵇᶜᵈᵉᶠᵍʰ"
_SIGNS = f"{re.escape(NOTE_SIGNS)}§¶"
_ITEM = r"(?:\^?[0-9]{1,3}|[a-dfgh]|(?i:note|nb|n)\s[0-9]{1,3}|[*†‡]{1,3})"
_MARK = re.compile(
    rf"(?P<raised>[{_RAISED}]+(?:[,–˒][{_RAISED}]+)*)"
    rf"|(?P<bracketed>\[{_ITEM}(?:\s?[,–-]\s?{_ITEM})*\])"
    rf"|(?P<sign>[{_SIGNS}]{{1,3}}|※[0-9]{{0,3}})(?![{_SIGNS}])"
    r"|(?P<back>[↑^↩])"
)
_SHORT_WORD = re.compile(r"(?<![^\W\d_])[^\W\d_]{1,2}$")
_CONTEXT = 64
# Of a text with its own markup, as in *this*.
_EMPHASIS = re.compile(r"(?<![\w*])(\*{1,3})(?=[^\s*)])[^*\n.!?;:]{1,80}(?<=\S)\1(?![\w*])")


def split_marks(token: Token, before: str, after: str) -> list[Token]:
    """Returns a text as texts and marks.

    Args:
        token: the text.
        before: the text before it without marks, some words of it at least.
        after: the text after it.
    """
    text = token.text
    if _MARK.search(text) is None:
        return [token]
    found: list[Token] = []
    start = 0
    emphasized = [match.span() for match in _EMPHASIS.finditer(text)][::-1] if "*" in text else []
    for match in _MARK.finditer(text):
        while emphasized and emphasized[-1][1] <= match.start():
            emphasized.pop()
        if emphasized and emphasized[-1][0] <= match.start() and "*" in match[0]:
            continue
        rest = (text[match.end() : match.end() + _CONTEXT] + after)[:_CONTEXT]
        own = text[max(start, match.start() - _CONTEXT) : match.start()]
        if _is_mark(match, (before + visible(own))[-_CONTEXT:], rest):
            before = (before + visible(own))[-_CONTEXT:]
            found += [*_texts(text[start : match.start()]), _mark(match[0])]
            start = match.end()
    return [*found, *_texts(text[start:])] if found else [token]


def _texts(text) -> list[Token]:
    return [text_token(text)] if text else []


def _mark(text) -> Token:
    return Token(Kind.MARK, escape_text(text))


def _is_mark(match: re.Match, before: str, after: str) -> bool:
    kind = match.lastgroup
    is_first = not before.strip() or (before[-1].isspace() and starts_sentence(before))
    if kind == "back":
        return not before.strip() and after[:1].isspace()
    if is_first or before[-1].isspace():
        starts = begins_sentence(after) or stands_as_mark(before, after)
        return is_first and match[0][0] not in "§¶" and starts
    if kind == "bracketed" and starts_sentence(before) and after[:1].isupper():
        return True
    if kind == "raised":
        return not after.startswith(FRACTION_SIGNS) and marks_by_raising(match[0], before, after)
    is_short_word = _SHORT_WORD.search(before) is not None
    return stands_as_mark(before, after) and not (kind == "sign" and is_short_word)

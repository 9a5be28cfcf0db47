"""Where the marks are in a run of text with inline elements."""

import re
from collections.abc import Sequence

from export.markup.marks.elements import is_linked_number, is_mark
from export.markup.marks.raised import visible
from export.markup.parsing.tokens import Kind, Token, ends_of_elements

_CONTEXT = 64  # characters around an element that are considered
# Between the numbers of "Sections 1–3, 5", all of which are links.
_SEPARATOR = re.compile(r"[,;/&–—‐‑-]")
_MAX_TOKENS = 32  # of a mark, or between it and the text after it, so that time is bounded


class MarkSearch:
    """Finds the marks of a run of tokens, which is read from its beginning to its end.

    Args:
        tokens: a run of tokens without blocks between; elements may begin or end outside of it.

    Attributes:
        ends: for the start tag of each element of the run the index after its end tag.
        before: some words of the text so far, without marks.
    """

    def __init__(self, tokens: Sequence[Token]):
        self.ends = ends_of_elements(tokens)
        self.before = ""
        self._tokens = tokens
        self._listed: int | None = None  # the end of a linked number that is a part of the text

    def end_of_mark(self, index: int) -> int:
        """Returns the index after a mark that starts at a token, or that token's index if none."""
        tokens, end = self._tokens, self.ends.get(index, index)
        if not index < end <= index + _MAX_TOKENS:
            return index
        element = tokens[index:end]
        is_found = is_mark(element, self.before, text_after(tokens, end))
        if is_linked_number(element) and not (is_found and self._starts_list(index)):
            self._listed, is_found = end, False
        return end if is_found else index

    def _starts_list(self, index) -> bool:
        """Returns whether there is no linked number before this one, as in "Sections 1–3"."""
        if self._listed is None or not self._listed <= index <= self._listed + _MAX_TOKENS:
            return True
        between = visible("".join(map(_characters, self._tokens[self._listed : index])))
        return _SEPARATOR.fullmatch(between) is None

    def is_in_list(self, index: int) -> bool:
        """Returns whether a token is in a linked number that is a part of the text."""
        return self._listed is not None and index < self._listed

    def pass_text(self, start: int, end: int) -> None:
        """Adds the text of tokens that are no marks."""
        self.before = text_up_to(self._tokens[start:end], self.before)


def find_marks(tokens: Sequence[Token]) -> dict[int, int]:
    """Returns for the first token of each mark of a run the index after its last one."""
    search, marks, index = MarkSearch(tokens), {}, 0
    while index < len(tokens):
        end = search.end_of_mark(index)
        if end > index:
            marks[index] = end
        else:
            end = index + 1
            search.pass_text(index, end)
        index = end
    return marks


def text_up_to(tokens: Sequence[Token], before: str) -> str:
    """Returns some words of the text up to the end of tokens that are no marks, in a line.

    Args:
        tokens: the tokens.
        before: the text before them.
    """
    if len(tokens) == 1 and tokens[0].kind is Kind.EMPTY and tokens[0].name == "br":
        return ""
    return (before + visible("".join(map(_characters, tokens))))[-_CONTEXT:]


def text_after(tokens: Sequence[Token], start: int) -> str:
    """Returns some words of the text from a token on."""
    text = ""
    for token in tokens[start : start + _MAX_TOKENS]:
        text += _characters(token)[:_CONTEXT]
        if len(text) >= _CONTEXT:
            break
    return visible(text)


def _characters(token) -> str:
    return " " if token.kind is Kind.EMPTY else token.text

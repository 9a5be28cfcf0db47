"""Where the marks are in a run of text with inline elements."""

from collections.abc import Mapping, Sequence

from export.markup.marks.elements import is_mark
from export.markup.marks.raised import visible
from export.markup.parsing.tokens import Kind, Token, ends_of_elements

_CONTEXT = 64  # characters around an element that are considered
_MAX_TOKENS = 32  # of a mark, or between it and the text after it, so that time is bounded


def find_marks(tokens: Sequence[Token]) -> dict[int, int]:
    """Returns for the first token of each mark the index after its last one.

    Args:
        tokens: a run of tokens without blocks between; elements may begin or end outside of it.
    """
    ends, marks = ends_of_elements(tokens), {}
    before, index = "", 0
    while index < len(tokens):
        end = end_of_mark(tokens, index, ends, before)
        if end > index:
            marks[index] = end
        else:
            before, end = text_up_to(tokens[index : index + 1], before), index + 1
        index = end
    return marks


def end_of_mark(tokens: Sequence[Token], index: int, ends: Mapping[int, int], before: str) -> int:
    """Returns the index after a mark that starts at a token, or that token's index if none does.

    Args:
        tokens: a run of tokens.
        index: the token's index.
        ends: the ends of the run's elements, see `ends_of_elements`.
        before: the text before it, see `text_up_to`.
    """
    end = ends.get(index, index)
    if not index < end <= index + _MAX_TOKENS:
        return index
    return end if is_mark(tokens[index:end], before, text_after(tokens, end)) else index


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

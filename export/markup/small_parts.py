"""Inline elements smaller than words: marks, raised and lowered parts of words, keys.

The translator does not see marks. A word with raised or lowered parts, such as H<sub>2</sub>O, is
one word for it, and so are keys that are pressed together, such as <kbd>Ctrl</kbd>+<kbd>C</kbd>;
they come back with their tags where the translation has a copy.
"""

import re
from collections.abc import Iterator, Sequence

from export.markup.marks import (
    FRACTION_SIGNS,
    PAGE_BREAK,
    RAISED,
    MarkSearch,
    is_lowered,
    is_page_break,
    is_raised,
    split_marks,
    text_after,
)
from export.markup.parsing.tokens import Kind, Token, source_of, text_token
from export.markup.whole_words import SmallElement, join_whole_words
from export.markup.words import has_space

_MAX_TOKENS = 32  # of a raised or lowered part, so that time is bounded
_MAX_PART = 12  # characters of a raised or lowered part of a word
_MAX_KEYS = 80  # characters of keys that are pressed together
_SEPARATORS = frozenset(["", ",", ";", "–", "—", "-"])
_BETWEEN_KEYS = frozenset("+/-‐‑–")


def join_small_parts(tokens: Sequence[Token]) -> list[Token]:
    """Returns the tokens of a segment, with one token for each mark and each word with such parts.

    Args:
        tokens: the tokens of a segment, properly nested.
    """
    found: list[Token] = []
    run: list[Token] = []
    for token in _with_small_elements(tokens):
        if token.kind in (Kind.START, Kind.END, Kind.EMPTY, Kind.OTHER):
            found += _joined(run)
            found.append(token)
            run = []
        else:
            run.append(token)
    return join_whole_words([*found, *_joined(run)])


def _with_small_elements(tokens) -> Iterator[Token]:
    """Yields the tokens, marks and small elements that may be parts of words as one each."""
    search, index = MarkSearch(tokens), 0
    while index < len(tokens):
        token, end = tokens[index], search.end_of_mark(index)
        if end > index:
            element = tokens[index:end]
            name = PAGE_BREAK if is_page_break(element) else token.name
            yield Token(Kind.MARK, source_of(element), name)
            index = end
            continue
        end = search.ends.get(index, index + 1)
        element = tokens[index:end] if end - index <= _MAX_TOKENS else tokens[index : index + 1]
        if token.kind is Kind.START and _may_be_part_of_word(element):
            text = "".join(x.text for x in element)
            yield SmallElement(Kind.WORD, source_of(element), text=text, tokens=element)
        elif token.kind is Kind.TEXT and not search.is_in_list(index):
            yield from split_marks(token, search.before, text_after(tokens, end))
        else:
            yield token
            end = index + 1
        if token.kind is not Kind.MARK:
            search.pass_text(index, end)
        index = end


def _may_be_part_of_word(element) -> bool:
    text = "".join(token.text for token in element)
    is_plain = all(x.kind in (Kind.START, Kind.END) or x.text for x in element)
    is_small = is_raised(element[0]) or is_lowered(element[0])
    return is_small and is_plain and 0 < len(text) <= _MAX_PART and not has_space(text)


def _joined(run: list[Token]) -> list[Token]:
    """Joins the parts of marks and of keys in tokens without other tags between them."""
    if all(token.kind is Kind.TEXT for token in run):
        return run
    return _with_joined_keys(_with_joined_marks(run))


def _with_joined_marks(run):
    """Joins marks with only a sign between them, and brackets around them that touch a word."""
    found: list[Token] = []
    for token in run:
        if token.kind is Kind.MARK and found and found[-1].kind is Kind.MARK:
            found[-1] = _mark(found[-1:], token)
        elif len(found) > 1 and _joins_marks(found, token):
            found[-2:] = [_mark(found[-2:], token)]
        else:
            found.append(token)
    return _with_brackets(found)


def _mark(tokens, last) -> Token:
    return Token(Kind.MARK, source_of([*tokens, last]), tokens[0].name)


def _joins_marks(found, token) -> bool:
    """Returns whether a token and the last ones are a list of marks, or a fraction."""
    first, sign = found[-2:]
    if (first.kind, sign.kind) != (Kind.MARK, Kind.TEXT):
        return False
    if token.kind is not Kind.MARK:
        return token.kind is Kind.WORD and sign.text in FRACTION_SIGNS
    is_list = {first.name, token.name} <= RAISED or (len(found) > 2 and _opens_bracket(found[-3]))
    return sign.text in _SEPARATORS or (is_list and sign.text.strip() in _SEPARATORS)


def _opens_bracket(token) -> bool:
    """Returns whether a text ends with a bracket that touches a word."""
    return token.kind is Kind.TEXT and re.search(r"(?:^|\S)\[$", token.text) is not None


def _with_brackets(run):
    for index in range(1, len(run) - 1):
        before, mark, after = run[index - 1 : index + 2]
        is_in_brackets = after.kind is Kind.TEXT and after.text.startswith("]")
        if mark.kind is Kind.MARK and is_in_brackets and _opens_bracket(before):
            run[index - 1] = text_token(before.text[:-1])
            run[index] = Token(Kind.MARK, f"[{mark.source}]", mark.name)
            run[index + 1] = text_token(after.text[1:])
    return [token for token in run if token.kind is not Kind.TEXT or token.text]


def _with_joined_keys(run):
    """Joins atoms with a sign between them, which are one word, as keys are."""
    found: list[Token] = []
    for token in run:
        if token.kind is Kind.ATOM and len(found) > 1:
            atom, sign = found[-2:]
            text = atom.text + sign.text + token.text
            are_atoms = atom.kind is Kind.ATOM and bool(atom.text and token.text)
            if are_atoms and sign.text in _BETWEEN_KEYS and len(text) <= _MAX_KEYS:
                source = atom.source + sign.source + token.source
                found[-2:] = [Token(Kind.ATOM, source, atom.name, text)]
                continue
        found.append(token)
    return found

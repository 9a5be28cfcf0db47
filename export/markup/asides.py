"""Texts inside a sentence that are no part of it: notes, index terms, text for screen readers.

Words that are raised or in a badge, and touch the word before, are such texts, too.

They are translated on their own, and stand in the sentence as marks, see `marks`.
"""

import dataclasses
import re
from collections.abc import Sequence

from export.markup.marks import (
    is_bracketed,
    is_counter,
    is_lowered,
    is_raised,
    is_reference,
    visible,
)
from export.markup.parsing.elements import (
    BLOCKS,
    OPAQUE,
    XML_INLINE_CODE,
    XML_OPAQUE,
    may_translate,
)
from export.markup.parsing.tokens import Kind, Token, ends_of_elements, source_of

# Of DocBook, DITA, JATS and TEI.
_NAMES = frozenset(["fn", "footnote", "indexterm", "menucascade", "menuchoice", "note"])
_NOTES = re.compile(
    r"(?i)(?:^|\s)(?:\S*side-?note|\S*margin-?note|foot-?note|ltx_note(?:_outer)?|tooltip-?text)"
    r"(?:\s|$)"
)
_HIDDEN = re.compile(
    r"(?i)(?:^|\s)(?:\S*off-?screen|screen-?reader\S*|sr-only|\S*visually-?hidden)(?:\s|$)"
)
_NOT_DISPLAYED = re.compile(r"(?i)display\s*:\s*none")
_WORD = re.compile(r"[^\W\d_]{2}")
_INLINE = frozenset(["a", "bdi", "em", "i", "ins", "label", "small", "span", "strong"])
# Behind them, raised words belong to the sentence.
_ORDINAL_ENDS = frozenset(["st", "nd", "rd", "th", "er", "re", "e", "ère", "ème", "nde"])
_CLOSING = frozenset(".,;:!?…)]%*”»")
_MAX_TOKENS = 64  # of the element with such words, so that time is bounded
_MAX_DEPTH = 4  # of asides in asides


@dataclasses.dataclass(slots=True)
class Aside(Token):
    """An element with a text of its own, in place of its tokens.

    Attributes:
        content: what is between its tags.
        tags: its start tag and its end tag.
    """

    content: Sequence[Token] = ()
    tags: tuple[str, str] = ("", "")

    def set_content(self, source: str) -> None:
        """Replaces what is between its tags."""
        self.source = f"{self.tags[0]}{source}{self.tags[1]}"


def fold_asides(tokens: Sequence[Token], is_html: bool, depth: int = 0) -> list[Token]:
    """Returns the tokens of a document, with one token for each aside.

    Args:
        tokens: the tokens, properly nested.
        is_html: whether the document is HTML, or XHTML.
        depth: number of asides that they are in; deeper ones stay as they are.
    """
    if depth >= _MAX_DEPTH:
        return list(tokens)
    ends = _ends_of_asides(tokens, is_html)
    found: list[Token] = []
    index = 0
    while index < len(tokens):
        token, end = tokens[index], ends.get(index, index)
        content = tokens[index + 1 : end]
        if content and (not is_html or _is_hidden(token) or _has_words(content)):
            source = source_of(tokens[index : end + 1])
            tags = (token.source, tokens[end].source)
            token = Aside(Kind.MARK, source, token.name, content=content, tags=tags)
            index = end
        found.append(token)
        index += 1
    return found


def _ends_of_asides(tokens, is_html) -> dict[int, int]:
    """Returns for the start tag of each aside that is in no other the index of its end tag."""
    ends: dict[int, int] = {}
    stack: list[int] = []
    translates = [True]  # of the open elements
    outermost = None
    all_ends = ends_of_elements(tokens)
    before = ""  # the last character of the text before, in the same block
    for index, token in enumerate(tokens):
        if token.kind is Kind.START:
            name = token.name.rpartition(":")[2]
            is_copied = name in OPAQUE if is_html else name in XML_OPAQUE | XML_INLINE_CODE
            may = may_translate(name, token.attributes or {}, translates[-1])
            translates.append(may and not is_copied)
            if name in BLOCKS:
                before = ""
            is_inner = outermost is not None or not translates[-1]
            if not is_inner and (
                _is_aside(token, is_html)
                or _is_note_of_word(tokens, index, all_ends[index], before)
            ):
                outermost = index
            stack.append(index)
        elif token.kind is Kind.END:
            translates.pop()
            start = stack.pop()
            if start == outermost:
                ends[start], outermost = index, None
            if tokens[start].name in BLOCKS:
                before = ""
        elif token.kind is Kind.EMPTY:
            before = ""
        elif token.text and outermost is None:
            before = visible(token.text)[-1:] or before
    return ends


def _is_aside(token, is_html) -> bool:
    name = token.name.rpartition(":")[2]
    if not is_html:
        return name in _NAMES
    is_note = _NOTES.search((token.attributes or {}).get("class") or "") is not None
    return name in _INLINE and (is_note or _is_hidden(token))


def _is_note_of_word(tokens, start, end, before) -> bool:
    """Returns whether an element has words that are a note of the word that it touches.

    Args:
        tokens: the tokens.
        start: index of its start tag.
        end: the index after its end tag.
        before: the character before it, or "".
    """
    token, is_badge = tokens[start], is_counter(tokens[start])
    if not (before.isalnum() or before in _CLOSING) or end - start > _MAX_TOKENS:
        return False
    content = tokens[start + 1 : end - 1]
    if not (is_badge or is_raised(token) or is_lowered(token)) or not _has_words(content):
        return False
    text = visible("".join(x.text for x in content if x.kind is Kind.TEXT)).strip()
    words = text.split()
    is_ordinal = before.isdecimal() and words[0] in _ORDINAL_ENDS
    return (is_badge or len(words) > 1) and not is_reference(text) and not is_ordinal


def _is_hidden(token) -> bool:
    attributes = token.attributes or {}
    is_hidden = "hidden" in attributes or _HIDDEN.search(attributes.get("class") or "") is not None
    return is_hidden or _NOT_DISPLAYED.search(attributes.get("style") or "") is not None


def _has_words(tokens) -> bool:
    text = "".join(token.text for token in tokens if token.kind is Kind.TEXT).strip()
    return _WORD.search(text) is not None and not is_bracketed(text)

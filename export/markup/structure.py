"""Which elements of a document separate texts, and which belong to the text around them."""

from collections.abc import Sequence

from export.markup.parsing.elements import BLOCKS, is_preformatted
from export.markup.parsing.tokens import Kind, Token


def separating_tags(tokens: Sequence[Token], markup: str) -> list[bool]:
    """Returns for each token whether it is a tag that separates the texts before and after it.

    In HTML these are tags of blocks, and of all elements with a block inside, or with a line of
    preformatted text. XML does not say which elements are blocks: those are taken for inline that
    stand in an element which has a text of its own, or anywhere deeper. XHTML is HTML.

    Args:
        tokens: the tokens of a document.
        markup: "html" or "xml".
    """
    root = next((token for token in tokens if token.kind is Kind.START), None)
    if markup == "html" or (root and local_name(root.name) == "html"):
        return _separating_in_html(tokens)
    return _separating_in_xml(tokens)


def local_name(name: str) -> str:
    """Returns an element's name without its namespace."""
    return name.rpartition(":")[2]


def _separating_in_html(tokens):
    found = [False] * len(tokens)
    # The open elements: index of the start tag, whether white space is significant.
    stack: list[tuple[int, bool]] = []
    for index, token in enumerate(tokens):
        if token.kind in (Kind.START, Kind.EMPTY):
            is_block = local_name(token.name) in BLOCKS
            if is_block:
                found[index] = True
                _separate_parents(stack, found)
            if token.kind is Kind.START:
                inherited = bool(stack) and stack[-1][1]
                is_pre = is_preformatted(local_name(token.name), token.attributes or {}, inherited)
                stack.append((index, is_pre))
        elif token.kind is Kind.END:
            found[index] = found[stack.pop()[0]]
        elif token.kind is Kind.TEXT and stack and stack[-1][1] and "\n" in token.text:
            _separate_parents(stack, found)
    return found


def _separate_parents(stack, found):
    for parent, _ in reversed(stack):
        if found[parent]:
            return
        found[parent] = True


def _separating_in_xml(tokens):
    has_text = [False] * len(tokens)
    stack: list[int] = []
    for index, token in enumerate(tokens):
        if token.kind is Kind.START:
            stack.append(index)
        elif token.kind is Kind.END:
            stack.pop()
        elif token.kind is Kind.TEXT and stack and token.text.strip():
            has_text[stack[-1]] = True
    found = [False] * len(tokens)
    # The open elements: index of the start tag, whether what is in it is inline.
    parents: list[tuple[int, bool]] = []
    for index, token in enumerate(tokens):
        is_inline = bool(parents) and parents[-1][1]
        if token.kind in (Kind.START, Kind.EMPTY):
            found[index] = not is_inline
            if token.kind is Kind.START:
                parents.append((index, is_inline or has_text[index]))
        elif token.kind is Kind.END:
            found[index] = found[parents.pop()[0]]
    return found

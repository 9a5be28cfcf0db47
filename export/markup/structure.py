"""Which elements of a document separate texts, and which belong to the text around them."""

from collections.abc import Iterator, Sequence

from export.markup.parsing.elements import BLOCKS, is_preformatted
from export.markup.parsing.tokens import Kind, Token


def separating_tags(tokens: Sequence[Token], markup: str, breaks: Sequence[bool]) -> list[bool]:
    """Returns for each token whether it is a tag that separates the texts before and after it.

    In HTML these are tags of blocks, and of links that touch each other. XML does not say which
    elements are blocks: those are taken for inline that stand in an element which has a text of its
    own, or anywhere deeper. In both, the tags of all elements separate that have a block or a
    significant line feed inside. XHTML is HTML.

    Args:
        tokens: the tokens of a document.
        markup: "html" or "xml".
        breaks: the result of `breaks_lines`.
    """
    root = next((token for token in tokens if token.kind is Kind.START), None)
    is_html = markup == "html" or (root is not None and local_name(root.name) == "html")
    found = _blocks_of_html(tokens) if is_html else _blocks_of_xml(tokens)
    stack: list[int] = []
    for index, token in enumerate(tokens):
        if found[index] or breaks[index]:
            _separate_parents(stack, found)
        if token.kind is Kind.START:
            stack.append(index)
        elif token.kind is Kind.END:
            found[index] = found[stack.pop()]
    return found


def breaks_lines(tokens: Sequence[Token]) -> list[bool]:
    """Returns for each token whether it is a text with a line feed, and white space is significant.

    Args:
        tokens: the tokens of a document.
    """
    found = [False] * len(tokens)
    preserves = [False]  # of the open elements, whether white space is significant
    for index, token in enumerate(tokens):
        if token.kind is Kind.START:
            preserves.append(preserves_space(token, preserves[-1]))
        elif token.kind is Kind.END:
            preserves.pop()
        elif token.kind is Kind.TEXT:
            found[index] = preserves[-1] and "\n" in token.text
    return found


def preserves_space(token: Token, inherited: bool) -> bool:
    """Returns whether white space is significant in an element.

    Args:
        token: its start tag.
        inherited: whether it is in its parent.
    """
    return is_preformatted(local_name(token.name), token.attributes or {}, inherited)


def local_name(name: str) -> str:
    """Returns an element's name without its namespace."""
    return name.rpartition(":")[2]


def _blocks_of_html(tokens) -> list[bool]:
    found = [
        token.kind in (Kind.START, Kind.EMPTY) and local_name(token.name) in BLOCKS
        for token in tokens
    ]
    for index in _touching_links(tokens):
        found[index] = True
    return found


def _touching_links(tokens) -> Iterator[int]:
    """Yields the start tags of links between whose texts are only tags.

    They are entries of a list. Where signs touch, as in `[1][2]`, they are parts of a sentence, and
    so are raised and lowered ones, which are notes.
    """
    open_elements: list[int] = []
    last_link, last = None, ""
    for index, token in enumerate(tokens):
        if token.kind is Kind.START:
            open_elements.append(index)
        elif token.kind is Kind.END:
            open_elements.pop()
        elif token.kind is Kind.TEXT and token.text:
            link = _link_around(tokens, open_elements)
            touch = link is not None and last_link is not None and link != last_link
            if touch and (last.isalnum() or token.text[0].isalnum()):
                yield from (last_link, link)
            last_link, last = link, token.text[-1]


def _link_around(tokens, open_elements) -> int | None:
    """Returns the innermost open link, if no note begins in it or around it."""
    names = [local_name(tokens[index].name) for index in open_elements]
    if "a" not in names or "sup" in names or "sub" in names:
        return None
    return open_elements[len(names) - 1 - names[::-1].index("a")]


def _separate_parents(stack, found):
    for parent in reversed(stack):
        if found[parent]:
            return
        found[parent] = True


def _blocks_of_xml(tokens) -> list[bool]:
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
    inline = [False]  # of the open elements, whether what is in them is inline
    for index, token in enumerate(tokens):
        if token.kind in (Kind.START, Kind.EMPTY):
            found[index] = not inline[-1]
            if token.kind is Kind.START:
                inline.append(inline[-1] or has_text[index])
        elif token.kind is Kind.END:
            inline.pop()
    return found

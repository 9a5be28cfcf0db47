"""Which elements of a document separate texts, and which belong to the text around them."""

import re
from collections.abc import Iterator, Sequence

from export.markup.marks import find_marks
from export.markup.parsing.elements import BLOCKS, XML_BLOCKS, XML_INLINE_CODE, is_preformatted
from export.markup.parsing.tokens import Kind, Token

_NOTES = ("sup", "sub")
# Links behind headings of MediaWiki, as in "[edit | edit source]".
_EDIT_LINKS = re.compile(r"(?:^|\s)(?:mw-)?editsection(?:\s|$)")


def separating_tags(tokens: Sequence[Token], is_html: bool, breaks: Sequence[bool]) -> list[bool]:
    """Returns for each token whether it is a tag that separates the texts before and after it.

    In HTML these are tags of blocks, and of inline elements that touch, see `_touching_elements`.
    XML does not say which elements are blocks: those are taken for inline that stand in an element
    which has a text of its own, or anywhere deeper, unless their names are those of blocks in
    DocBook, DITA and TEI, or they have several elements inside but no text. In both, the tags of
    all elements separate that have a block or a significant line feed inside.

    Args:
        tokens: the tokens of a document.
        is_html: whether it is HTML, or XHTML.
        breaks: the result of `breaks_lines`.
    """
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


def root_name(tokens: Sequence[Token]) -> str:
    """Returns the name of a document's first element, without its namespace."""
    return next((local_name(token.name) for token in tokens if token.kind is Kind.START), "")


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
        token.kind in (Kind.START, Kind.EMPTY)
        and local_name(token.name) in BLOCKS
        and "margin-toggle" not in ((token.attributes or {}).get("class") or "").split()
        for token in tokens
    ]
    depth = 0  # of elements with such links, in which all elements are apart
    for index, token in enumerate(tokens):
        if token.kind is Kind.START:
            is_edit = _EDIT_LINKS.search((token.attributes or {}).get("class") or "") is not None
            depth += bool(depth) or is_edit
            found[index] = found[index] or depth > 0
        elif token.kind is Kind.END:
            depth -= bool(depth)
    for index in _touching_elements(tokens, _marks_between_blocks(tokens, found)):
        found[index] = True
    return found


def _marks_between_blocks(tokens, separates) -> dict[int, int]:
    """Returns for the first token of each mark the index after its last one."""
    marks: dict[int, int] = {}
    stack: list[int] = []
    start = 0
    for index, token in enumerate([*tokens, Token(Kind.EMPTY, "")]):
        is_tag = index < len(tokens) and separates[index]
        if token.kind is Kind.START:
            stack.append(index)
        elif token.kind is Kind.END:
            is_tag = separates[stack.pop()]
        if is_tag or index == len(tokens):
            run = find_marks(tokens[start:index])
            marks.update({start + first: start + end for first, end in run.items()})
            start = index + 1
    return marks


def _touching_elements(tokens, marks) -> Iterator[int]:
    """Yields the start tags of elements that touch, although their texts are apart.

    Between the texts are only tags and marks, and one of the elements ends and the other begins
    there. They are apart if both are in links, as the entries of a menu, or if lower case meets
    upper case, as in the cells of a form. Where signs touch, as in `[1][2]`, the texts are parts of
    a sentence, and so are raised and lowered ones.

    Args:
        tokens: the document.
        marks: for the first token of each mark the index after its last one. A mark is no text, so
            that a link to a footnote is not apart from the link that it follows.
    """
    stack: list[int] = []
    num_links = num_notes = 0
    link = None  # the start tag of the outermost open one
    # The number of elements that have been open since the last text; the outermost one with that
    # text that has ended; and the one that has begun in its place.
    num_open, ended, begun = 0, None, None
    last_link, was_note, last = None, False, ""
    end = 0  # of the last mark
    for index, token in enumerate(tokens):
        end = marks.get(index, end)
        if index < end:
            continue
        name, step = local_name(token.name), (token.kind is Kind.START) - (token.kind is Kind.END)
        num_links += step * (name == "a")
        link = None if not num_links else index if link is None else link
        num_notes += step * (name in _NOTES)
        if token.kind is Kind.START:
            begun = index if len(stack) == num_open else begun
            stack.append(index)
        elif token.kind is Kind.END:
            start = stack.pop()
            begun = begun if len(stack) > num_open else None
            if len(stack) < num_open:
                num_open, ended = len(stack), start
        elif token.kind is Kind.TEXT and token.text:
            is_note, first = num_notes > 0, token.text[0]
            if ended is not None and begun is not None and not (is_note or was_note):
                are_links = link is not None and last_link not in (None, link)
                meets = are_links and (last.isalnum() or first.isalnum())
                is_replaced = {tokens[ended].name, tokens[begun].name} & {"del", "ins"}
                if meets or (last.islower() and first.isupper() and not is_replaced):
                    yield from (ended, begun)
            num_open, ended, begun = len(stack), None, None
            last_link, was_note, last = link, is_note, token.text[-1]


def _separate_parents(stack, found):
    for parent in reversed(stack):
        if found[parent]:
            return
        found[parent] = True


def _blocks_of_xml(tokens) -> list[bool]:
    has_text, num_children = [False] * len(tokens), [0] * len(tokens)
    stack: list[int] = []
    for index, token in enumerate(tokens):
        if token.kind in (Kind.START, Kind.EMPTY) and stack:
            num_children[stack[-1]] += 1
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
            name = local_name(token.name)
            is_list = num_children[index] > 1 and not has_text[index]
            is_list = is_list and name not in XML_INLINE_CODE
            found[index] = not inline[-1] or name in XML_BLOCKS or is_list
            if token.kind is Kind.START:
                inline.append(has_text[index] or not found[index])
        elif token.kind is Kind.END:
            inline.pop()
    return found

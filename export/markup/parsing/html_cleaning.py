"""Rewrites what justhtml does not locate in a document as the HTML standard would read it.

With the locations of nodes, justhtml 3.16 takes for text what the standard calls a parse error:
instructions, unknown declarations, end tags with attributes, comments that the document ends in.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from export.markup.parsing.elements import BLOCKS, RAW_TEXT
from export.markup.parsing.tokens import END_TAG, START_TAG, TAG_NAME, escape_text

_COMMENT = re.compile(r"<!--(?:-?>|.*?(?:--!?>|\Z))", re.DOTALL)
_DOCTYPE = re.compile(r"<!doctype[^>]*(?:>|\Z)", re.IGNORECASE)
_BOGUS = re.compile(r"<[!?/][^>]*(?:>|\Z)")
_CDATA = re.compile(r"<!\[CDATA\[.*?(?:\]\]>|\Z)", re.DOTALL)
_END_NAME = re.compile(r"</([a-zA-Z][^\t\n\f\r />]*)[\t\n\f\r ]*")
_FOREIGN = ("svg", "math")
# Inline elements that end SVG and MathML.
_HTML_ONLY = frozenset(
    [
        "b",
        "big",
        "br",
        "code",
        "em",
        "embed",
        "i",
        "img",
        "nobr",
        "ruby",
        "s",
        "small",
        "span",
        "strike",
        "strong",
        "sub",
        "sup",
        "tt",
        "u",
        "var",
    ]
)


class CleanDocument(NamedTuple):
    """A document without what is hard to locate.

    Attributes:
        text: the document.
        comments: what stood in place of some of its comments, by their characters.
    """

    text: str
    comments: dict[str, str]


def clean_html(document: str) -> CleanDocument:
    """Returns a document that a browser reads like the given one."""
    marker = "markup"
    while marker in document:
        marker += "-x"
    chunks: list[str] = []
    comments: dict[str, str] = {}
    copied = 0
    for start, end, kind in _faults(document):
        chunks.append(document[copied:start])
        if kind == "comment":
            data = f"{marker}{len(comments)}"
            comments[data] = _closed(document[start:end])
            chunks.append(f"<!--{data}-->")
        else:
            chunks.append(kind)
        copied = end
    return CleanDocument("".join([*chunks, document[copied:]]), comments)


def _faults(document: str) -> Iterator[tuple[int, int, str]]:
    """Yields what to replace: start, end, and by what; "comment" stands for a comment."""
    position = document.find("<")
    has_content, foreign = False, 0
    while position >= 0:
        following = document[position + 1 : position + 2]
        end = position + 1
        if document.startswith("<!--", position):
            end = _end_of(_COMMENT, document, position)
            comment = document[position:end]
            if _closed(comment) != comment or "\0" in comment:
                yield position, end, "comment"
        elif match := _DOCTYPE.match(document, position):
            end = match.end()
            if has_content or not match[0].endswith(">"):
                yield position, end, "comment"
            has_content = True
        elif foreign and (match := _CDATA.match(document, position)):
            end = match.end()
        elif following in ("!", "?"):
            end = _end_of(_BOGUS, document, position)
            yield position, end, "comment"
        elif following == "/":
            end, replacement, name = _end_tag(document, position)
            if replacement is not None:
                yield position, end, replacement
            foreign = max(foreign - (name in _FOREIGN), 0)
            has_content = True
        elif following.isascii() and following.isalpha():
            match = START_TAG.match(document, position)
            if match is None:  # the document ends in it
                yield position, len(document), ""
                return
            end, name = match.end(), TAG_NAME.match(match[0])[1].lower()  # type: ignore[index]
            has_content = True
            if name == "plaintext":  # which nothing ends; <pre> looks alike
                yield position, len(document), f"<pre>{escape_text(document[end:])}</pre>"
                return
            if name in BLOCKS or name in _HTML_ONLY:
                foreign = 0
            if name in _FOREIGN and not match[0].endswith("/>"):
                foreign += 1
            elif not foreign and (name in RAW_TEXT or name in ("textarea", "title")):
                end = _raw_end(document, end, name)
        position = document.find("<", end)


def _end_of(pattern, document, position) -> int:
    match = pattern.match(document, position)
    return match.end() if match else position + 1


def _closed(comment):
    """Returns a comment with its end."""
    if comment.startswith("<!--"):
        is_closed = comment.endswith(("-->", "--!>")) or comment in ("<!-->", "<!--->")
        return comment if is_closed else f"{comment}-->"
    return comment if comment.endswith(">") else f"{comment}>"


def _end_tag(document, position):
    """Returns where an end tag ends, what replaces it, and its name."""
    match = _END_NAME.match(document, position)
    if match is None:
        end = _end_of(_BOGUS, document, position)
        return end, "" if document.startswith("</>", position) else "comment", ""
    name = match[1]
    if document.startswith(">", match.end()):
        return match.end() + 1, None, name.lower()
    tag = END_TAG.match(document, position)
    if tag is None:  # the document ends in it
        return len(document), "", ""
    return tag.end(), f"</{name}>", name.lower()


def _raw_end(document, start, name):
    """Returns where the text of an element ends that has no tags inside."""
    match = re.compile(rf"</{name}(?=[\t\n\f\r />])", re.IGNORECASE).search(document, start)
    return match.start() if match else len(document)

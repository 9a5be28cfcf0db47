"""HTML as tokens, by the parser of justhtml.

The tree is the one that the HTML standard prescribes for any input, so that end tags which are
missing or crossed are repaired as in a browser. The tokens are nevertheless copied from the
document wherever they stand in it as in the tree.
"""

import html
import re
from collections.abc import Iterator
from typing import Any

from export.markup.parsing.elements import RAW_TEXT, VOIDS
from export.markup.parsing.html_cleaning import CleanDocument, clean_html
from export.markup.parsing.tokens import START_TAG, TAG_NAME, Kind, Token, escape_text, escape_value
from tf_transformer.errors import InputError

_SPACE = " \t\n\f\r"
_DOCTYPE = re.compile(r"[ \t\n\f\r]*<!doctype[^>]*>", re.IGNORECASE)
_SPACES = r"[ \t\n\f\r]*+"
_STRAY_END_TAG = re.compile(r"</[a-zA-Z][^>]*>")
_TAIL = re.compile(
    r"(?:[ \t\n\f\r]++|</(?:body|html)[ \t\n\f\r]*+>|<!--[^>]*-->)*+\Z", re.IGNORECASE
)
_COMMENT = re.compile("<!--([^>]*)-->")
# The parser drops a line feed at their start, and after comments there.
_DROPPING = ("pre", "listing", "textarea")
# A fragment that the parser would drop the tags of, because it only knows them in a table.
_TABLE_PART = re.compile(
    r"(?:[^<]++|<!--.*?-->)*+</?(?:caption|col|colgroup|tbody|td|tfoot|th|thead|tr)[ \t\n\f\r/>]",
    re.IGNORECASE | re.DOTALL,
)
# An element of the tree that needs no tags in the document.
_OPTIONAL = frozenset(("html", "head", "body", "tbody", "colgroup", "tr"))


def parse_html(document: str, max_depth: int) -> list[Token]:
    """Returns the tokens of a document or a fragment.

    Line ends become line feeds, as the standard prescribes. A fragment that begins with a part of a
    table, such as a cell, is read as if it stood in one.

    Args:
        document: the document.
        max_depth: the deepest nesting of elements to accept.

    Raises:
        InputError: elements are nested deeper, or justhtml is not installed.
    """
    try:
        import justhtml
    except ImportError as error:
        raise InputError(
            "HTML needs the package justhtml: pip install 'tf-transformer[markup]'"
        ) from error
    document = document.replace("\r\n", "\n").replace("\r", "\n")
    added = "<table>" if _TABLE_PART.match(document) else ""
    clean = clean_html(added + document)
    # `sanitize` would remove what could be a script. Without scripting, the standard would move a
    # picture in a <noscript> of the head to the body, where it is always loaded.
    parsed = justhtml.JustHTML(
        clean.text, sanitize=False, track_node_locations=True, scripting_enabled=True
    )
    return list(_Walk(clean, max_depth, len(added)).tokens(parsed.root))


class _Walk:
    """Walks the tree, and the document beside it.

    Args:
        document: the document.
        max_depth: the deepest nesting to accept.
        start: where the document begins; a tag before it was added, and gives no token.
    """

    def __init__(self, document: CleanDocument, max_depth: int, start: int):
        self._document, self._comments = document
        self._max_depth = max_depth
        self._start = start
        # Where the last token ends in the document; None where it does not stand there as such.
        self._end: int | None = start
        # The element that nothing but comments stands in yet.
        self._opened: Any = None

    def tokens(self, root: Any) -> Iterator[Token]:
        """Yields the tokens of the tree below a node."""
        stack = [(root, "", iter(_children(root)))]
        while stack:
            parent, tag_name, children = stack[-1]
            node = next(children, None)
            if node is None:
                stack.pop()
                if tag_name:
                    yield from self._end_tag(parent, tag_name)
            elif node.name == "#text":
                yield from self._text(node, parent)
            elif node.name == "#comment":
                yield from self._comment(node)
            elif node.name == "!doctype":
                yield self._doctype(node)
            else:
                if len(stack) > self._max_depth:
                    raise InputError(
                        f"expected elements nested at most {self._max_depth:,} deep. "
                        "Received: a deeper document"
                    )
                tag = self._start_tag(node)
                kind = Kind.EMPTY if _is_empty(node, tag) else Kind.START
                if tag:
                    yield from self._at(
                        node, tag, Token(kind, tag, node.name, "", node.attrs or {})
                    )
                self._opened = node
                if kind is Kind.START:
                    name = TAG_NAME.match(tag)
                    stack.append((node, name[1] if name else "", iter(_children(node))))
        rest = "" if self._end is None else self._document[self._end :]
        if rest and not rest.strip(_SPACE):  # the tree lacks it
            yield Token(Kind.OTHER, rest)

    def _at(self, node, source, token) -> Iterator[Token]:
        """Yields a token, after white space that the document has before it, and the tree lacks."""
        start = node.origin_offset
        if start is None or not self._document.startswith(source, start):
            self._end = None
        else:
            if self._end is not None and start > self._end:
                gap = self._document[self._end : start]
                if not gap.strip(_SPACE):
                    self._opened = None
                    yield Token(Kind.OTHER, gap)
            self._end = start + len(source)
        yield token

    def _start_tag(self, node) -> str:
        """Returns the start tag; nothing if the document has none and needs none."""
        start = node.origin_offset
        if start is not None and start < self._start:
            return ""
        match = START_TAG.match(self._document, start) if start is not None else None
        if match:
            return match[0]
        if node.name in _OPTIONAL and not node.attrs:
            return ""
        values = (
            f" {name}" if value is None else f' {name}="{escape_value(value)}"'
            for name, value in (node.attrs or {}).items()
        )
        return f"<{node.name}{''.join(values)}>"

    def _end_tag(self, node, name) -> Iterator[Token]:
        source = f"</{name}>"
        if self._end is not None:
            space = _SPACES if node.name == "html" else ""
            pattern = re.compile(rf"({space})(</{re.escape(name)}[ \t\n\f\r]*+>)", re.IGNORECASE)
            if match := pattern.match(self._document, self._end):
                if match[1]:
                    yield Token(Kind.OTHER, match[1])
                source, self._end = match[2], match.end()
        yield Token(Kind.END, source, node.name)

    def _text(self, node, parent) -> Iterator[Token]:
        """Yields a text, as the document has it if it stands there."""
        text, start = node.data or "", node.origin_offset
        is_raw = parent.name in RAW_TEXT and _is_html(parent)
        is_after = self._end is not None and self._document.startswith("<", self._end)
        if parent.name == "body" and is_after and self._is_tail(self._end, text):
            return  # after the end of the body
        if self._drops_line_feed(node, parent):
            yield Token(Kind.OTHER, "\n")
            start = (self._end or 0) + 1
        self._opened = None
        found = None
        if start is not None and is_raw and self._document.startswith(text, start):
            self._end = start + len(text)
            found = Token(Kind.TEXT, text, text=text)
        elif start is not None and not is_raw:
            found = self._find_text(text, start, parent.name == "body")
        if found is None:
            self._end = None
            found = Token(Kind.TEXT, text if is_raw else escape_text(text), text=text)
        if is_raw and self._comments:
            found.source = _COMMENT.sub(self._original, found.source)
        yield found

    def _drops_line_feed(self, node, parent) -> bool:
        """Returns whether the document has a line feed before a text which the tree lacks."""
        start = node.origin_offset
        if start is None or self._end is None or self._opened is not parent:
            return False
        if parent.name not in _DROPPING or not _is_html(parent):
            return False
        return self._document[self._end : max(start, self._end + 1)] == "\n"

    def _original(self, comment: re.Match) -> str:
        return self._comments.get(comment[1], comment[0])

    def _find_text(self, text, start, in_body) -> Token | None:
        """Returns the text that begins at a place in the document; None if another stands there.

        The parser ignores end tags inside it that have no start tag. White space after the end of
        the body is a part of the body's text; it is left to what follows.
        """
        document, num_found, end = self._document, 0, start
        sources = []
        while True:
            # A `<` here is a character: the text has it, or is another one.
            stop = document.find("<", end + document.startswith("<", end))
            source = document[end : stop if stop >= 0 else len(document)]
            characters = html.unescape(source)
            if not text.startswith(characters, num_found) or end == len(document):
                return None
            sources.append(source)
            num_found += len(characters)
            end += len(source)
            if num_found == len(text):
                break
            if in_body and self._is_tail(end, text[num_found:]):
                break
            if match := _STRAY_END_TAG.match(document, end):
                end = match.end()
        self._end = end
        return Token(Kind.TEXT, "".join(sources), text=text[:num_found])

    def _is_tail(self, start, text) -> bool:
        """Returns whether nothing follows but the end of the body and white space, this text."""
        if text.strip(_SPACE):
            return False
        match = _TAIL.match(self._document, start)
        return match is not None and re.sub("<[^>]*>", "", match[0]) == text

    def _comment(self, node) -> Iterator[Token]:
        data, start = node.data or "", node.origin_offset
        if start is not None:
            for closing in ("-->", "--!>", ""):
                source = f"<!--{data}{closing}"
                if self._document.startswith(source, start):
                    written = self._comments.get(data, source if closing else f"{source}-->")
                    yield from self._at(node, source, Token(Kind.OTHER, written))
                    return
        self._end = None
        data = data.replace("--", "- -").replace(">", "&gt;")
        yield Token(Kind.OTHER, f"<!--{data}-->")

    def _doctype(self, node) -> Token:
        if self._end is not None and (match := _DOCTYPE.match(self._document, self._end)):
            self._end = match.end()
            return Token(Kind.OTHER, match[0])
        self._end = None
        name = getattr(node.data, "name", None) or "html"
        return Token(Kind.OTHER, f"<!DOCTYPE {re.sub('[^a-zA-Z0-9]', '', name) or 'html'}>")


def _children(node) -> list:
    content = getattr(node, "template_content", None)
    return content.children if content is not None else node.children or []


def _is_empty(node, tag) -> bool:
    """Returns whether an element has no end tag; in SVG and MathML, `/>` says so."""
    return node.name in VOIDS if _is_html(node) else tag.endswith("/>")


def _is_html(node) -> bool:
    return node.namespace in (None, "html")

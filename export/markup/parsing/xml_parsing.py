"""XML as tokens, by the parser expat of Python's standard library.

Expat tells where each part begins, so that everything is copied from the document as it is. It
loads nothing from elsewhere, and does not recurse. Entities that the document declares are refused,
since they can make it exponentially long.
"""

import html.entities
import re
from typing import Any
from xml.parsers import expat

from export.markup.parsing.tokens import Kind, Token
from tf_transformer.errors import InputError
from tf_transformer.printable import printable

_REFERENCE = re.compile(r"&([\w.:-]{1,60};)")


def parse_xml(document: str, max_depth: int) -> list[Token]:
    """Returns the tokens of a document.

    Args:
        document: the document.
        max_depth: the deepest nesting of elements to accept.

    Raises:
        InputError: the document is not well-formed, declares entities, or is nested deeper.
    """
    events = _Events(max_depth)
    data = document.encode()
    try:
        events.parser.Parse(data, True)
    except expat.ExpatError as error:
        raise InputError(
            f"expected well-formed XML. Received at line {error.lineno}: "
            f"{expat.ErrorString(error.code)}"
        ) from error
    starts = [start for _, start in events.found]
    tokens: list[Token] = []
    if starts and starts[0] > 0:
        tokens.append(Token(Kind.OTHER, data[: starts[0]].decode()))
    for (token, start), end in zip(events.found, [*starts[1:], len(data)], strict=True):
        token.source = data[start:end].decode()
        _append(tokens, token)
    return tokens


class _Events:
    """What expat reports.

    Attributes:
        parser: the parser.
        found: the tokens, whose sources are to be filled in, and the bytes where they begin.
    """

    def __init__(self, max_depth: int):
        self.found: list[tuple[Token, int]] = []
        self._depth, self._max_depth = 0, max_depth
        self._in_cdata = False
        # The document was decoded before, and so a declared encoding does not count.
        self.parser = expat.ParserCreate("utf-8")
        self.parser.buffer_text = False
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.StartCdataSectionHandler = self._start_cdata
        self.parser.EndCdataSectionHandler = self._end_cdata
        self.parser.CommentHandler = self._comment
        self.parser.ProcessingInstructionHandler = lambda *_: self._add(Token(Kind.OTHER, ""))
        self.parser.EntityDeclHandler = self._refuse_entity
        self.parser.DefaultHandler = self._default

    def _add(self, token: Token) -> None:
        self.found.append((token, self.parser.CurrentByteIndex))

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > self._max_depth:
            raise InputError(
                f"expected elements nested at most {self._max_depth:,} deep. Received: a deeper "
                f"document, at line {self.parser.CurrentLineNumber}"
            )
        self._add(Token(Kind.START, "", name, attributes=attributes))

    def _end(self, name: str) -> None:
        self._depth -= 1
        self._add(Token(Kind.END, "", name))

    def _text(self, text: str) -> None:
        kind = Kind.OTHER if self._in_cdata else Kind.TEXT
        self._add(Token(kind, "", text="" if self._in_cdata else text))

    def _start_cdata(self) -> None:
        self._in_cdata = True
        self._add(Token(Kind.OTHER, "", "<![CDATA["))

    def _end_cdata(self) -> None:
        self._in_cdata = False
        self._add(Token(Kind.OTHER, "", "]]>"))

    def _comment(self, _: str) -> None:
        self._add(Token(Kind.OTHER, ""))

    def _default(self, source: str) -> None:
        """Receives declarations, and references to entities that no declaration was read of."""
        match = _REFERENCE.fullmatch(source)
        text = html.entities.html5.get(match[1]) if match else None
        self._add(Token(Kind.TEXT if text else Kind.OTHER, "", text=text or ""))

    def _refuse_entity(self, name: str, *_: Any) -> None:
        raise InputError(
            "expected XML that declares no entities. Received: the entity "
            f"{printable(name, 100)} at line {self.parser.CurrentLineNumber}"
        )


def _append(tokens: list[Token], token: Token) -> None:
    """Appends a token, or adds it to the last one if both are parts of one."""
    last = tokens[-1] if tokens else None
    if last is None:
        tokens.append(token)
    elif token.kind is Kind.TEXT and last.kind is Kind.TEXT:
        last.source += token.source
        last.text += token.text
    elif token.kind is Kind.END and not token.source:  # that of an empty element
        last.kind = Kind.EMPTY
    elif last.kind is Kind.OTHER and last.name == "<![CDATA[":
        last.source += token.source
        last.name = "" if token.name == "]]>" else last.name
    else:
        tokens.append(token)

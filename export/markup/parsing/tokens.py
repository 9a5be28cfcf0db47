"""The parts of a parsed document, in its order."""

import dataclasses
import enum
import re
from collections.abc import Iterable, Mapping, Sequence


class Kind(enum.Enum):
    """The kinds of tokens."""

    START = "start tag"
    END = "end tag"
    EMPTY = "element without content"
    TEXT = "text"
    OTHER = "comment, instruction, declaration or CDATA section"
    ATOM = "element whose content is copied unchanged"
    MARK = "element that is copied, and that the translator does not see"
    WORD = "word with raised or lowered parts"


@dataclasses.dataclass(slots=True)
class Token:
    """A part of a document.

    The sources of all tokens, one after the other, are the document. Every start tag has its end
    tag, properly nested; the parser adds end tags that are missing.

    Attributes:
        kind: the kind.
        source: the part as it is written in the document.
        name: the element's name, in lower case in HTML.
        text: the characters of a text, with references resolved, or the text inside an atom or a
            word; that of a mark is empty.
        attributes: the attributes of a start tag, by name; None has no value.
        hidden: a text that the translator does not see, but that shows where sentences end.
    """

    kind: Kind
    source: str
    name: str = ""
    text: str = ""
    attributes: Mapping[str, str | None] | None = None
    hidden: str = ""


def text_token(text: str) -> Token:
    """Returns the token of a text."""
    return Token(Kind.TEXT, escape_text(text), text=text)


def source_of(tokens: Iterable[Token]) -> str:
    """Returns tokens as they are written in the document."""
    return "".join(token.source for token in tokens)


def ends_of_elements(tokens: Sequence[Token]) -> dict[int, int]:
    """Returns for each start tag the index after its end tag, if that is there."""
    ends: dict[int, int] = {}
    stack: list[int] = []
    for index, token in enumerate(tokens):
        if token.kind is Kind.START:
            stack.append(index)
        elif token.kind is Kind.END and stack:
            ends[stack.pop()] = index + 1
    return ends


# Tags by the rules of HTML, of which those of XML are a part: quotes are special only at the start
# of a value. All quantifiers are possessive, so that no input takes quadratic time.
_WS = r"[\t\n\f\r ]"
_ATTRIBUTE_NAME = r"=?+[^\t\n\f\r />=][^\t\n\f\r />=]*+"
_VALUE = r"""(?:"([^"]*+)"|'([^']*+)'|([^\t\n\f\r >"'][^\t\n\f\r >]*+)|(?=>))"""
_ATTRIBUTE = rf"({_ATTRIBUTE_NAME})(?:{_WS}*+={_WS}*+{_VALUE}|(?!{_WS}*+=))"
# Without groups: within possessive quantifiers, `re` of Python 3.11 can lose their places.
_ANY_ATTRIBUTE = re.sub(r"\((?!\?)", "(?:", _ATTRIBUTE)
_REST = rf"[a-zA-Z_:\x80-\U0010ffff][^\t\n\f\r />]*+(?:[\t\n\f\r /]++|{_ANY_ATTRIBUTE})*+>"
START_TAG, END_TAG = re.compile(f"<{_REST}"), re.compile(f"</{_REST}")
ATTRIBUTE = re.compile(rf"[\t\n\f\r /]*+{_ATTRIBUTE}")
TAG_NAME = re.compile(r"<([^\t\n\f\r />]+)")

_UNSAFE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_TEXT_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})
_VALUE_ESCAPES = _TEXT_ESCAPES | str.maketrans({'"': "&quot;", "'": "&#39;"})


def escape_text(text: str) -> str:
    """Returns a text as it is written in HTML and XML; characters XML forbids become U+FFFD."""
    return _UNSAFE.sub("\ufffd", text).translate(_TEXT_ESCAPES)


def escape_value(text: str) -> str:
    """Returns a text as it is written in an attribute, in quotes of either kind."""
    return _UNSAFE.sub("\ufffd", text).translate(_VALUE_ESCAPES)

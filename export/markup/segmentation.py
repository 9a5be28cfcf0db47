"""A document as texts to translate, with their inline elements, and what is between them."""

import dataclasses
import re
from collections.abc import Iterator, Sequence

from export.markup.parsing.elements import (
    OPAQUE,
    READINGS,
    XML_INLINE_CODE,
    XML_OPAQUE,
    may_translate,
)
from export.markup.parsing.tokens import Kind, Token, escape_text, source_of
from export.markup.small_parts import join_small_parts
from export.markup.structure import (
    breaks_lines,
    local_name,
    preserves_space,
    separating_tags,
)
from tf_transformer.terms.span_patterns import URL
from tf_transformer.text.word_characters import LOCALIZED_NUMBER

# Text of an atom that is longer is kept from the translator: it is no part of a sentence.
_MAX_ATOM_LENGTH = 80
# What alone is no text to translate.
_URL = re.compile(URL, re.ASCII)
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]++@[\w-]++(?:\.[\w-]++)++")
_LOCALIZED_NUMBER = re.compile(LOCALIZED_NUMBER)
# As XML reads them: each is a line feed of the text.
_LINE_END = re.compile("(\r\n|\r|\n)")


@dataclasses.dataclass
class Segment:
    """A text to translate with its inline elements.

    Attributes:
        tokens: the tokens; start and end tags are properly nested.
        preserve: whether white space is significant, except in elements that say otherwise.
    """

    tokens: list[Token]
    preserve: bool = False

    @property
    def text(self) -> str:
        """The text, with a space for each atom and each element without content."""
        texts, spaces = (Kind.TEXT, Kind.WORD), (Kind.ATOM, Kind.EMPTY)
        return "".join(
            token.text if token.kind in texts else " "
            for token in self.tokens
            if token.kind in texts or token.kind in spaces
        )

    @property
    def source(self) -> str:
        """The source of all tokens."""
        return source_of(self.tokens)


def segments(tokens: Sequence[Token], is_html: bool) -> Iterator[str | Segment]:
    """Yields the parts of a document in order: texts that are not blank, and sources to copy.

    Args:
        tokens: the document.
        is_html: whether it is HTML, or XHTML.
    """
    opaque = OPAQUE if is_html else XML_OPAQUE
    breaks = breaks_lines(tokens)
    separates = separating_tags(tokens, is_html, breaks)
    # Of each open element that separates: whether to translate, whether white space is significant.
    states = [(True, False)]
    current = Segment([])
    index = 0
    while index < len(tokens):
        token, end = tokens[index], index + 1
        translates, preserve = states[-1]
        if separates[index]:
            yield from _finished(current)
            yield token.source
            states = _states_after(states, token, opaque)
            current = Segment([], states[-1][1])
        elif not translates:
            yield token.source
        elif breaks[index]:  # in no inline element, see `separating_tags`
            for is_line, line in _lines(token):
                if is_line:
                    current.tokens.append(line)
                else:
                    yield from _finished(current)
                    yield line.source
                    current = Segment([], preserve)
        elif token.kind is Kind.START and _is_atom(token, opaque, is_html):
            end = _end_of_element(tokens, index)
            current.tokens.append(_atom(tokens[index:end], opaque))
        else:
            current.tokens.append(token)
        index = end
    yield from _finished(current)


def _states_after(states, token, opaque):
    if token.kind is Kind.START:
        name, attributes = local_name(token.name), token.attributes or {}
        translates, preserve = states[-1]
        translates = name not in opaque and may_translate(name, attributes, translates)
        states.append((translates, preserves_space(token, preserve)))
    elif token.kind is Kind.END:
        states.pop()
    return states


def _finished(segment: Segment) -> Iterator[str | Segment]:
    """Yields a text and the sources of tokens without text around it; or the source alone."""
    if segment.text.strip():
        segment = Segment(join_small_parts(segment.tokens), segment.preserve)
    tokens = segment.tokens
    if not segment.text.strip():
        yield segment.source
        return
    first, last = 0, len(tokens)
    while _is_outside(tokens[first]) or tokens[first].kind is Kind.MARK:
        first += 1
    while _is_outside(tokens[last - 1]):
        last -= 1
    yield source_of(tokens[:first])
    yield Segment(tokens[first:last], segment.preserve)
    yield source_of(tokens[last:])


def are_translatable(texts: Sequence[str]) -> list[bool]:
    """Returns whether texts have letters that are not of an address, or a number such as 3.5."""
    rests = [_EMAIL.sub("", _URL.sub("", text)) for text in texts]
    return [
        _LOCALIZED_NUMBER.search(rest) is not None or any(map(str.isalpha, rest)) for rest in rests
    ]


def _is_outside(token):
    if token.kind is Kind.TEXT:
        return not token.text.strip()
    return token.kind in (Kind.OTHER, Kind.EMPTY)


def _lines(token) -> Iterator[tuple[bool, Token]]:
    """Yields the lines of a text and, with False, the line ends between them."""
    texts, parts = token.text.split("\n"), _LINE_END.split(token.source)
    sources, line_ends = parts[::2], parts[1::2]
    if len(texts) != len(sources):
        sources, line_ends = [escape_text(text) for text in texts], ["\n"] * (len(texts) - 1)
    for text, source, line_end in zip(texts, sources, ["", *line_ends], strict=True):
        if line_end:
            yield False, Token(Kind.OTHER, line_end)
        if text:
            yield True, Token(Kind.TEXT, source, text=text)


def _is_atom(token, opaque, is_html):
    name = local_name(token.name)
    is_code = not is_html and name in XML_INLINE_CODE
    return is_code or name in opaque or not may_translate(name, token.attributes or {}, True)


def _end_of_element(tokens, start) -> int:
    depth = 0
    for index in range(start, len(tokens)):
        depth += (tokens[index].kind is Kind.START) - (tokens[index].kind is Kind.END)
        if depth == 0:
            return index + 1
    return len(tokens)


def _atom(tokens, opaque) -> Token:
    name = local_name(tokens[0].name)
    text = "".join(token.text for token in tokens if token.kind is Kind.TEXT)
    if name in READINGS:
        return Token(Kind.MARK, source_of(tokens), name)
    if name in opaque or len(text) > _MAX_ATOM_LENGTH:
        text = ""
    return Token(Kind.ATOM, source_of(tokens), name, text)

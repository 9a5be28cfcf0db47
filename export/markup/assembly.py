"""A translation with the tags of its source."""

from collections.abc import Sequence

from export.markup.parsing.tokens import escape_text
from export.markup.segment_text import Inline
from export.markup.words import Span


def assemble(root: Inline, places: dict[int, Span], text: str, words: Sequence[Span]) -> str:
    """Writes a translation with its elements.

    Tags touch the words that they contain, and white space stands outside. Beside an element
    without content, there is white space where the source has it, if the translation has some.

    Args:
        root: the parent of all elements.
        places: the words of each element in the translation, see `Placement.place`.
        text: the translation.
        words: its words.
    """
    writer = _Writer(text, words)
    stack: list[tuple[Inline, list[Inline]]] = [(root, _in_order(root, places))]
    while stack:
        element, children = stack[-1]
        if children:
            child = children.pop()
            place = places[id(child)]
            writer.write_words(place.start)
            if child.is_atom and place.start < place.end:
                writer.write_atom(child.opening, place.end)
            elif child.closing and place.start < place.end:
                writer.open(child.opening)
                stack.append((child, _in_order(child, places)))
            else:
                stack.append((child, _in_order(child, places)))
                writer.start_empty(child)
        else:
            stack.pop()
            place = places[id(element)]
            if element is root:
                break
            if place.start < place.end:
                writer.write_words(place.end)
                writer.close(element.closing)
            else:
                writer.end_empty(element)
    return writer.finish()


def _in_order(element, places) -> list[Inline]:
    """Returns the children in the order of the translation, the last one first."""
    return sorted(element.children, key=lambda child: places[id(child)].start)[::-1]


class _Writer:
    """Writes words and the tags between them.

    White space between two words is written once the tags there are known.
    """

    def __init__(self, text: str, words: Sequence[Span]):
        self._text, self._words = text, words
        self._chunks: list[str] = []
        self._has_spaces = any(map(str.isspace, text))
        self._next = 0  # words before this one are written
        self._is_spaced = False  # whether the white space before it is
        self._drops_space = False

    def _gap(self) -> str:
        """Returns the white space before the next word."""
        start = self._words[self._next - 1].end if self._next else 0
        end = self._words[self._next].start if self._next < len(self._words) else len(self._text)
        return self._text[start:end] if 0 < self._next < len(self._words) else ""

    def _write_gap(self):
        if not self._is_spaced:
            self._chunks.append(escape_text(self._gap()))
            self._is_spaced = True

    def _write_space(self):
        """Writes a space that the translation does not have, if its language has spaces."""
        if self._has_spaces and self._chunks and not self._chunks[-1].endswith(" "):
            self._chunks.append(" ")

    def write_words(self, end: int) -> None:
        """Writes the words before one."""
        if end <= self._next:
            return
        if not self._drops_space:
            self._write_gap()
        first, last = self._words[self._next], self._words[end - 1]
        self._chunks.append(escape_text(self._text[first.start : last.end]))
        self._pass(end)

    def _pass(self, end):
        self._next, self._is_spaced, self._drops_space = end, False, False

    def write_atom(self, source: str, end: int) -> None:
        """Writes an atom in place of the words before one."""
        self._write_gap()
        self._chunks.append(source)
        self._pass(end)

    def open(self, tag: str) -> None:
        """Writes a start tag before the next word."""
        if not self._drops_space:
            self._write_gap()
        self._chunks.append(tag)

    def close(self, tag: str) -> None:
        """Writes an end tag after the last word."""
        self._chunks.append(tag)

    def start_empty(self, element: Inline) -> None:
        """Writes an element without words, or its start tag."""
        if element.space_before:
            self._write_gap()
            if self._next == len(self._words):
                self._write_space()
        self._chunks.append(element.opening)

    def end_empty(self, element: Inline) -> None:
        """Writes the end tag of an element without words, and white space."""
        self._chunks.append(element.closing)
        if element.space_after:
            if not self._is_spaced and self._next:
                self._write_gap()
            elif self._gap() or self._next == 0:
                self._write_space()
        elif element.stands_for_space and not self._is_spaced:
            self._drops_space = True

    def finish(self) -> str:
        """Writes what is left, and returns all."""
        self.write_words(len(self._words))
        return "".join(self._chunks)

"""A translation with the tags of its source."""

from collections.abc import Sequence

from export.markup.parsing.tokens import escape_text
from export.markup.segment_text import Inline
from export.markup.words import Span, is_part_of_word, writes_spaces

# Stands for an element without words where characters are compared.
_ELEMENT = "\ufffc"


def assemble(root: Inline, places: dict[int, Span], text: str, words: Sequence[Span]) -> str:
    """Writes a translation with its elements.

    Tags touch the words that they contain, and white space stands outside. Beside an element
    without words, there is white space where the source has it, and between it and a word that it
    does not touch in the source, if the language of the translation has spaces. The tags of an
    element whose words come to nothing are left out, and so are readings in it.

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
            elif not child.is_word and not (child.is_reading and _is_emptied(element, places)):
                stack.append((child, _in_order(child, places)))
                if not _is_emptied(child, places):
                    writer.start_empty(child)
        else:
            stack.pop()
            place = places[id(element)]
            if element is root:
                break
            if place.start < place.end:
                writer.write_words(place.end)
                writer.close(element.closing)
            elif not _is_emptied(element, places):
                writer.end_empty(element)
    return writer.finish()


def _is_emptied(element, places) -> bool:
    """Returns whether an element has text in the source, and none in the translation."""
    place = places[id(element)]
    return element.has_text and not element.is_atom and place.start == place.end


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
        self._last = " "  # the last character, tags aside; at the start, no white space is missing
        self._writes_spaces = writes_spaces(text)
        self._pass(0)

    def _pass(self, end):
        self._next = end  # words before this one are written
        # What is known of the white space before it: that of the translation is written, or is to
        # be left out; the elements there have white space after them; they are not to touch a word.
        self._is_spaced = self._drops_space = self._wants_space = self._parts_word = False

    def _gap(self) -> str:
        """Returns the white space before the next word."""
        if not 0 < self._next < len(self._words):
            return ""
        return self._text[self._words[self._next - 1].end : self._words[self._next].start]

    def _write(self, text):
        if text:
            self._chunks.append(escape_text(text))
            self._last = text[-1]

    def _write_gap(self):
        if not self._is_spaced:
            self._write(self._gap())
            self._is_spaced = True

    def _write_space(self):
        """Writes a space that the translation does not have, if its language has spaces."""
        if self._writes_spaces and not self._last.isspace():
            self._write(" ")

    def _write_wanted_space(self):
        if self._wants_space:
            if not self._is_spaced and self._next:
                self._write_gap()
            elif self._gap() or self._next == 0:
                self._write_space()
        self._wants_space = False

    def _start_word(self):
        """Writes the white space before the next word, or before the start tag there."""
        self._write_wanted_space()
        if not self._drops_space:
            self._write_gap()
        if self._parts_word and is_part_of_word(self._text[self._words[self._next].start]):
            self._write_space()

    def write_words(self, end: int) -> None:
        """Writes the words before one."""
        if end > self._next:
            self._start_word()
            self._write(self._text[self._words[self._next].start : self._words[end - 1].end])
            self._pass(end)

    def write_atom(self, source: str, end: int) -> None:
        """Writes an atom in place of the words before one."""
        self._start_word()
        self._chunks.append(source)
        self._last = self._text[self._words[end - 1].end - 1]
        self._pass(end)

    def open(self, tag: str) -> None:
        """Writes a start tag before the next word."""
        self._start_word()
        self._chunks.append(tag)

    def close(self, tag: str) -> None:
        """Writes an end tag after the last word."""
        self._chunks.append(tag)

    def start_empty(self, element: Inline) -> None:
        """Writes an element without words, or its start tag."""
        self._write_wanted_space()
        parts_word = element.is_wordless and not (
            element.word_before or element.stands_for_space or element.is_mark
        )
        if element.space_before or (parts_word and is_part_of_word(self._last)):
            self._write_gap()
            if element.is_wordless or self._next == len(self._words):
                self._write_space()
        self._chunks.append(element.opening)
        if not element.closing:
            self._last = _ELEMENT

    def end_empty(self, element: Inline) -> None:
        """Writes the end tag of an element without words."""
        self._chunks.append(element.closing)
        self._wants_space = self._wants_space or element.space_after
        if element.stands_for_space and not element.space_after and not self._is_spaced:
            self._drops_space = True
        elif element.is_wordless:
            self._last = _ELEMENT
            self._parts_word = not (element.word_after or element.stands_for_space)

    def finish(self) -> str:
        """Writes what is left, and returns all."""
        self.write_words(len(self._words))
        return "".join(self._chunks)

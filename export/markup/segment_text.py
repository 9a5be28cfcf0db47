"""The plain text of a segment, and where its inline elements stand in it."""

import bisect
import dataclasses
import itertools
import re
from collections.abc import Callable, Sequence

from export.markup.line_breaks import LineBreaks
from export.markup.marks import PAGE_BREAK
from export.markup.parsing.elements import READINGS, SHOWN, STRUCK, is_link_or_target
from export.markup.parsing.tokens import Kind, Token, escape_text
from export.markup.segmentation import Segment
from export.markup.structure import preserves_space
from export.markup.words import Span, is_inside_word, is_part_of_word, split_at_signs, split_words
from tf_transformer.errors import InputError

# Splits a text into consecutive parts, such as sentences, that are translated on their own. The
# parts, one after the other, are the text.
Split = Callable[[str], Sequence[str]]

_HTML_SPACE = " \t\n\f\r"
_SPACES = re.compile(f"[{_HTML_SPACE}]+")
_JOINS = "'’/-‐‑"  # before the ending of a word behind a mark, as in "horse[1]-drawn"
# Style sheets lay them out as boxes: a word in one, or behind it, is apart from a number before it.
_BOXES = frozenset(["span", "small"])
_WORD_OF_BOX = re.compile(r"[^\W\d_]{3}")
# What neighbouring elements set apart: two numbers, a word or a colon and a number, and a number
# and a word. Prices that are written in several elements have their separators in them.
_CURRENCY = "$€£¥₹₩₽฿₫₺₴₪¢"
_NUMBER_AHEAD = re.compile(rf"(?:[{_CURRENCY}]\s?)?[0-9]")
_NUMBER_BEFORE = re.compile(rf"[0-9](?:\s?[{_CURRENCY}%°)])?$")
_WORD_BEFORE_NUMBER = re.compile(r"(?:[^\W\d_]{3}|\W[^\W\d_]{2}|[:;!?)])$")
_NO_WORDS = Span(0, 0)
_CONTEXT = 16  # characters of a text that show whether a word goes on


@dataclasses.dataclass(slots=True, eq=False)
class Inline:
    """An inline element, or something else between the words of a text.

    Attributes:
        opening: what is written before its content; all of it if it has no content.
        closing: its end tag.
        is_atom: whether its content is copied unchanged, as a part of `opening`.
        words: the words of the source that it contains; if there are none, `words.start` is the
            next word.
        parent: the element that it is in.
        children: the elements in it.
        is_wordless: whether it is an element without words in the source, or an atom.
        is_mark: whether it is a mark, which the text does not have.
        is_reading: whether it is a mark that is written only with the word that it belongs to.
        is_word: whether it is a word with raised or lowered parts, which is an atom.
        has_text: whether it has text in the source.
        keeps_word: whether it, or an element in it, is a link or a target of links, which loses its
            use without a word.
        space_before: whether white space is before it.
        space_after: whether white space is after it.
        word_before: whether a letter, digit or mark is before it.
        sign_before: whether another sign is before it.
        word_after: whether a letter, digit or mark is after it.
        stands_for_space: whether the text has white space for it, which the document has not.
        text: the text of an atom.
    """

    opening: str
    closing: str = ""
    is_atom: bool = False
    words: Span = _NO_WORDS
    parent: "Inline | None" = None
    children: "list[Inline]" = dataclasses.field(default_factory=list)
    is_wordless: bool = False
    is_mark: bool = False
    is_reading: bool = False
    is_word: bool = False
    has_text: bool = False
    keeps_word: bool = False
    space_before: bool = False
    space_after: bool = False
    word_before: bool = False
    sign_before: bool = False
    word_after: bool = False
    stands_for_space: bool = False
    text: str = ""

    @property
    def follows_word(self) -> bool:
        """Whether it belongs behind the word before it; otherwise it belongs before the next."""
        touches_next = self.word_after and not self.word_before
        if self.is_mark:
            return not (touches_next and (self.space_before or self.words.start == 0))
        return self.is_wordless and self.word_before and not self.word_after


@dataclasses.dataclass(frozen=True)
class SegmentText:
    """The text of a segment.

    Attributes:
        before: white space before the text.
        after: white space after it.
        text: the text.
        words: its words.
        joined: ranges of words that are one word with several links, cut at its signs.
        parts: the parts to translate, without white space around them, as ranges of characters.
        breaks: where lines and sentences start that a splitter does not see.
        root: the parent of the elements that are in no other, which contains all words.
    """

    before: str
    after: str
    text: str
    words: list[Span]
    joined: list[Span]
    parts: list[Span]
    breaks: list[int]
    root: Inline


def segment_text(segment: Segment, split: Split | None = None) -> SegmentText:
    """Returns the text of a segment and its inline elements.

    Args:
        segment: the segment.
        split: splits each line of the text into parts, see `line_breaks`; None leaves it whole.

    Raises:
        InputError: the parts of `split` are not the text.
    """
    reader = _Reader(segment.preserve)
    for token in segment.tokens:
        reader.read(token)
    text = reader.text()
    parts = _parts(text, split, reader.breaks, reader.hidden)
    words, joined = reader.words(parts)
    reader.count_words(words)
    first = _outer_text(segment.tokens, Kind.START)
    last = _outer_text(segment.tokens[::-1], Kind.END)
    before = first[: len(first) - len(first.lstrip())]
    after = last[len(last.rstrip()) :]
    return SegmentText(
        escape_text(before),
        escape_text(after),
        text,
        words,
        joined,
        parts,
        reader.breaks,
        reader.root,
    )


def _outer_text(tokens, tags: Kind) -> str:
    """Returns the first token that is no tag of this kind, if it is a text, otherwise ""."""
    token = next(token for token in tokens if token.kind is not tags)
    return token.text if token.kind is Kind.TEXT else ""


def _parts(text, split, breaks, hidden) -> list[Span]:
    pieces = [text]
    if split is not None:
        lines = itertools.pairwise([0, *breaks, len(text)])
        pieces = [piece for a, b in lines for piece in _split_line(text, a, b, split, hidden)]
    spans, start = [], 0
    for piece in pieces:
        inner = piece.strip()
        if inner:
            first = start + piece.index(inner)
            spans.append(Span(first, first + len(inner)))
        start += len(piece)
    return spans


def _split_line(text, start, end, split, hidden) -> list[str]:
    """Splits a line as it is with its hidden texts, and returns the parts without them."""
    inside = [(place, found) for place, found in hidden if start <= place < end]
    line, copied = "", start
    # For each character of the line, and its end, its place in the text.
    places: list[int] = []
    for place, found in inside:
        line += text[copied:place] + found
        places += [*range(copied, place), *[place] * len(found)]
        copied = place
    line += text[copied:end]
    places += range(copied, end + 1)
    pieces = list(split(line))
    if "".join(pieces) != line:
        raise InputError("`split` must return the parts of the text, white space included")
    cuts = [places[number] for number in itertools.accumulate(map(len, pieces), initial=0)]
    return [text[a:b] for a, b in itertools.pairwise(cuts)]


class _Reader:
    """Reads the tokens of a segment."""

    def __init__(self, preserve: bool):
        self._preserves = [preserve]  # of the open elements, whether white space is significant
        self._chunks: list[str] = []
        self._length = 0
        # Whether its end is white space of HTML, which is joined with what follows, and whether it
        # is any white space, such as a no-break space.
        self._ends_in_space = self._ends_in_any_space = True
        self.root = Inline("")
        self._open = [(self.root, 0)]  # the open elements, and where they start
        # In the order of the document: where an element starts, or, with False, where it ends.
        self._places: list[tuple[Inline, int, bool]] = []
        self._waiting: list[Inline] = []  # what follows them is not known yet
        self._follows_element = False  # whether one of them is an element
        self._ends_word = False  # whether a word that one of them follows ends there
        self._is_struck = False  # whether what is deleted has ended there
        self._passes_box = False  # whether a tag of a box is between it and the last text
        self._passes_end = False  # whether an element has ended since the last text,
        self._is_neighbour = False  # and another has started behind it
        self._breaks = LineBreaks()
        self.hidden: list[tuple[int, str]] = []  # texts that it does not have, and their places

    @property
    def breaks(self) -> list[int]:
        """Where lines and sentences start that a splitter does not see, as places in the text."""
        return self._breaks.places

    def read(self, token: Token) -> None:
        """Adds a token."""
        self._breaks.pass_token(token)
        self._passes_box = self._passes_box or token.name in _BOXES
        if token.kind is Kind.TEXT:
            self._read_text(token.text)
        elif token.kind is Kind.START:
            if self._is_struck and token.name == "ins":
                self._append_space()
            self._is_neighbour = self._passes_end
            element = self._add(token.source)
            element.keeps_word = is_link_or_target(token.attributes or {})
            self._open.append((element, self._length))
            self._preserves.append(preserves_space(token, self._preserves[-1]))
        elif token.kind is Kind.END:
            self._passes_end = True
            element, start = self._open.pop()
            self._preserves.pop()
            element.closing = token.source
            self._is_struck = token.name in STRUCK
            element.is_wordless = start == self._length
            if element.keeps_word and element.parent is not None:
                element.parent.keeps_word = True
            self._end(element, is_waiting=element.is_wordless)
        else:
            element = self._add(token.source, is_mark=token.kind is Kind.MARK)
            element.is_word = token.kind is Kind.WORD
            element.is_atom = token.kind is Kind.ATOM or element.is_word
            element.is_reading = element.is_mark and token.name in READINGS
            element.text = " ".join(token.text.split())
            if token.hidden:
                self.hidden.append((self._length, token.hidden))
            if element.text:
                self._read_text(token.text)
            elif token.kind is Kind.EMPTY and token.name in ("br", "lb"):
                element.stands_for_space = True
                self._append_space()
            elif (
                not element.is_reading
                and token.name != PAGE_BREAK
                and (element.is_atom or element.is_mark or token.name in SHOWN)
            ):
                self._ends_word = True
            element.is_wordless = token.kind is not Kind.OTHER
            self._end(element, is_waiting=True)

    def _add(self, source, is_mark=False) -> Inline:
        element = Inline(source, parent=self._open[-1][0], is_mark=is_mark)
        if self._chunks and not self._follows_element:
            element.space_before = self._ends_in_any_space if is_mark else self._ends_in_space
            element.word_before = is_part_of_word(self._chunks[-1][-1])
            element.sign_before = not (self._ends_in_any_space or element.word_before)
        if element.parent is not None:
            element.parent.children.append(element)
        self._places.append((element, self._length, True))
        return element

    def _end(self, element, is_waiting):
        self._places.append((element, self._length, False))
        if is_waiting:
            self._waiting.append(element)
            self._follows_element = self._follows_element or element.is_wordless

    def _read_text(self, text):
        if not text:
            return
        for element in self._waiting:
            is_space = text[0].isspace() if element.is_mark else text[0] in _HTML_SPACE
            element.space_after = element is self._waiting[-1] and is_space
            element.word_after = is_part_of_word(text[0])
        if self._ends_word and text[0] not in _JOINS and self._goes_on(text):
            for element in self._waiting:
                element.stands_for_space = True
            self._append_space()
        is_behind_mark = any(element.is_mark for element in self._waiting)
        if self._is_apart(text):
            self._append_space()
        self._waiting, self._follows_element, self._ends_word = [], False, False
        self._is_struck = self._passes_box = self._passes_end = self._is_neighbour = False
        self._breaks.read(text, self._length)
        if is_behind_mark and self._ends_in_any_space and not self._preserves[-1]:
            # Of the white space on both sides of a mark, the translator sees that before it.
            text = text.lstrip()
            if not text:
                return
        if self._preserves[-1]:
            self._append(text)
            return
        if text[0] in _HTML_SPACE:
            self._append_space()
        self._append(" ".join(filter(None, _SPACES.split(text))))
        if text[-1] in _HTML_SPACE:
            self._append_space()

    def _is_apart(self, text) -> bool:
        """Returns whether style sheets set a text apart from what it touches, by the tags between.

        A number and a word with capitals or none, around a tag of a box; around the end of an
        element and the start of the next one, also two numbers, and a word and a number.
        """
        before = self._chunks[-1][-_CONTEXT:] if self._chunks else ""
        is_cased = text[0].isupper() or text[0].islower()
        is_word = is_cased and _WORD_OF_BOX.match(text) is not None
        if is_word and before[-1:].isdecimal():
            return self._passes_box or self._is_neighbour
        if not self._is_neighbour or _NUMBER_AHEAD.match(text) is None:
            return False
        return any(x.search(" " + before) for x in (_NUMBER_BEFORE, _WORD_BEFORE_NUMBER))

    def _goes_on(self, text) -> bool:
        """Returns whether a text begins with the rest of a word."""
        before = "".join(chunk[-_CONTEXT:] for chunk in self._chunks[-_CONTEXT:])
        return is_inside_word(before + text[:_CONTEXT], len(before))

    def _append(self, text):
        if text:
            self._chunks.append(text)
            self._length += len(text)
            self._ends_in_space = text[-1] in _HTML_SPACE
            self._ends_in_any_space = text[-1].isspace()

    def _append_space(self):
        if not self._ends_in_space:
            self._append(" ")

    def text(self) -> str:
        """Returns the text so far."""
        return "".join(self._chunks)

    def words(self, parts: Sequence[Span]) -> tuple[list[Span], list[Span]]:
        """Returns the words of the parts of the text, and those that belong together.

        They end where atoms begin or end. A word with several links or targets of links, as in
        "<a>horse</a>/<a>dog</a>", is cut at its signs, so that each has one of its own; the result
        has the ranges of these words.
        """
        text = self.text()
        cuts = {place for element, place, _ in self._places if element.is_atom and element.text}
        links = [(place, is_start) for x, place, is_start in self._places if x.keeps_word]
        starts, ends = ([place for place, found in links if found is x] for x in (True, False))
        found: list[Span] = []
        joined: list[Span] = []

        def add(word: Span) -> None:
            end = bisect.bisect_right(ends, word.start)
            start = bisect.bisect_left(starts, ends[end]) if end < len(ends) else len(starts)
            words = [word]
            if start < len(starts) and starts[start] < word.end:
                words = split_at_signs(text, word)
                joined.append(Span(len(found), len(found) + len(words)))
            found.extend(words)

        for part in parts:
            for word in split_words(text[part.start : part.end]):
                start, end = part.start + word.start, part.start + word.end
                for cut in range(start + 1, end):
                    if cut in cuts:
                        add(Span(start, cut))
                        start = cut
                add(Span(start, end))
        return found, joined

    def count_words(self, words: Sequence[Span]) -> None:
        """Sets the words of each element.

        An element with a part of a word gets it whole, unless one before it has it, or a link has
        another part.

        Args:
            words: the words of the text.
        """
        self.root.words = Span(0, len(words))
        linked = self._starts_of_links_in_words(words)
        starts: dict[int, tuple[int, int]] = {}
        taken = 0  # words before this one belong to elements that have ended
        for element, place, is_start in self._places:
            if is_start:
                first = bisect.bisect_right(words, place, key=lambda word: word.end)
                starts[id(element)] = (place, max(first, taken))
                continue
            begin, first = starts.pop(id(element))
            end = bisect.bisect_left(words, place, key=lambda word: word.start)
            before = bisect.bisect_right(words, begin, key=lambda word: word.end)
            element.has_text = begin < place and before < end
            if begin == place:  # nothing is in it: it belongs before the next word
                first = max(end, taken)
            elif place <= linked.get(end - 1, -1):
                end -= 1
            element.words = Span(first, max(first, end))
            taken = max(taken, end)

    def _starts_of_links_in_words(self, words) -> dict[int, int]:
        """Returns the words inside of which links start, and where."""
        found: dict[int, int] = {}
        for element, place, is_start in self._places:
            if is_start and element.keeps_word and not element.is_wordless:
                word = bisect.bisect_right(words, place, key=lambda word: word.end)
                if word < len(words) and words[word].start < place:
                    found.setdefault(word, place)
        return found

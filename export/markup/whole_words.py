"""Words with raised or lowered parts, such as H<sub>2</sub>O and <i>r</i><sup>2</sup>.

Each is one token, whatever tags are inside it, which comes back where the translation has a copy.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

from export.markup.parsing.elements import is_link_or_target
from export.markup.parsing.tokens import Kind, Token, ends_of_elements, source_of, text_token
from export.markup.words import Span, has_space, is_part_of_word, overlapping, split_words

_CONTEXT = 64  # characters in brackets before a lowered part
_OPENING = {")": "(", "]": "["}
_TAGS = (Kind.START, Kind.END)


@dataclasses.dataclass(slots=True)
class SmallElement(Token):
    """A raised or lowered element, which may be a part of a word.

    Attributes:
        tokens: what it consists of.
    """

    tokens: Sequence[Token] = ()


@dataclasses.dataclass(slots=True)
class WholeWord(Token):
    """A word with raised or lowered parts.

    Attributes:
        flat_tokens: what it consists of if these parts are not raised or lowered.
    """

    flat_tokens: Sequence[Token] = ()


def join_whole_words(tokens: Sequence[Token]) -> list[Token]:
    """Returns the tokens of a segment, with one token for each word with raised or lowered parts.

    A tag inside a word that belongs to an element with other words moves to the word's end, or its
    start: a part of a word in an element counts as the whole word. So do those of links and their
    targets, which need a word. Other elements inside a word are a part of it. A word of variables,
    as in <var>x</var><sub>1</sub>, is copied as they are.

    Args:
        tokens: the tokens of a segment, properly nested.
    """
    found: list[Token] = []
    run: list[Token] = []
    for token in tokens:
        if token.kind in (*_TAGS, Kind.TEXT, Kind.WORD) or (token.kind is Kind.ATOM and token.text):
            run.append(token)
        else:
            found += [*_with_whole_words(run), token]
            run = []
    return [*found, *_with_whole_words(run)]


def _with_whole_words(run: list[Token]) -> Iterator[Token]:
    """Yields one token for each word with such parts; other such parts stay elements."""
    starts = [0, *itertools.accumulate(len(token.text) for token in run)]
    parts = [
        Span(starts[index], starts[index + 1])
        for index, token in enumerate(run)
        if isinstance(token, SmallElement)
    ]
    if not parts:
        yield from run
        return
    wholes = _whole_words(_characters(run), parts)
    cut = list(_cut(run, {place for whole in wholes for place in whole}))
    # The first token with text at each place.
    texts = {start: index for index, (start, token) in enumerate(cut) if token.text}
    run = [token for _, token in cut]
    partners = {start: end - 1 for start, end in ends_of_elements(run).items()}
    partners |= {end: start for start, end in partners.items()}
    index = 0
    for whole in wholes:
        first, last = texts[whole.start], texts.get(whole.end, len(run))
        while run[last - 1].kind in _TAGS:
            last -= 1
        first, last, word = _whole_word(run, first, last, partners)
        if word:
            yield from _elements(run[index:first])
            yield from word
            index = last
    yield from _elements(run[index:])


def _elements(tokens) -> Iterator[Token]:
    for token in tokens:
        yield from token.tokens if isinstance(token, SmallElement) else [token]


def _whole_word(run, first, last, partners) -> tuple[int, int, list[Token]]:
    """Returns the range of a word's tokens, and the word as one token, with tags around it.

    There is none if tags that end elements and tags that start others would have to move, or if it
    has text to translate beside one to copy.

    Args:
        run: the tokens.
        first: the first one of the word.
        last: the one after its last one.
        partners: the end tag of each start tag, and the reverse.
    """
    tags = [index for index in range(first, last) if run[index].kind in _TAGS]
    # Tags of elements that have ended, the outermost one first, and that have begun.
    ended = [x for x in tags if run[x].kind is Kind.END and partners.get(x, -1) < first][::-1]
    begun = [x for x in tags if run[x].kind is Kind.START and partners.get(x, len(run)) >= last]
    # Elements that have no other words are inside.
    while ended and partners.get(ended[-1]) == first - 1 and not _is_link(run[first - 1]):
        first -= 1
        ended.pop()
    while begun and partners.get(begun[-1]) == last and not _is_link(run[begun[-1]]):
        last += 1
        begun.pop()
    links = [x for x in tags if _is_link(run[x]) and partners.get(x, last) < last]
    if (ended and begun) or len(links) > 1:
        return first, last, []
    ends = [partners[x] for x in links]
    moved = {*begun, *links, *ends, *ended}
    inside = [run[x] for x in range(first, last) if x not in moved]
    if _is_copied(inside):
        word: Token = Token(Kind.ATOM, source_of(inside), "", _characters(inside))
    elif any(token.kind is Kind.ATOM for token in inside):
        return first, last, []
    else:
        flat = [x for part in inside for x in _flat(part)]
        word = WholeWord(Kind.WORD, source_of(inside), "", _characters(inside), flat_tokens=flat)
    before, after = [*begun, *links], [*ends, *ended[::-1]]
    return first, last, [*(run[x] for x in before), word, *(run[x] for x in after)]


def _is_copied(tokens) -> bool:
    """Returns whether a word is one to copy, such as a variable, and has no text to translate."""
    texts = "".join(token.text for token in tokens if token.kind is Kind.TEXT)
    return any(token.kind is Kind.ATOM for token in tokens) and not any(map(str.isalpha, texts))


def _characters(tokens) -> str:
    return "".join(token.text for token in tokens)


def _is_link(token) -> bool:
    return token.kind is Kind.START and is_link_or_target(token.attributes or {})


def _flat(token: Token) -> list[Token]:
    """Returns a raised or lowered part as text, with the links and targets in it."""
    if not isinstance(token, SmallElement):
        return [token]
    ends = ends_of_elements(token.tokens)
    links = {index for index, x in enumerate(token.tokens) if _is_link(x)}
    kept = links | {ends[index] - 1 for index in links}
    return [x for index, x in enumerate(token.tokens) if x.text or index in kept]


def _whole_words(text: str, parts: Sequence[Span]) -> list[Span]:
    """Returns the words that have more than one of these parts, or text beside one."""
    words = split_words(text)
    wholes: list[Span] = []
    for part in parts:
        start, end = part
        if start and text[start - 1] in _OPENING:
            start = _start_of_brackets(text, start)
        elif start and is_part_of_word(text[start - 1]):
            start -= 1
        end += end < len(text) and is_part_of_word(text[end])
        inside = overlapping(words, Span(start, end))
        whole = Span(min(start, words[inside[0]].start), max(end, words[inside[-1]].end))
        if wholes and whole.start < wholes[-1].end:
            whole = Span(min(wholes.pop().start, whole.start), whole.end)
        if whole != part:
            wholes.append(whole)
    return wholes


def _start_of_brackets(text, end) -> int:
    """Returns where brackets start that end at a place, with the word before them, as in Ca(OH)."""
    start = text.rfind(_OPENING[text[end - 1]], max(end - _CONTEXT, 0), end)
    if start < 0 or has_space(text[start:end]):
        return end
    return start - (start > 0 and is_part_of_word(text[start - 1]))


def _cut(run, places: set[int]) -> Iterator[tuple[int, Token]]:
    """Yields the tokens, texts in parts between these places, and where each starts."""
    start = 0
    for token in run:
        end = start + len(token.text)
        cuts = [start, *(place for place in range(start + 1, end) if place in places), end]
        if token.kind is not Kind.TEXT or len(cuts) == 2:
            yield start, token
        else:
            for first, last in itertools.pairwise(cuts):
                yield first, text_token(token.text[first - start : last - start])
        start = end

"""The characters of a text that each of its pieces stands for."""

import unicodedata
from collections.abc import Sequence

from export.markup.words import Span

_SPACE = "▁"
# How far an unknown piece may be from the next known one, in characters.
_MAX_UNKNOWN = 64


def piece_spans(text: str, pieces: Sequence[str]) -> list[Span]:
    """Finds pieces in a text.

    Pieces may differ from the text: SentencePiece normalizes Unicode, joins white space, and gives
    unknown characters another name. A piece that is not where it is expected stands for everything
    up to the next one that is found, together with those between.

    Args:
        text: the text.
        pieces: its pieces, in order.

    Returns:
        For each piece its characters in the text; an empty range if it has none.
    """
    characters, places = _normalized(text)
    spans: list[Span] = []
    found = 0  # the normalized characters up to here belong to pieces
    unknown: list[int] = []  # pieces that wait for the next known one
    for index, piece in enumerate(pieces):
        normal, _ = _normalized(piece.replace(_SPACE, " "))
        if not normal:
            spans.append(Span(0, 0))
            continue
        start = characters.find(normal, found, found + len(normal) + _MAX_UNKNOWN * bool(unknown))
        if start < 0:
            unknown.append(index)
            spans.append(Span(0, 0))
            continue
        for waiting in unknown:
            spans[waiting] = _span(places, found, start)
        unknown = []
        found = start + len(normal)
        spans.append(_span(places, start, found))
    for waiting in unknown:
        spans[waiting] = _span(places, found, len(characters))
    return spans


def _normalized(text: str) -> tuple[str, list[int]]:
    """Returns the characters of a text without spaces, and the place of each.

    They are decomposed (NFKD) and in lower case, so that what SentencePiece makes of them is equal.
    """
    if text.isascii():
        places = [place for place, char in enumerate(text) if not char.isspace()]
        return "".join(text.lower().split()), places
    chars: list[str] = []
    places = []
    for place, char in enumerate(text):
        for normal in unicodedata.normalize("NFKD", char).casefold():
            if not normal.isspace():
                chars.append(normal)
                places.append(place)
    return "".join(chars), places


def _span(places, start, end) -> Span:
    """Returns the place of a range of normalized characters."""
    if start >= end:
        return Span(0, 0)
    return Span(places[start], places[end - 1] + 1)

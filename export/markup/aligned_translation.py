"""What a translator has to return for tags to be put back: translations with their alignments."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

_PAIR = re.compile("([0-9]{1,6})-([0-9]{1,6})")


class AlignedTranslation(NamedTuple):
    """A translation of a text, and what its pieces come from.

    Pieces are SentencePiece's, in which `▁` stands for a space, or words. They need not be exactly
    the characters of the texts, see `piece_spans`. Without pieces or links, places in the
    translation are proportional to those in the source.

    Attributes:
        text: the translation.
        source_pieces: pieces of the source, in order.
        target_pieces: pieces of the translation, in order.
        links: pairs (i, j): target piece j comes from source piece i, both counted from 0.
        truncated: whether the source exceeded the model's limit and was truncated.
        incomplete: whether a term or a protected span is missing.
    """

    text: str
    source_pieces: Sequence[str] = ()
    target_pieces: Sequence[str] = ()
    links: Sequence[tuple[int, int]] = ()
    truncated: bool = False
    incomplete: bool = False


# Plain texts to their translations, as many and in the same order.
TranslateTexts = Callable[[Sequence[str]], Sequence[AlignedTranslation]]


def aligned_translation(
    text: str, source_pieces: str, target_pieces: str, hard_alignment: str, truncated: bool
) -> AlignedTranslation:
    """Returns a row of the signature `align` as values.

    Args:
        text: the translation.
        source_pieces: pieces of the source, separated by spaces.
        target_pieces: pieces of the translation, separated by spaces.
        hard_alignment: pairs `i-j`, separated by spaces.
        truncated: whether the source was truncated.

    Raises:
        OSError: something is not a pair.
    """
    matches = [_PAIR.fullmatch(word) or _refuse(word) for word in hard_alignment.split()]
    # Not `split()`: a piece may contain another kind of space.
    sources, targets = (x.split(" ") if x else [] for x in (source_pieces, target_pieces))
    links = [(int(match[1]), int(match[2])) for match in matches]
    return AlignedTranslation(text, sources, targets, links, bool(truncated))


def _refuse(word):
    raise OSError(f"expected a pair i-j of a hard alignment. Received: {word[:80]!r}")

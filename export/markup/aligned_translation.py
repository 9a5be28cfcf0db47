"""What a translator has to return for tags to be put back: translations with their alignments."""

from collections.abc import Callable, Sequence
from typing import NamedTuple


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
    """

    text: str
    source_pieces: Sequence[str] = ()
    target_pieces: Sequence[str] = ()
    links: Sequence[tuple[int, int]] = ()
    truncated: bool = False


# Plain texts to their translations, as many and in the same order.
TranslateTexts = Callable[[Sequence[str]], Sequence[AlignedTranslation]]

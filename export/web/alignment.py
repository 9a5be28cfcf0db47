"""Parses the alignments of the signature `align`, whose texts come from an untrusted server."""

import math
import re
from typing import Any

_PAIR = re.compile("([0-9]{1,6})-([0-9]{1,6})")


def parse_alignment(
    source_pieces: str, target_pieces: str, hard: str, soft: str
) -> dict[str, list[Any]]:
    """Parses one row of the outputs of `align`.

    Args:
        source_pieces: pieces of the source, separated by spaces.
        target_pieces: pieces of the translation, separated by spaces.
        hard: pairs `i-j`: target piece j attends most to source piece i.
        soft: one word per target piece: its weights on all source pieces and on the source's end,
            separated by commas.

    Returns:
        `source_pieces` and `target_pieces`, lists of strings; `hard`, a list of pairs `[i, j]`;
        `soft`, a list with one list of weights per target piece.

    Raises:
        OSError: the texts are not those of an alignment.
    """
    # Not `split()`: a piece may contain another kind of space.
    sources, targets = (text.split(" ") if text else [] for text in (source_pieces, target_pieces))
    pairs = [_pair(word, len(sources), len(targets)) for word in hard.split()]
    weights = [[_weight(word) for word in words.split(",")] for words in soft.split()]
    widths = {len(row) for row in weights}
    if len(weights) != len(targets) or widths - {len(sources) + 1}:
        raise OSError(
            f"expected a soft alignment of {len(targets)} words with {len(sources) + 1} weights "
            f"each. Received: {len(weights)} words with {sorted(widths)} weights"
        )
    return {"source_pieces": sources, "target_pieces": targets, "hard": pairs, "soft": weights}


def _pair(word, num_sources, num_targets):
    match = _PAIR.fullmatch(word)
    if match is None:
        raise OSError(f"expected a pair i-j of a hard alignment. Received: {word[:80]!r}")
    source, target = int(match[1]), int(match[2])
    if source >= num_sources or target >= num_targets:
        raise OSError(
            f"expected a hard alignment of {num_sources} source and {num_targets} target pieces. "
            f"Received: {word!r}"
        )
    return [source, target]


def _weight(word):
    try:
        weight = float(word)
    except ValueError:
        weight = math.nan
    if not 0 <= weight <= 1.001:  # a mean of softmax outputs, rounded to 4 decimals
        raise OSError(f"expected a weight between 0 and 1. Received: {word[:80]!r}")
    return weight

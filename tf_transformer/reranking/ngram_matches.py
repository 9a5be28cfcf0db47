"""Numbers of n-grams that sequences have in common, for all pairs of a few sequences."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# Columns of the indicator matrix at a time, which bounds the memory for long sequences.
_BLOCK = 2**14


class NgramMatches(NamedTuple):
    """Numbers of n-grams of the orders 1 to `max_order`.

    Attributes:
        matches: `(max_order, sequences, sequences)` float64, number of n-grams that two sequences
            have in common: sum over the n-grams of min(count in the one, count in the other).
        totals: `(max_order, sequences)` float64, number of n-grams of each sequence.
    """

    matches: np.ndarray
    totals: np.ndarray


def ngram_matches(sequences: Sequence[np.ndarray], max_order: int) -> NgramMatches:
    """Counts the n-grams that each pair of sequences has in common.

    The k-th occurrence of an n-gram in a sequence is one element of a set. So the number of common
    n-grams is the size of the intersection of two sets, and that of all pairs is a product of a
    matrix of zeros and ones with its transpose.

    Args:
        sequences: non-negative integers, `(length,)` each.
        max_order: the largest n.
    """
    num_sequences = len(sequences)
    lengths = np.array([len(sequence) for sequence in sequences], np.int64)
    rows = np.repeat(np.arange(num_sequences), lengths)
    tokens = np.concatenate([np.asarray(sequence, np.int64) for sequence in sequences])
    names, tokens = np.unique(tokens, return_inverse=True)
    # Positions up to the end of the sequence, so many tokens an n-gram may have there.
    remaining = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(tokens))
    positions = np.arange(len(tokens))
    ngrams = np.zeros_like(tokens)  # the number of the (n - 1)-gram at each position
    matches = np.zeros((max_order, num_sequences, num_sequences))
    totals = np.zeros((max_order, num_sequences))
    for order in range(1, max_order + 1):
        is_long_enough = remaining[positions] >= order
        positions = positions[is_long_enough]
        extended = ngrams[is_long_enough] * len(names) + tokens[positions + order - 1]
        _, ngrams = np.unique(extended, return_inverse=True)
        totals[order - 1] = np.bincount(rows[positions], minlength=num_sequences)
        matches[order - 1] = _common(rows[positions], ngrams, num_sequences)
        np.fill_diagonal(matches[order - 1], totals[order - 1])
    return NgramMatches(matches, totals)


def _common(rows: np.ndarray, ngrams: np.ndarray, num_rows: int) -> np.ndarray:
    """Returns the number of common n-grams of each two rows, from the row of each n-gram."""
    occurrences = _occurrences(rows, ngrams)
    elements = ngrams * (occurrences.max(initial=0) + 1) + occurrences
    _, columns, counts = np.unique(elements, return_inverse=True, return_counts=True)
    # An element of a single row has nothing in common with another row.
    is_shared = counts > 1
    new_columns = np.cumsum(is_shared) - 1
    kept = is_shared[columns]
    rows, columns = rows[kept], new_columns[columns[kept]]
    num_columns = int(is_shared.sum())
    common = np.zeros((num_rows, num_rows), np.float32)  # exact up to 2^24
    for first in range(0, num_columns, _BLOCK):
        inside = (columns >= first) & (columns < first + _BLOCK)
        indicator = np.zeros((num_rows, min(_BLOCK, num_columns - first)), np.float32)
        indicator[rows[inside], columns[inside] - first] = 1.0
        common += indicator @ indicator.T
    return common


def _occurrences(rows: np.ndarray, ngrams: np.ndarray) -> np.ndarray:
    """Returns how often each n-gram has occurred before in its row."""
    keys = rows * (ngrams.max(initial=0) + 1) + ngrams
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    is_first = np.ones(len(keys), bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    indices = np.arange(len(keys))
    firsts = np.maximum.accumulate(np.where(is_first, indices, 0))
    occurrences = np.empty_like(indices)
    occurrences[order] = indices - firsts
    return occurrences

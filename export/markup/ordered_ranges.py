"""Disjoint ranges of words with the largest sum."""

from collections.abc import Sequence

import numpy as np


def ranges_in_order(
    gains: Sequence[np.ndarray], counts: Sequence[np.ndarray], needs: Sequence[int]
) -> list[tuple[int, int]] | None:
    """Returns ranges that follow each other, of all such ranges those with the largest sum.

    With best(k, t) for the first k ranges in the first t words, and sums over words s to t - 1,

        best(k, t) = max(best(k, t - 1), max over s of best(k - 1, s) + sum of gains k)

    where s is small enough that the range has what it needs. The time is that of `gains`.

    Args:
        gains: for each range, what each word adds to the sum, `(num_words,)`.
        counts: for each range, what each word counts of its need, 0 or 1, `(num_words,)`.
        needs: the smallest count of each range. A range that needs nothing may be empty.

    Returns:
        The first word of each range, and the word after its last one; None if there are too few
        words.
    """
    num_words = len(gains[0]) if gains else 0
    best = np.zeros(num_words + 1)
    choices = []
    for gain, count, need in zip(gains, counts, needs, strict=True):
        total, number = (np.concatenate(([0.0], np.cumsum(x))) for x in (gain, count))
        starts = _largest_so_far(best - total, prefers_last=True)
        last = np.searchsorted(number, number - need, side="right") - 1  # the last start
        last = np.minimum(last, np.arange(num_words + 1))
        start = starts[np.maximum(last, 0)]
        sums = np.where(last < 0, -np.inf, best[start] - total[start] + total)
        end = _largest_so_far(sums)
        choices.append((start, end))
        best = sums[end]
    if best[-1] == -np.inf:
        return None
    found, after = [], num_words
    for start, end in reversed(choices):
        found.append((int(start[end[after]]), int(end[after])))
        after = found[-1][0]
    return found[::-1]


def _largest_so_far(values: np.ndarray, prefers_last: bool = False) -> np.ndarray:
    """Returns the index of the largest value up to each one, of equal ones the first or last."""
    before = np.concatenate(([-np.inf], np.maximum.accumulate(values)[:-1]))
    is_new = values >= before if prefers_last else values > before
    return np.maximum.accumulate(np.where(is_new, np.arange(len(values)), 0))

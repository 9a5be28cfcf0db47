"""Finding duplicate pairs without holding all digests in memory."""

import pathlib
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tf_transformer.storage.own_files import replacing_own

# Number of pairs per pass: 16 bytes each, and as much again for sorting.
_PAIRS_PER_PASS = 4_000_000


def mark_first_occurrences(
    parts: Sequence[Callable[[], np.ndarray]],
    path: pathlib.Path,
    num_pairs: int,
    progress: Callable[[Iterable], Iterable] = iter,
    pairs_per_pass: int = _PAIRS_PER_PASS,
) -> None:
    """Writes a bool for every pair: whether no earlier pair has the same digest.

    Each pass over all digests compares those in one range of values, about `pairs_per_pass` of
    them. The probability that two of n different pairs have the same digest of 64 bits is about
    n * n / 2**65: 1e-5 for 20 million.

    Args:
        parts: functions that read the uint64 digests `(pairs,)` of each shard, in order.
        path: the `.npy` file of bools to write.
        num_pairs: number of pairs in all parts.
        progress: wraps the iterable of passes, for a progress bar.
        pairs_per_pass: number of pairs to compare per pass.
    """
    num_passes = -(-num_pairs // pairs_per_pass)
    with replacing_own(path) as temporary:
        is_first = np.lib.format.open_memmap(temporary, "w+", dtype=bool, shape=(num_pairs,))
        for pass_index in progress(range(num_passes)):
            digests, indices = _digests_in_range(parts, pass_index, num_passes)
            is_first[indices] = first_occurrences(digests)
        is_first.flush()
        del is_first


def _digests_in_range(parts, range_index: int, num_ranges: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the digests in one of `num_ranges` ranges of values, and the indices of the pairs."""
    digests, indices, start = [], [], 0
    for read in parts:
        part = read()
        selected = np.flatnonzero(ranges_of(part, num_ranges) == range_index)
        digests.append(part[selected])
        indices.append(start + selected)
        start += len(part)
    return np.concatenate(digests), np.concatenate(indices)


def ranges_of(digests: np.ndarray, num_ranges: int) -> np.ndarray:
    """Returns which of `num_ranges` ranges of values each digest is in, `(pairs,)` int64."""
    if num_ranges == 1:
        return np.zeros(len(digests), np.int64)
    return (digests // np.uint64(2**64 // num_ranges + 1)).astype(np.int64)


def first_occurrences(digests: np.ndarray) -> np.ndarray:
    """Returns whether each digest differs from all earlier ones, `(pairs,)` bool."""
    # A stable sort keeps equal digests in the order of their pairs.
    order = np.argsort(digests, kind="stable")
    digests = digests[order]
    is_new = np.ones(len(digests), bool)
    is_new[1:] = digests[1:] != digests[:-1]
    is_first = np.empty(len(digests), bool)
    is_first[order] = is_new
    return is_first

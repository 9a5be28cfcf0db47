"""Finding pairs that came before, among more of them than memory holds."""

import pathlib
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tf_transformer.storage.own_files import replacing_own

# Pairs that are compared at once: 16 bytes each, and as much again for sorting.
_AT_ONCE = 4_000_000


def mark_first(
    parts: Sequence[Callable[[], np.ndarray]],
    path: pathlib.Path,
    num_pairs: int,
    progress: Callable[[Iterable], Iterable] = iter,
    at_once: int = _AT_ONCE,
) -> None:
    """Writes a bool for every pair: whether no pair before it has the same digest.

    Goes over the digests as often as it must to compare about `at_once` of them at a time: those
    whose values fall into one range, since equal ones do. Two of n different pairs have one
    digest of 64 bits with a probability of n * n / 2**65: 1e-5 for 20 million.

    Args:
        parts: functions that read uint64 digests `(pairs,)`, one shard after the other.
        path: where the bools are written, as a `.npy` file.
        num_pairs: in all parts.
        progress: wraps the passes, for a progress bar.
        at_once: pairs that are compared at a time.
    """
    num_passes = -(-num_pairs // at_once)
    with replacing_own(path) as temporary:
        is_first = np.lib.format.open_memmap(temporary, "w+", dtype=bool, shape=(num_pairs,))
        for number in progress(range(num_passes)):
            digests, places = _in_range(parts, number, num_passes)
            # Stable: of equal digests, the one that came first is the first.
            order = np.argsort(digests, kind="stable")
            digests = digests[order]
            is_new = np.ones(len(digests), bool)
            is_new[1:] = digests[1:] != digests[:-1]
            is_first[places[order]] = is_new
        is_first.flush()
        del is_first


def _in_range(parts, number: int, num_ranges: int) -> tuple[np.ndarray, np.ndarray]:
    """The digests of one of so many ranges of values, and their places in all parts."""
    digests, places, start = [], [], 0
    width = np.uint64(2**64 // num_ranges + 1) if num_ranges > 1 else None
    for read in parts:
        part = read()
        here = np.arange(len(part)) if width is None else np.flatnonzero(part // width == number)
        digests.append(part[here])
        places.append(start + here)
        start += len(part)
    return np.concatenate(digests), np.concatenate(places)

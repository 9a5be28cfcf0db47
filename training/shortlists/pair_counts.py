"""Counts of aligned pieces, and the table of the most frequent translations."""

import itertools

import numpy as np

from tf_transformer.shortlists.table import ShortlistTable
from tf_transformer.text.special_ids import NUM_SPECIAL

# Added counts are merged when there are so many, about 100 MB.
_MAX_UNMERGED = 2**23


class PairCounts:
    """How often each source id is aligned with each target id.

    Only pairs that occur take memory, 16 bytes each.

    Args:
        source_vocab_size: number of source ids.
        target_vocab_size: number of target ids.
    """

    def __init__(self, source_vocab_size: int, target_vocab_size: int):
        self.source_vocab_size = source_vocab_size
        self.target_vocab_size = target_vocab_size
        self._keys = np.zeros(0, np.int64)
        self._counts = np.zeros(0, np.int64)
        self._new: list[np.ndarray] = []
        self._num_new = 0

    def add(self, source_ids: np.ndarray, target_ids: np.ndarray) -> None:
        """Counts pairs.

        Args:
            source_ids: `(pairs,)` integers.
            target_ids: `(pairs,)` integers.
        """
        self._new.append(np.int64(source_ids) * self.target_vocab_size + target_ids)
        self._num_new += len(source_ids)
        if self._num_new > _MAX_UNMERGED:
            self._merge()

    def _merge(self):
        keys, counts = np.unique(np.concatenate([*self._new, self._keys[:0]]), return_counts=True)
        self._new, self._num_new = [], 0
        self._keys, indices = np.unique(np.concatenate([self._keys, keys]), return_inverse=True)
        merged = np.zeros(len(self._keys), np.int64)
        np.add.at(merged, indices, np.concatenate([self._counts, counts]))
        self._counts = merged

    def table(self, most: int, num_always: int) -> ShortlistTable:
        """Returns the shortlist of the most frequent translations.

        Of equal counts, the lower id is taken. Ids that are always candidates do not count among
        those of a source id.

        Args:
            most: largest number of candidates of a source id.
            num_always: number of the most frequent target ids, which are always candidates.
        """
        self._merge()
        sources, targets = np.divmod(self._keys, self.target_vocab_size)
        frequencies = np.bincount(targets, weights=self._counts, minlength=self.target_vocab_size)
        frequencies[:NUM_SPECIAL] = 0
        ranked = np.argsort(-frequencies, kind="stable")[:num_always]
        always = ranked[frequencies[ranked] > 0]
        is_counted = ~np.isin(targets, always) & (targets >= NUM_SPECIAL)
        sources, targets, counts = (x[is_counted] for x in (sources, targets, self._counts))
        order = np.lexsort((targets, -counts, sources))
        bounds = np.searchsorted(sources[order], np.arange(self.source_vocab_size + 1))
        by_source = [
            targets[order[first : min(first + most, last)]].tolist()
            for first, last in itertools.pairwise(bounds)
        ]
        return ShortlistTable.from_lists(always.tolist(), by_source)

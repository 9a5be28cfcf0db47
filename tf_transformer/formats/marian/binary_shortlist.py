"""Marian's binary shortlists, which belong to the models of Firefox and Bergamot.

    u64 magic number | u64 checksum of what follows
    u64 first: so many ids, from 0 on, are always candidates | u64 most candidates of a source id
    u64 number of offsets | u64 number of candidates
    u64 offsets: for each source id where its candidates begin, and at last their number
    u32 candidates: target ids

All little-endian. `BinaryShortlistGenerator` in browsermt/marian-dev's src/data/shortlist.cpp.
"""

import pathlib
import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tf_transformer.errors import InputError
from tf_transformer.formats.vocabulary_rows import VocabularyRows
from tf_transformer.shortlists.table import MAX_CANDIDATES
from tf_transformer.storage.regular_files import read_regular
from tf_transformer.text.special_ids import NUM_SPECIAL

_MAGIC = 0xF11A48D5013417F5
_HEADER = struct.Struct("<6Q")
# Where the checksum begins.
_COVERED = 16
# 32,000 source ids with 50 candidates each take 7 MB.
_MAX_BYTES = 2**26
_CHUNK_BYTES = 2**12
_MASK = 2**64 - 1


def begins_like_shortlist(begin: bytes) -> bool:
    """Returns whether a file begins like a binary shortlist.

    Args:
        begin: its first 8 bytes.
    """
    return begin[:8] == _MAGIC.to_bytes(8, "little")


class BinaryShortlist(NamedTuple):
    """The candidates of a shortlist, in the original's ids.

    Attributes:
        first: number of ids, from 0 on, that are candidates for every source.
        offsets: `(source_size + 1,)` uint64, where the candidates of each source id begin, and end.
        candidates: `(count,)` uint32, target ids.
    """

    first: int
    offsets: np.ndarray
    candidates: np.ndarray

    def always(self, target: VocabularyRows) -> list[int]:
        """Returns the ids, of this project, that are always candidates, but for special ones.

        Args:
            target: the order of the vocabulary.
        """
        ids = _ids_of(target)[: self.first]
        return sorted(ids[ids >= NUM_SPECIAL].tolist())

    def by_source(
        self, source: VocabularyRows, target: VocabularyRows, *, shared: bool
    ) -> Iterator[list[int]]:
        """Yields the candidates of each source id, of this project, that are not always candidates.

        Args:
            source: the order of the vocabulary.
            target: the same.
            shared: whether both are one vocabulary; a source piece is then a candidate itself.
        """
        ids = _ids_of(target)
        is_wanted = np.ones(target.vocab_size, bool)
        is_wanted[:NUM_SPECIAL] = is_wanted[self.always(target)] = False
        for row in source.rows.tolist():
            if row == source.original_size:
                yield []
                continue
            begin, end = int(self.offsets[row]), int(self.offsets[row + 1])
            rows = self.candidates[begin:end].tolist() + ([row] if shared else [])
            found = np.unique(ids[rows]) if rows else ids[:0]
            yield found[is_wanted[found]].tolist()


def _ids_of(rows: VocabularyRows) -> np.ndarray:
    """Returns this project's id of each of the original's."""
    ids = np.zeros(rows.original_size, "int32")
    # Of several ids with one row, the first is a special one.
    for index in range(rows.vocab_size - 1, -1, -1):
        if rows.rows[index] < rows.original_size:
            ids[rows.rows[index]] = index
    return ids


def read_binary_shortlist(
    path: pathlib.Path, source_size: int, target_size: int
) -> BinaryShortlist:
    """Reads a shortlist.

    Args:
        path: the file.
        source_size: number of the original's source ids.
        target_size: number of its target ids.

    Raises:
        InputError: the file is damaged or of another format, belongs to other vocabularies, or has
            more than `MAX_CANDIDATES` candidates of an id, or for all.
        FileNotFoundError: it does not exist.
    """
    content = read_regular(path, _MAX_BYTES)
    if len(content) < _HEADER.size or not begins_like_shortlist(content):
        raise InputError(f"{path}: expected a binary shortlist of Marian, this is another file")
    _, checksum, first, _, num_offsets, count = _HEADER.unpack(content[: _HEADER.size])
    expected = _HEADER.size + 8 * num_offsets + 4 * count
    if len(content) != expected:
        raise InputError(f"{path}: expected {expected:,} bytes, the file has {len(content):,}")
    if _checksum(content) != checksum:
        raise InputError(f"{path}: damaged: the checksum does not match the content")
    if num_offsets != source_size + 1:
        raise InputError(
            f"{path}: expected a shortlist of a source vocabulary of {source_size:,} entries, got "
            f"{num_offsets - 1:,}"
        )
    offsets = np.frombuffer(content, "<u8", num_offsets, _HEADER.size)
    candidates = np.frombuffer(content, "<u4", count, _HEADER.size + 8 * num_offsets)
    if offsets[0] != 0 or offsets[-1] != count or (offsets[1:] < offsets[:-1]).any():
        raise InputError(f"{path}: damaged: the candidates of an id are not inside the file")
    if count and candidates.max() >= target_size:
        raise InputError(
            f"{path}: expected a shortlist of a target vocabulary of {target_size:,} entries, got "
            f"the id {candidates.max():,}"
        )
    most = max(first, int((offsets[1:] - offsets[:-1]).max()))
    if most > MAX_CANDIDATES:
        raise InputError(f"{path}: expected at most {MAX_CANDIDATES} candidates, got {most:,}")
    return BinaryShortlist(first, offsets, candidates)


def _checksum(content: bytes) -> int:
    """Returns `util::hashMem` of Marian's src/common/hash.h: of whole 64-bit words only."""
    result = 0
    end = len(content) - len(content) % 8
    for begin in range(_COVERED, end, _CHUNK_BYTES):
        words = np.frombuffer(content, "<u8", min(_CHUNK_BYTES, end - begin) // 8, begin)
        for word in words.tolist():
            result ^= (word + 0x9E3779B9 + (result << 6) + (result >> 2)) & _MASK
    return result

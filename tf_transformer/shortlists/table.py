"""The table of a lexical shortlist: for each source piece, the pieces of its translations.

The format of its files is that of CTranslate2's `vmap.txt`: a line has a source piece, a tab, and
target pieces separated by spaces. The line without a source piece has the target pieces that are
always candidates. This module does not import TensorFlow.
"""

import hashlib
import itertools
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tf_transformer.errors import InputError
from tf_transformer.printable import shown
from tf_transformer.text.special_ids import PAD_ID
from tf_transformer.text.text_file import TextFile

if TYPE_CHECKING:  # `--help` must not import SentencePiece
    from tf_transformer.text.vocabulary import Vocabulary

# Candidates of one source piece; more would make a search slower than the whole vocabulary does.
MAX_CANDIDATES = 1000


class ShortlistTable(NamedTuple):
    """The candidates of a shortlist, as ids.

    Attributes:
        always: `(count,)` int32, target ids that are candidates for every source.
        by_source: `(source_vocab_size, most)` int32, the candidates of each source id, padded with
            0.
        digest: BLAKE2 digest of the content, independent of the order of the lines.
    """

    always: np.ndarray
    by_source: np.ndarray
    digest: str

    @classmethod
    def from_lists(
        cls, always: Sequence[int], by_source: Sequence[Sequence[int]]
    ) -> "ShortlistTable":
        """Returns a table.

        Args:
            always: target ids that are candidates for every source.
            by_source: candidates of each source id.
        """
        common = np.array(sorted(always), "int32")
        most = max(map(len, by_source), default=0)
        table = np.full((len(by_source), most), PAD_ID, "int32")
        for row, ids in zip(table, by_source, strict=True):
            row[: len(ids)] = sorted(ids)
        content = common.astype("<i4").tobytes() + table.astype("<i4").tobytes()
        digest = hashlib.blake2b(content, digest_size=16)
        digest.update(repr(table.shape).encode())
        return cls(common, table, digest.hexdigest())


def read_shortlist(
    path: pathlib.Path, source: "Vocabulary", target: "Vocabulary"
) -> ShortlistTable:
    """Reads a shortlist; `.gz` and `.zst` are decompressed.

    Args:
        path: the file.
        source: vocabulary of the source.
        target: vocabulary of the target.

    Raises:
        InputError: the file is damaged, has more than `MAX_CANDIDATES` candidates in a line, or
            belongs to a model with other vocabularies; the message names the line.
    """
    source_ids, target_ids = (
        {piece: index for index, piece in enumerate(vocabulary.pieces)}
        for vocabulary in (source, target)
    )
    by_source: list[list[int]] = [[] for _ in range(source.vocab_size)]
    always: list[int] = []
    read = set()
    for where, piece, candidates in _read_lines(path):
        if piece in read:
            raise InputError(f"{where}: the source piece {shown(piece)} has a line already")
        read.add(piece)
        row = _find_ids(candidates, target_ids, "target", where)
        if piece:
            by_source[_find_ids([piece], source_ids, "source", where)[0]] = row
        else:
            always = row
    if not any(by_source):
        raise InputError(f"{path}: empty; expected a shortlist, as `train-shortlist` writes it")
    if "" not in read:
        raise InputError(
            f"{path}: expected a line without a source piece, with the target pieces for all "
            "sentences; `train-shortlist` writes it last, so the file may be incomplete"
        )
    return ShortlistTable.from_lists(always, by_source)


def _read_lines(path: pathlib.Path) -> Iterator[tuple[str, str, list[str]]]:
    """Yields file and line number, source piece and candidates of each line."""
    if not path.is_file():
        raise InputError(f"{path}: expected a shortlist, as `train-shortlist` writes it; no file")
    for number, line in enumerate(TextFile(path).lines(), 1):
        where = f"{path}:{number}"
        piece, tab, candidates = line.partition("\t")
        if not tab or " " in piece:
            raise InputError(
                f"{where}: expected a source piece, a tab, and target pieces separated by spaces. "
                f"Received: {shown(line)}"
            )
        yield where, piece, candidates.split(" ") if candidates else []


def _find_ids(pieces: Iterable[str], ids: dict[str, int], side: str, where: str) -> list[int]:
    found = set()
    for piece in pieces:
        if piece not in ids:
            raise InputError(
                f"{where}: {shown(piece)} is not a piece of the model's {side} vocabulary; "
                "expected a shortlist of the same model"
            )
        found.add(ids[piece])
    if len(found) > MAX_CANDIDATES:
        raise InputError(f"{where}: expected at most {MAX_CANDIDATES} candidates, got {len(found)}")
    return sorted(found)


def shortlist_lines(
    table: ShortlistTable, source: "Vocabulary", target: "Vocabulary"
) -> Iterator[str]:
    """Yields the lines of a file that `read_shortlist` reads, with line ends.

    Pieces with spaces, tabs or line ends, which the format cannot hold, are left out. The last line
    is for all sentences, so that an incomplete file is noticed.

    Args:
        table: the shortlist.
        source: vocabulary of the source.
        target: vocabulary of the target.
    """
    yield from lines_of(table.always, table.by_source, source, target)


def lines_of(
    always: Iterable[int],
    by_source: Iterable[Iterable[int]],
    source: "Vocabulary",
    target: "Vocabulary",
) -> Iterator[str]:
    """Yields the lines of a file as `shortlist_lines`, of candidates that are in no table.

    Args:
        always: target ids that are candidates for every source.
        by_source: candidates of each source id.
        source: vocabulary of the source.
        target: vocabulary of the target.
    """
    rows = itertools.chain(zip(source.pieces, by_source, strict=True), [("", always)])
    for piece, ids in rows:
        candidates = [target.pieces[index] for index in ids if index != PAD_ID]
        candidates = [candidate for candidate in candidates if _fits_format(candidate)]
        if not piece or (candidates and _fits_format(piece)):
            yield f"{piece}\t{' '.join(candidates)}\n"


def _fits_format(piece):
    return not set(piece) & set(" \t\r\n\0")

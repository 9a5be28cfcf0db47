"""The tasks of a preparation as transforms of Apache Beam.

Each task is skipped if its result exists, and writes it atomically, so that a runner may repeat it.
"""

import pathlib
from collections.abc import Callable, Iterable, Iterator

import apache_beam
import numpy as np

from tf_transformer.apache_beam.pipelines import failures_are_kept
from tf_transformer.apache_beam.plain_texts import PlainTexts
from training.preparation.duplicates import first_occurrences, ranges_of
from training.preparation.shard_tasks import ShardTokenizer, finish_shard
from training.preparation.shards import Shard, ShardFiles, read_digests
from training.prepared.prepared_folder import WORK_NAME


class MakeShards(apache_beam.DoFn):
    """Tokenizes shards.

    Args:
        make_tokenizer: makes the tokenizer of a process.
        texts: reads the files of the corpus.
    """

    def __init__(self, make_tokenizer: Callable[[], ShardTokenizer], texts: PlainTexts):
        self._make_tokenizer = make_tokenizer
        self._texts = texts

    def setup(self) -> None:
        self._tokenizer = self._make_tokenizer()

    def process(self, shard: Shard) -> None:
        with failures_are_kept(shard.output / WORK_NAME):
            if shard.metadata_path.exists():
                return
            sides = []
            for file, span in zip((shard.source, shard.target), shard.bytes, strict=True):
                sides.append(None if file is None else self._texts.read(file.path, *span))
            self._tokenizer.make_shard(shard, sides)


def digests_by_range(
    index: int, output: pathlib.Path, num_ranges: int
) -> Iterator[tuple[int, tuple[int, np.ndarray]]]:
    """Yields a shard's digests in each range of values, with the index of the range.

    Args:
        index: index of the shard.
        output: the prepared folder.
        num_ranges: number of ranges; each is compared by one worker.
    """
    digests = read_digests(ShardFiles(index, output))
    ranges = ranges_of(digests, num_ranges)
    # A shard without pairs is finished, too.
    for number in np.unique(ranges).tolist() or [0]:
        yield number, (index, digests[ranges == number])


def mark_first(
    item: tuple[int, Iterable[tuple[int, np.ndarray]]],
) -> Iterator[tuple[int, tuple[int, np.ndarray]]]:
    """Yields for each shard which of its digests in a range occur in no earlier pair.

    Args:
        item: index of the range, and index and digests of each shard.
    """
    number, parts = item
    ordered = sorted(parts, key=lambda part: part[0])
    is_first = first_occurrences(np.concatenate([digests for _, digests in ordered]))
    begin = 0
    for index, digests in ordered:
        yield index, (number, is_first[begin : begin + len(digests)])
        begin += len(digests)


def kept_pairs(
    item: tuple[int, Iterable[tuple[int, np.ndarray]]], output: pathlib.Path, num_ranges: int
) -> tuple[int, np.ndarray]:
    """Returns the index of a shard, and which of its pairs equal no earlier pair.

    Args:
        item: index of the shard, and for each range which of its digests occur in no earlier pair.
        output: the prepared folder.
        num_ranges: number of ranges.
    """
    index, parts = item
    ranges = ranges_of(read_digests(ShardFiles(index, output)), num_ranges)
    keep = np.empty(len(ranges), bool)
    for number, is_first in parts:
        keep[ranges == number] = is_first
    return index, keep


def all_pairs(index: int, output: pathlib.Path) -> tuple[int, np.ndarray]:
    """Returns the index of a shard, and that all of its pairs are kept."""
    return index, np.ones(len(read_digests(ShardFiles(index, output))), bool)


def finish(item: tuple[int, np.ndarray], output: pathlib.Path) -> None:
    """Finishes a shard, given its index and which of its pairs are kept."""
    index, keep = item
    with failures_are_kept(output / WORK_NAME):
        shard = ShardFiles(index, output)
        if not shard.description_path.exists():
            finish_shard(shard, keep)

"""Shards: ranges of lines of a corpus, the files made from them, and their metadata."""

import dataclasses
import itertools
import json
import pathlib
from collections.abc import Sequence

import numpy as np

from tf_transformer.storage.own_files import replacing_own
from tf_transformer.text.line_count import LineCounts
from tf_transformer.text.text_file import TextFile
from training.prepared.prepared_folder import WORK_NAME

# Source and target; a language model has no source.
Pair = tuple[TextFile | None, TextFile]


# Many shards let folders mix by weights in every epoch, and large ones keep their number small.
_USUAL_SHARDS, _SMALLEST, _LARGEST, _BYTES_PER_LINE = 32, 100, 50_000, 100


@dataclasses.dataclass(frozen=True)
class ShardFiles:
    """The files that are made from a shard.

    Args:
        index: index among all shards of the preparation.
        output: the prepared folder.
    """

    index: int
    output: pathlib.Path

    @property
    def path(self) -> pathlib.Path:
        """Path of the finished shard."""
        return self.output / f"shard-{self.index:05}.tfrecord"

    @property
    def raw_path(self) -> pathlib.Path:
        """Path of the shard before duplicates are removed."""
        return self.output / WORK_NAME / f"{self.index:05}.tfrecord"

    @property
    def metadata_path(self) -> pathlib.Path:
        """Path of the `ShardMetadata`, which are written after the raw shard."""
        return self.output / WORK_NAME / f"{self.index:05}.npz"

    @property
    def description_path(self) -> pathlib.Path:
        """Path of the finished shard's entry for `prepared.json`."""
        return self.output / WORK_NAME / f"{self.index:05}.json"


@dataclasses.dataclass(frozen=True)
class Shard(ShardFiles):
    """A range of lines of a corpus, and the files made from it.

    Args:
        index: index among all shards of the preparation.
        output: the prepared folder.
        source: the source file; None for a language model.
        target: the target file.
        first_line: index of the first line.
        num_lines: number of lines.
        bytes: begin and end of the lines in the decompressed source and target.
    """

    source: TextFile | None
    target: TextFile
    first_line: int
    num_lines: int
    bytes: tuple[tuple[int, int], tuple[int, int]]


@dataclasses.dataclass(frozen=True)
class ShardMetadata:
    """Data about the pairs of a raw shard.

    Args:
        digests: uint64 `(pairs,)`; equal for equal pairs of sentences.
        lengths: int32 `(pairs, 2)`, tokens of source and target, including end tokens.
        faults: number of dropped lines, by the kind of fault.
        examples: file and line of the first dropped lines, by the kind of fault.
    """

    digests: np.ndarray
    lengths: np.ndarray
    faults: dict[str, int]
    examples: dict[str, list[str]]


def usual_shard_pairs(files: Sequence[Pair]) -> int:
    """Returns a number of lines per shard: of about 32 shards, from the sizes of the target files.

    Args:
        files: see `plan_shards`.

    Raises:
        OSError: a file does not exist.
    """
    lines = sum(target.path.stat().st_size for _, target in files) // _BYTES_PER_LINE
    return min(max(lines // _USUAL_SHARDS, _SMALLEST), _LARGEST)


def plan_shards(
    files: Sequence[Pair], counts: LineCounts, shard_pairs: int, output: pathlib.Path
) -> list[Shard]:
    """Divides all files into shards, in the order of the files.

    Args:
        files: pairs of source and target; a language model has no sources.
        counts: the counts of all files, with the offset of every `shard_pairs`-th line.
        shard_pairs: number of lines per shard.
        output: the prepared folder.
    """
    shards: list[Shard] = []
    for source, target in files:
        lines = counts[target.path].lines
        ranges = [
            list(itertools.pairwise(counts[file.path].offsets))
            for file in (source or target, target)
        ]
        for first, *spans in zip(range(0, lines, shard_pairs), *ranges, strict=True):
            size = min(shard_pairs, lines - first)
            shards.append(Shard(len(shards), output, source, target, first, size, tuple(spans)))
    return shards


def write_metadata(path: pathlib.Path, metadata: ShardMetadata) -> None:
    """Writes the metadata of a tokenized shard."""
    report = json.dumps({"faults": metadata.faults, "examples": metadata.examples})
    with replacing_own(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, digests=metadata.digests, lengths=metadata.lengths, report=np.array(report))


def read_metadata(shard: ShardFiles) -> ShardMetadata:
    """Reads what `write_metadata` has written."""
    with np.load(shard.metadata_path) as arrays:
        report = json.loads(str(arrays["report"]))
        return ShardMetadata(arrays["digests"], arrays["lengths"], **report)


def read_digests(shard: ShardFiles) -> np.ndarray:
    """Reads only the digests of the metadata, `(pairs,)` uint64."""
    with np.load(shard.metadata_path) as arrays:
        return arrays["digests"]

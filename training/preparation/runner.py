"""What carries out a preparation: processes of this machine, or an Apache Beam runner."""

import pathlib
from collections.abc import Callable, Sequence
from typing import Protocol

from tf_transformer.text.line_count import LineCount, LineCounts
from training.preparation.shard_tasks import ShardTokenizer
from training.preparation.shards import Shard


class Runner(Protocol):
    """Runs the tasks of a preparation in parallel.

    Every task whose result exists is skipped, and the results do not depend on the runner.

    Attributes:
        shuffle_seed: seed of the order of all pairs; None: the pairs are in the order of the text.
    """

    shuffle_seed: int | None

    def count_lines(
        self, paths: Sequence[pathlib.Path], every: int, work: pathlib.Path
    ) -> Sequence[LineCount]:
        """Counts the lines of files.

        Args:
            paths: the files.
            every: distance in lines of the recorded offsets.
            work: folder of intermediate files.

        Returns:
            The count of each file, see `tf_transformer.text.line_count.count_lines`.

        Raises:
            InputError: a file is invalid.
        """
        ...

    def make_shards(
        self,
        shards: Sequence[Shard],
        counts: LineCounts,
        make_tokenizer: Callable[[], ShardTokenizer],
    ) -> None:
        """Writes the raw file and the metadata of every shard.

        Args:
            shards: all shards of the preparation, in order.
            counts: the counts of all files.
            make_tokenizer: makes the tokenizer of a process.

        Raises:
            InputError: a file has changed since it was counted.
        """
        ...

    def finish_shards(
        self, shards: Sequence[Shard], work: pathlib.Path, keep_duplicates: bool
    ) -> None:
        """Writes the finished file and the description of every shard.

        Args:
            shards: all shards of the preparation, in order; all are made.
            work: folder of intermediate files.
            keep_duplicates: whether to keep pairs that equal an earlier one.
        """
        ...

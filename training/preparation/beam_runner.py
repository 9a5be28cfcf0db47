"""Running a preparation as pipelines of Apache Beam, on one machine or many."""

import pathlib
from collections.abc import Callable, Sequence
from functools import partial

import apache_beam
from apache_beam.options.pipeline_options import PipelineOptions

from tf_transformer.apache_beam.pipelines import write_files
from tf_transformer.apache_beam.plain_texts import PlainTexts, count_files, decompress_files
from tf_transformer.text.line_count import LineCount, LineCounts
from training.preparation import beam_tasks
from training.preparation.beam_shuffle import gather, scatter
from training.preparation.shard_tasks import ShardTokenizer
from training.preparation.shards import Shard
from training.prepared.prepared_folder import WORK_NAME

# Number of digests that a worker compares at a time: 16 bytes each, and as much again for sorting.
_PAIRS_PER_RANGE = 1_000_000


class BeamRunner:
    """Runs the tasks of a preparation by Apache Beam; see `Runner`.

    All workers read and write the files under the same paths. Between them, the runner moves names
    of files, and the digest of each pair, of 8 bytes: no text.

    Args:
        options: options of Apache Beam, with the runner.
        shuffle_seed: seed of the order of all pairs; None keeps the order of the text. Shuffling
            moves the tokenized pairs, too.
    """

    def __init__(self, options: PipelineOptions, shuffle_seed: int | None = None):
        self._options = options
        self.shuffle_seed = shuffle_seed

    def count_lines(
        self, paths: Sequence[pathlib.Path], every: int, work: pathlib.Path
    ) -> list[LineCount]:
        return count_files(self._options, work, paths, every)

    def make_shards(
        self,
        shards: Sequence[Shard],
        counts: LineCounts,
        make_tokenizer: Callable[[], ShardTokenizer],
    ) -> None:
        missing = [shard for shard in shards if not shard.metadata_path.exists()]
        if not missing:
            return
        work = shards[0].output / WORK_NAME
        plain = decompress_files(self._options, work, list(counts))
        texts = PlainTexts(plain, {path: count.state for path, count in counts.items()})
        make = apache_beam.ParDo(beam_tasks.MakeShards(make_tokenizer, texts))
        results = [shard.metadata_path for shard in shards]
        write_files("tokenizing", self._options, missing, [make], results)

    def finish_shards(
        self, shards: Sequence[Shard], work: pathlib.Path, keep_duplicates: bool
    ) -> None:
        results = [shard.description_path for shard in shards]
        if all(path.exists() for path in results):
            return
        num_pairs = sum(shard.num_lines for shard in shards)
        transforms = [
            *_select(shards[0].output, keep_duplicates, -(-num_pairs // _PAIRS_PER_RANGE)),
            *_write(shards[0].output, len(shards), self.shuffle_seed),
        ]
        indices = [shard.index for shard in shards]
        write_files("finishing", self._options, indices, transforms, results)


def _select(output: pathlib.Path, keep_duplicates: bool, num_ranges: int) -> list:
    """Returns transforms that add to the index of a shard which of its pairs are kept."""
    if keep_duplicates:
        return [apache_beam.Map(partial(beam_tasks.all_pairs, output=output))]
    return [
        apache_beam.FlatMap(
            partial(beam_tasks.digests_by_range, output=output, num_ranges=num_ranges)
        ),
        "by range" >> apache_beam.GroupByKey(),
        apache_beam.FlatMap(beam_tasks.mark_first),
        "by shard" >> apache_beam.GroupByKey(),
        apache_beam.Map(partial(beam_tasks.kept_pairs, output=output, num_ranges=num_ranges)),
    ]


def _write(output: pathlib.Path, num_shards: int, shuffle_seed: int | None) -> list:
    """Returns transforms that write the finished shards."""
    if shuffle_seed is None:
        return [apache_beam.Map(partial(beam_tasks.finish, output=output))]
    return [
        apache_beam.FlatMap(
            partial(scatter, output=output, num_shards=num_shards, seed=shuffle_seed)
        ),
        "by new shard" >> apache_beam.GroupByKey(),
        apache_beam.Map(partial(gather, output=output)),
    ]

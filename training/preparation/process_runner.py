"""Running a preparation in parallel processes of this machine."""

import contextlib
import io
import os
import pathlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tqdm

from tf_transformer.errors import InputError
from tf_transformer.storage.own_files import replacing_own
from tf_transformer.text.file_state import file_state
from tf_transformer.text.line_count import LineCount, LineCounts, count_lines
from tf_transformer.text.reading import open_text
from training.preparation.duplicates import mark_first_occurrences
from training.preparation.processes import ProcessPool, phase_bar
from training.preparation.shard_tasks import ShardTokenizer, finish_shard
from training.preparation.shards import Shard, read_digests


class ProcessRunner:
    """Runs the tasks of a preparation in processes; see `Runner`.

    The parent reads the texts, each file sequentially, as compressed files must be.

    Args:
        num_processes: number of parallel processes.
    """

    shuffle_seed = None

    def __init__(self, num_processes: int):
        self._num_processes = num_processes

    def count_lines(
        self, paths: Sequence[pathlib.Path], every: int, work: pathlib.Path
    ) -> list[LineCount]:
        with (
            ProcessPool(min(self._num_processes, len(paths))) as pool,
            phase_bar("counting lines", len(paths), "files") as progress,
        ):
            return list(pool.run(((count_lines, path, every, 1) for path in paths), progress))

    def make_shards(
        self,
        shards: Sequence[Shard],
        counts: LineCounts,
        make_tokenizer: Callable[[], ShardTokenizer],
    ) -> None:
        missing = [shard for shard in shards if not shard.metadata_path.exists()]
        total = sum(shard.num_lines for shard in shards)
        done = total - sum(shard.num_lines for shard in missing)
        tasks = (
            (_make_shard, shard, sides, shard.num_lines)
            for shard, sides in _read_sides(missing, counts)
        )
        with (
            ProcessPool(self._num_processes, _set_tokenizer, (make_tokenizer,)) as pool,
            phase_bar("tokenizing", total, "pairs", done) as progress,
        ):
            for _ in pool.run(tasks, progress):
                pass

    def finish_shards(
        self, shards: Sequence[Shard], work: pathlib.Path, keep_duplicates: bool
    ) -> None:
        keep = _kept_pairs(shards, work / "keep.npy", keep_duplicates)

        def tasks():
            start = 0
            for shard in shards:
                end = start + len(read_digests(shard))
                if not shard.description_path.exists():
                    yield finish_shard, shard, np.array(keep[start:end]), 1
                start = end

        done = sum(shard.description_path.exists() for shard in shards)
        with (
            ProcessPool(self._num_processes) as pool,
            phase_bar("finishing", len(shards), "shards", done) as progress,
        ):
            for _ in pool.run(tasks(), progress):
                pass


# The tokenizer of a process, set by `_set_tokenizer`.
_tokenizers: list[ShardTokenizer] = []


def _set_tokenizer(make_tokenizer: Callable[[], ShardTokenizer]) -> None:
    _tokenizers[:] = [make_tokenizer()]


def _make_shard(shard: Shard, sides: list[bytes | None]) -> None:
    _tokenizers[0].make_shard(shard, sides)


def _read_sides(
    shards: Sequence[Shard], counts: LineCounts
) -> Iterator[tuple[Shard, list[bytes | None]]]:
    """Yields each shard with the bytes of its lines; reads every file sequentially."""
    for group in _group_by_files(shards):
        files = (group[0].source, group[0].target)
        with contextlib.ExitStack() as stack:
            opened = [
                None if file is None else stack.enter_context(open_text(file.path))
                for file in files
            ]
            positions = [0, 0]
            for shard in group:
                sides = []
                for side, (text, (begin, end)) in enumerate(zip(opened, shard.bytes, strict=True)):
                    if text is not None:
                        _skip(text, begin - positions[side])
                    sides.append(None if text is None else text.read(end - begin))
                    positions[side] = end
                for file in files:
                    if file and file_state(file.path) != counts[file.path].state:
                        raise InputError(
                            f"{file.path} has changed while it was read; restore it and run the "
                            "same command again to resume"
                        )
                yield shard, sides


def _group_by_files(shards: Sequence[Shard]) -> Iterator[list[Shard]]:
    """Groups consecutive shards of one pair of files; the same pair may be listed twice."""
    group: list[Shard] = []
    for shard in shards:
        if group and (
            (shard.source, shard.target) != (group[-1].source, group[-1].target)
            or shard.first_line <= group[-1].first_line
        ):
            yield group
            group = []
        group.append(shard)
    if group:
        yield group


def _skip(file: io.BufferedIOBase, size: int) -> None:
    if file.seekable():
        file.seek(size, os.SEEK_CUR)
        return
    while size > 0 and (piece := file.read(min(size, 1 << 20))):
        size -= len(piece)


def _kept_pairs(shards: Sequence[Shard], path: pathlib.Path, keep_duplicates: bool) -> np.ndarray:
    """Returns whether each pair is kept, as a file mapped into memory."""
    if not path.exists():
        num_pairs = sum(len(read_digests(shard)) for shard in shards)
        if keep_duplicates:
            with replacing_own(path) as temporary, open(temporary, "wb") as file:
                np.save(file, np.ones(num_pairs, bool))
        else:
            parts = [lambda shard=shard: read_digests(shard) for shard in shards]
            mark_first_occurrences(
                parts,
                path,
                num_pairs,
                lambda passes: tqdm.tqdm(passes, "finding duplicates", leave=False, disable=None),
            )
    return np.load(path, mmap_mode="r")

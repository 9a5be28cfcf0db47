"""Counting the lines of all files of a preparation, and recording the counts."""

import dataclasses
import pathlib
from collections.abc import Sequence

from tf_transformer.storage.json_files import read_json, write_json
from tf_transformer.storage.own_files import replacing_own
from tf_transformer.text.file_state import file_state
from tf_transformer.text.line_count import LineCount, LineCounts
from tf_transformer.text.parallel_text import check_counts
from tf_transformer.text.text_file import TextFile
from training.preparation.runner import Runner
from training.prepared.prepared_folder import MAX_BYTES


def count_files(
    files: Sequence[tuple[TextFile | None, TextFile]],
    work: pathlib.Path,
    every: int,
    runner: Runner,
) -> LineCounts:
    """Counts the lines of every file, except for unchanged files that were counted before.

    Args:
        files: pairs of source and target; a language model has no sources.
        work: the folder that holds the file of counts.
        every: see `count_lines`.
        runner: counts the lines.

    Returns:
        The counts of each file, by its path.

    Raises:
        InputError: the two files of a pair differ in their number of lines or are empty, or a
            compressed file is truncated.
    """
    counts_path = work / "counts.json"
    recorded = read_json(counts_path, MAX_BYTES) if counts_path.exists() else {}
    paths = list(dict.fromkeys(file.path for pair in files for file in pair if file))
    missing = [path for path in paths if not _is_counted(path, every, recorded)]
    if missing:
        for path, count in zip(missing, runner.count_lines(missing, every, work), strict=True):
            recorded[str(path)] = {"every": every, "count": dataclasses.asdict(count)}
        with replacing_own(counts_path) as temporary:
            write_json(temporary, recorded, indent=None)
    counts = {path: LineCount(**recorded[str(path)]["count"]) for path in paths}
    for pair in files:
        _check_pair(*pair, counts)
    return counts


def _is_counted(path: pathlib.Path, every: int, recorded: dict) -> bool:
    entry = recorded.get(str(path), {"count": {}})
    return (entry.get("every"), entry["count"].get("state")) == (every, file_state(path))


def _check_pair(source: TextFile | None, target: TextFile, counts: dict) -> None:
    pair = (source or target, target)
    check_counts(*pair, *(counts[file.path].lines for file in pair))

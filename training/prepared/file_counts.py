"""The lines of all files of a preparation, counted in parallel processes."""

import dataclasses
import pathlib
from collections.abc import Sequence

from tf_transformer.storage.json_files import read_json, write_json
from tf_transformer.storage.own_files import replacing_own
from tf_transformer.text.text_file import TextFile
from training.data.corpus import check_counts, file_state
from training.prepared.line_count import LineCount, count_lines
from training.prepared.prepared_folder import MAX_BYTES
from training.prepared.processes import Processes, progress_bar

Counts = dict[pathlib.Path, LineCount]


def count_files(
    files: Sequence[tuple[TextFile | None, TextFile]],
    work: pathlib.Path,
    every: int,
    num_processes: int,
) -> Counts:
    """Counts the lines of every file; counts of files that have not changed are taken from before.

    Args:
        files: sources and targets; a language model has no sources.
        work: the folder where counts are noted.
        every: see `count_lines`.
        num_processes: how many count.

    Raises:
        ValueError: the two files of a pair differ in length or are empty, or one is not whole.
    """
    notes_path = work / "counts.json"
    notes = read_json(notes_path, MAX_BYTES) if notes_path.exists() else {}
    paths = list(dict.fromkeys(file.path for pair in files for file in pair if file))
    missing = [path for path in paths if not _is_counted(path, every, notes)]
    if missing:
        number = min(num_processes, len(missing))
        with (
            Processes(number) as processes,
            progress_bar("counting lines", len(missing), "files") as progress,
        ):
            tasks = ((count_lines, path, every, 1) for path in missing)
            for path, count in zip(missing, processes.run(tasks, progress), strict=True):
                notes[str(path)] = {"every": every, "count": dataclasses.asdict(count)}
        with replacing_own(notes_path) as temporary:
            write_json(temporary, notes, indent=None)
    counts = {path: LineCount(**notes[str(path)]["count"]) for path in paths}
    for pair in files:
        _check_pair(*pair, counts)
    return counts


def _is_counted(path: pathlib.Path, every: int, notes: dict) -> bool:
    note = notes.get(str(path), {"count": {}})
    return (note.get("every"), note["count"].get("state")) == (every, file_state(path))


def _check_pair(source: TextFile | None, target: TextFile, counts: dict) -> None:
    pair = (source or target, target)
    check_counts(*pair, *(counts[file.path].lines for file in pair))

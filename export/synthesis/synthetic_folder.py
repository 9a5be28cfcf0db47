"""The folder of a synthetic corpus: its text, its record, and the parts of an unfinished one."""

import contextlib
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.storage.files import locked, replacing
from tf_transformer.storage.json_files import read_json, write_json
from tf_transformer.storage.own_files import check_own_folder, replacing_own
from tf_transformer.storage.run_requests import check_same_request
from tf_transformer.text.text_file import TextFile

SOURCE_NAME, TARGET_NAME, RECORD_NAME = "train.source", "train.target", "synthesis.json"
# Pairs that are left out, in the counts of a run.
INCOMPLETE = "blank or too long"
_FORMAT_VERSION = 1


@contextlib.contextmanager
def begun(folder: pathlib.Path, request: dict[str, Any]) -> Iterator[None]:
    """Locks a new folder, or that of an interrupted or finished run with the same request.

    A run that has written no result, such as one whose model lacks a task, is begun anew.

    Args:
        folder: the folder, which is created.
        request: what the corpus depends on, as JSON values.

    Raises:
        InputError: the folder has other files, belongs to another request, or is in use.
        OSError: it cannot be written.
    """
    check_own_folder(folder)
    record = folder / RECORD_NAME
    if folder.exists() and not record.exists() and any(folder.iterdir()):
        raise InputError(f"{folder}: expected a new or empty folder, or one of this command")
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder, "writing this corpus"):
        if record.exists() and _has_results(folder):
            _check_same(record, request)
        else:
            _write_record(record, request)
        yield


def check_part(path: pathlib.Path, text: TextFile) -> None:
    """Checks that a file has a result for each line of a text.

    Raises:
        InputError: it does not.
    """
    expected, got = (sum(1 for _ in file.lines()) for file in (text, TextFile(path)))
    if expected != got:
        raise InputError(
            f"{path}: expected {expected:,} lines, got {got:,}; remove it to translate again"
        )


def write_pairs(folder: pathlib.Path, pairs: Iterable[tuple[str, str]]) -> int:
    """Writes the pairs of a corpus, both files complete or none, and returns their number."""
    count = 0
    with (
        replacing(folder / TARGET_NAME) as target_path,
        replacing(folder / SOURCE_NAME) as source_path,
        open(source_path, "w", encoding="utf-8") as sources,
        open(target_path, "w", encoding="utf-8") as targets,
    ):
        for source, target in pairs:
            sources.write(f"{source}\n")
            targets.write(f"{target}\n")
            count += 1
    return count


def _has_results(folder):
    return any(path.stat().st_size for path in folder.iterdir() if path.name != RECORD_NAME)


def _write_record(record, request):
    with replacing_own(record) as path:
        write_json(path, {"format_version": _FORMAT_VERSION, "request": request})


def _check_same(record, request):
    try:
        content = read_json(record)
        former = dict(content["request"])
        is_known = content["format_version"] == _FORMAT_VERSION
    except (LookupError, TypeError, ValueError) as error:
        raise InputError(f"{record}: damaged; remove the folder to start again") from error
    if not is_known:
        raise InputError(f"{record}: expected format_version {_FORMAT_VERSION}")
    advice = "give the same options to resume, or another --output"
    check_same_request(record.parent, former, request, advice)

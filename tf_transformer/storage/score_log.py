"""The log of a model's scores in its model directory, with one JSON object per line."""

import contextlib
import fcntl
import json
import os
import pathlib
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.storage.json_files import parse_json
from tf_transformer.storage.own_files import check_own_file
from tf_transformer.storage.regular_files import check_regular, read_regular

SCORES_NAME = "scores.jsonl"
# Enough for tens of thousands of scores.
MAX_BYTES = 2**26


def append_score(model_dir: pathlib.Path, score: dict[str, Any]) -> None:
    """Appends a score; earlier lines are unchanged.

    The file is locked meanwhile. A line that cannot be written completely is removed, and so is an
    incomplete last line that a killed process has left.

    Args:
        model_dir: the model directory.
        score: a dictionary of JSON values.

    Raises:
        OSError: the folder is not writable, or the disk is full.
        InputError: the file is a symbolic link, not a regular file, or larger than `MAX_BYTES`.
    """
    path = model_dir / SCORES_NAME
    with contextlib.suppress(FileNotFoundError):
        check_regular(path, MAX_BYTES)
    check_own_file(path)
    text = json.dumps(score, ensure_ascii=False, allow_nan=False)
    # Surrogates in file names that are not UTF-8 become JSON escapes.
    line = text.encode("utf-8", "backslashreplace") + b"\n"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    with open(descriptor, "r+b", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # until the file is closed
        content = file.read()
        last_line = content[content.rfind(b"\n") + 1 :]
        if _parse(last_line) is not None:  # only its line feed is missing
            end, line = len(content), b"\n" + line
        else:
            end = len(content) - len(last_line)
        file.truncate(end)
        file.seek(end)
        try:
            written = 0
            while written < len(line):
                written += file.write(line[written:])
            os.fsync(file.fileno())
        except OSError as error:
            file.truncate(end)
            raise OSError(error.errno, error.strerror, str(path)) from error


def read_scores(model_dir: pathlib.Path) -> list[dict[str, Any]]:
    """Returns all scores, oldest first; an empty list if there is no file.

    Ignores an incomplete last line, which another process may be writing.

    Raises:
        InputError: another line is not a JSON object, or the file is not a regular file or larger
            than `MAX_BYTES`.
    """
    path = model_dir / SCORES_NAME
    try:
        *lines, last = read_regular(path, MAX_BYTES).split(b"\n")
    except FileNotFoundError:
        return []
    scores = []
    for line_number, line in enumerate(lines, 1):
        score = _parse(line)
        if score is None:
            raise InputError(f"{path}:{line_number}: damaged; expected a JSON object")
        scores.append(score)
    last_score = _parse(last)
    return scores if last_score is None else [*scores, last_score]


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        return parse_json(line, SCORES_NAME)
    except ValueError:
        return None

"""The scores of a model, one JSON object a line, in its model directory."""

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
# Tens of thousands of scores.
MAX_BYTES = 2**26


def append_score(model_dir: pathlib.Path, score: dict[str, Any]) -> None:
    """Adds a line; former lines stay as they are.

    Processes that append at once wait for each other. A line that cannot be written whole is taken
    back; half a line that a killed process has left is removed.

    Args:
        model_dir: the model directory.
        score: what JSON can hold.

    Raises:
        OSError: the folder is not writable, or the disk is full.
        ValueError: what is there is a link or no regular file, or of more than `MAX_BYTES`.
    """
    path = model_dir / SCORES_NAME
    with contextlib.suppress(FileNotFoundError):
        check_regular(path, MAX_BYTES)
    check_own_file(path)
    text = json.dumps(score, ensure_ascii=False, allow_nan=False)
    # The surrogates in a file's name that is not UTF-8 become JSON's escapes.
    line = text.encode("utf-8", "backslashreplace") + b"\n"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    with open(descriptor, "r+b", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed, or the process ends
        content = file.read()
        half = content[content.rfind(b"\n") + 1 :]
        if _parse(half) is not None:  # only its line feed is missing
            end, line = len(content), b"\n" + line
        else:
            end = len(content) - len(half)
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
    """All scores, oldest first; none where there is no file.

    A last line without line feed that is no JSON object is being written, or was never whole.

    Raises:
        ValueError: another line is not a JSON object; names the file and the line. Or it is no
            regular file, or of more than `MAX_BYTES`.
    """
    path = model_dir / SCORES_NAME
    try:
        *lines, last = read_regular(path, MAX_BYTES).split(b"\n")
    except FileNotFoundError:
        return []
    scores = []
    for number, line in enumerate(lines, 1):
        score = _parse(line)
        if score is None:
            raise InputError(f"{path}:{number}: damaged; expected a JSON object")
        scores.append(score)
    half = _parse(last)
    return scores if half is None else [*scores, half]


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        return parse_json(line, SCORES_NAME)
    except ValueError:
        return None

"""Rows of files with one row per line: text, TSV and JSON lines."""

import gzip
import itertools
import json
import pathlib
import re
from typing import Any

import zstandard

from export.bulk.row_files import ADDED, Format, Results, RowFile, Rows
from tf_transformer.errors import InputError
from tf_transformer.storage.json_files import parse_json
from tf_transformer.text.line_count import split_lines
from tf_transformer.text.lines import join_lines
from tf_transformer.text.reading import decode_line

# What is nested more deeply can perhaps be read, but not written again.
_MAX_DEPTH = 200
_SURROGATE = re.compile("[\ud800-\udfff]")


def read_lines(content: bytes, file: RowFile, first: int) -> Rows:
    """Parses the rows of a part of a file.

    Args:
        content: the part, decompressed.
        file: the file, whose format is not Parquet.
        first: number of the first row, counted from 1, for messages.
    """
    column = file.column if isinstance(file.column, int) else None
    rows = Rows([], [], [])
    for number, line in enumerate(split_lines(content, first), first):
        text: str | None = None
        reason: str | None = None
        repeated: Any = None
        try:
            if file.format == "jsonl":
                where = f"{file.path}:{number}"
                repeated = _parse_object(decode_line(line, file.path, number), where)
                text = _string(repeated, file.column, where)
            else:
                repeated = decode_line(line, file.path, number)
                text = decode_line(line, file.path, number, column)
        except InputError as error:
            reason = str(error)
        rows.texts.append(text)
        rows.reasons.append(reason)
        rows.content.append(repeated)
    return rows


def _parse_object(line: str, where: str) -> dict[str, Any]:
    found = parse_json(line.encode(), where, large_integers=True)
    if line.count("[") + line.count("{") > _MAX_DEPTH and _depth(found) > _MAX_DEPTH:
        raise InputError(f"{where}: expected at most {_MAX_DEPTH} levels of nesting")
    for name in ADDED:
        if name in found:
            raise InputError(f"{where}: has an entry {name!r}, which the output would replace")
    return found


def _depth(value: Any) -> int:
    """Returns how deeply lists and dictionaries are nested, without recursion."""
    depth, level = 0, [value]
    while level := [inner for inner in level if isinstance(inner, list | dict)]:
        depth += 1
        parts = (inner if isinstance(inner, list) else inner.values() for inner in level)
        level = [part for inner in parts for part in inner]
    return depth


def _string(found: dict[str, Any], column: int | str | None, where: str) -> str:
    if column not in found:
        raise InputError(f"{where}: has no entry {column!r}")
    text = found[column]
    if not isinstance(text, str):
        raise InputError(f"{where}: expected a string as {column!r}, got {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{where}: expected Unicode, got half of a surrogate pair") from error
    return text


def format_lines(rows: Rows, results: Results, output: RowFile) -> bytes:
    """Returns the lines of the output for some rows; `compress` is to follow.

    Args:
        rows: the rows.
        results: the result of each row; None for rows that failed, which get an empty translation
            in text and TSV, and null in JSON lines.
        output: the output.
    """
    # Text repeats nothing; what a row of Parquet would repeat is no line.
    content = itertools.repeat(None) if output.format == "text" else rows.content
    lines = map(_FORMATS[output.format], content, results)
    return "".join(f"{line}\n" for line in lines).encode()


def _text_line(_, result):
    return join_lines(result.text) if result else ""


def _tsv_line(line, result):
    if result is None:
        return f"{line or ''}\t\t"
    return f"{line}\t{join_lines(result.text).replace(chr(9), ' ')}\t{result.score:.4f}"


def _json_line(found, result):
    values = (None, None, None) if result is None else result
    entries = (found or {}) | dict(zip(ADDED, values, strict=True))
    line = json.dumps(entries, ensure_ascii=False)
    # Halves of surrogate pairs, in entries that are repeated, can only be written escaped.
    return line if line.isascii() or not _SURROGATE.search(line) else json.dumps(entries)


_FORMATS: dict[Format, Any] = {"text": _text_line, "tsv": _tsv_line, "jsonl": _json_line}


def compress(content: bytes, path: pathlib.Path) -> bytes:
    """Compresses a part of a file as its name demands; the parts can be joined."""
    if path.suffix == ".gz":
        return gzip.compress(content, mtime=0)
    if path.suffix == ".zst":
        return zstandard.compress(content)
    return content

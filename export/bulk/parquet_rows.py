"""Rows of Parquet files."""

import pathlib
from collections.abc import Sequence

import pyarrow
import pyarrow.parquet

from export.bulk.row_files import ADDED, Results, RowFile, Rows
from tf_transformer.errors import InputError

_TYPES = (pyarrow.string(), pyarrow.float32(), pyarrow.bool_())


def row_groups(file: RowFile) -> list[int]:
    """Returns the number of rows of each row group.

    Raises:
        InputError: it is not a Parquet file, has no such column of strings, or has one that the
            output would replace.
    """
    try:
        with pyarrow.parquet.ParquetFile(file.path) as opened:
            schema, metadata = opened.schema_arrow, opened.metadata
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{file.path}: expected a Parquet file ({str(error)[:200]})") from error
    names = schema.names
    if names.count(file.column) != 1:
        raise InputError(
            f"{file.path}: expected one column {file.column!r}, got {', '.join(names)[:400]}"
        )
    kind = schema.field(file.column).type
    if not (pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)):
        raise InputError(f"{file.path}: expected strings in {file.column!r}, got {kind}")
    for name in ADDED:
        if name in names:
            raise InputError(f"{file.path}: has a column {name!r}, which the output would replace")
    return [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]


def read_rows(file: RowFile, group: int, begin: int, end: int, first: int) -> Rows:
    """Reads rows of a row group.

    Args:
        file: the file.
        group: index of the row group.
        begin: index of the first row in the group.
        end: index of the row after the last.
        first: number of the first row in the file, counted from 1, for messages.

    Raises:
        InputError: the file is damaged.
    """
    try:
        with pyarrow.parquet.ParquetFile(file.path) as opened:
            table = opened.read_row_group(group).slice(begin, end - begin)
        values = table.column(file.column).cast(pyarrow.large_binary()).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{file.path}: row group {group}: damaged ({str(error)[:200]})") from error
    rows = Rows([], [], table)
    for number, value in enumerate(values, first):
        text, reason = None, f"has no value of {file.column!r}"
        if value is not None:
            try:
                text = value.decode()
            except UnicodeDecodeError as error:
                reason = f"expected UTF-8 in {file.column!r} ({error.reason})"
        rows.texts.append(text)
        rows.reasons.append(f"{file.path}:{number}: {reason}" if text is None else None)
    return rows


def no_rows(file: RowFile) -> Rows:
    """Returns the columns of a file without rows."""
    return Rows([], [], pyarrow.parquet.read_schema(file.path).empty_table())


def write_rows(rows: Rows, results: Results, path: pathlib.Path) -> None:
    """Writes rows with the columns of their results, which are null for rows that failed."""
    table = rows.content
    for index, (name, kind) in enumerate(zip(ADDED, _TYPES, strict=True)):
        values = [None if result is None else result[index] for result in results]
        table = table.append_column(name, pyarrow.array(values, kind))
    pyarrow.parquet.write_table(table, path)


def join_files(parts: Sequence[pathlib.Path], path: pathlib.Path) -> None:
    """Joins Parquet files with the same columns."""
    schema = pyarrow.parquet.read_schema(parts[0])
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for part in parts:
            writer.write_table(pyarrow.parquet.read_table(part))

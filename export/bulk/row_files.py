"""The formats of large files: which column of which rows is translated, and what is written.

    text (any name)     a line; the output has the translations alone
    .tsv                a column; the output repeats the line and adds translation and score
    .jsonl              a string of an object; the output repeats the object with more entries
    .parquet            a column; the output repeats the table with more columns

All but Parquet may be compressed: `.gz` or `.zst`. The output is text, or has the input's format.
"""

import dataclasses
import os
import pathlib
import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from tf_transformer.errors import InputError
from tf_transformer.text.reading import COMPRESSED, split_name

Format = Literal["text", "tsv", "jsonl", "parquet"]
# The column of JSON lines and of Parquet whose name is not given.
DEFAULT_COLUMN = "text"
# What is added to the rows of JSON lines and of Parquet.
ADDED = ("translation", "score", "truncated")
_PACKED = "|".join(map(re.escape, COMPRESSED))
_NAMED = re.compile(
    rf"(?P<path>.+\.(?P<format>jsonl|parquet)(?P<packed>{_PACKED})?)(:(?P<column>.+))?", re.DOTALL
)


class Rows(NamedTuple):
    """Consecutive rows of a file.

    Attributes:
        texts: the sentence of each row; None if the row is invalid.
        reasons: why a row is invalid; None if it is valid.
        content: the rows as the output repeats them: lines, objects, or a `pyarrow.Table`.
    """

    texts: list[str | None]
    reasons: list[str | None]
    content: Any


class Result(NamedTuple):
    """The translation of one row.

    Attributes:
        text: the translation.
        score: log-probability divided by the length penalty.
        truncated: whether the source exceeded the model's limit.
    """

    text: str
    score: float
    truncated: bool


Results = Sequence[Result | None]


@dataclasses.dataclass(frozen=True)
class RowFile:
    """A file of rows.

    Args:
        path: the file.
        format: its format.
        column: what is translated: the number of a column of a TSV file, counted from 1, or the
            name of one of JSON lines or Parquet; None for text.
    """

    path: pathlib.Path
    format: Format
    column: int | str | None = None

    @classmethod
    def parse(cls, name: str | os.PathLike) -> "RowFile":
        """Parses a file name: `F`, `F.tsv:2`, `F.jsonl:NAME` or `F.parquet:NAME`.

        Raises:
            InputError: a column of a TSV file is 0, or a Parquet file is compressed.
        """
        name = os.fspath(name)
        match = _NAMED.fullmatch(name)
        if match is None:
            path, column = split_name(name)
            return cls(path, "text" if column is None else "tsv", column)
        if match["format"] == "parquet":
            if match["packed"]:
                raise InputError(f"{name}: expected Parquet without {match['packed']}")
            return cls(pathlib.Path(match["path"]), "parquet", match["column"] or DEFAULT_COLUMN)
        return cls(pathlib.Path(match["path"]), "jsonl", match["column"] or DEFAULT_COLUMN)

"""Reading of text files: decompression, lines, columns and UTF-8."""

import codecs
import contextlib
import gzip
import io
import os
import pathlib
import re
import zlib
from collections.abc import Iterator

import zstandard

from tf_transformer.errors import InputError
from tf_transformer.printable import shown
from tf_transformer.text.zstd import ZstdFile

# A longer line is not a sentence. Without this limit, a file without line feeds, or a small
# compressed file, could fill the memory.
MAX_LINE_BYTES = 2**20
# Files whose names end so are decompressed while reading.
COMPRESSED = (".gz", ".zst")
# Python refuses to convert very long numbers.
_MAX_COLUMN_DIGITS = 9
_PACKED = "|".join(map(re.escape, COMPRESSED))
_TSV = re.compile(rf"(?P<path>.+\.tsv({_PACKED})?)(:(?P<column>[0-9]+))?", re.DOTALL)
# Editors write it at the beginning of a file in UTF-8, where it is no text. Anywhere else it is.
_BYTE_ORDER_MARK = "\ufeff"
# First bytes of formats that are often mistaken for text; none of them is valid UTF-8.
_OTHER_FORMATS = {
    codecs.BOM_UTF32_LE: "UTF-32; save it as UTF-8",  # begins with the mark of UTF-16
    codecs.BOM_UTF32_BE: "UTF-32; save it as UTF-8",
    codecs.BOM_UTF16_LE: "UTF-16; save it as UTF-8",
    codecs.BOM_UTF16_BE: "UTF-16; save it as UTF-8",
    b"\x1f\x8b": "compressed by gzip; the name of such a file ends in .gz",
    b"\x28\xb5\x2f\xfd": "compressed by zstd; the name of such a file ends in .zst",
}


class NotTextError(InputError):
    """A line or a file is not text in UTF-8."""


def split_name(name: str | os.PathLike, default_column: int = 1) -> tuple[pathlib.Path, int | None]:
    """Parses a file name of the command line: `F`, or `F.tsv:2` for column 2 of a TSV file.

    Args:
        name: name of the file, with or without a column.
        default_column: column of a TSV file whose name has none.

    Returns:
        The path and the column, counted from 1; the column is None for files other than TSV.

    Raises:
        InputError: the column is 0 or has more than 9 digits.
    """
    name = os.fspath(name)
    match = _TSV.fullmatch(name)
    if match is None:
        return pathlib.Path(name), None
    digits = (match["column"] or str(default_column)).lstrip("0")
    if not digits:
        raise InputError(f"{name}: columns are counted from 1")
    if len(digits) > _MAX_COLUMN_DIGITS:
        raise InputError(
            f"{shown(name)}: expected a column of at most {_MAX_COLUMN_DIGITS} digits, "
            f"got {len(digits):,} digits"
        )
    column = int(digits)
    return pathlib.Path(match["path"]), column


@contextlib.contextmanager
def open_text(path: pathlib.Path) -> Iterator[io.BufferedIOBase]:
    """Opens a file to read its bytes; files that end in `.gz` or `.zst` are decompressed.

    Raises:
        InputError: the compressed file is truncated or damaged; raised while reading.
    """
    with name_damaged_file(path):
        if path.suffix == ".gz":
            with gzip.open(path, "rb") as file:
                yield file
        elif path.suffix == ".zst":
            with open(path, "rb") as compressed:
                yield io.BufferedReader(ZstdFile(compressed))
        else:
            with open(path, "rb") as file:
                yield file


@contextlib.contextmanager
def name_damaged_file(name: str | os.PathLike) -> Iterator[None]:
    """Converts decompression errors, in a `with` statement, to errors that name the file.

    Raises:
        InputError: the compressed file is truncated or damaged.
    """
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{name}: truncated or damaged gzip file ({error})") from error
    except zstandard.ZstdError as error:
        if "too much memory" in str(error):
            raise InputError(
                f"{name}: its zstd window is larger than 128 MiB; compress it again without --long"
            ) from error
        raise InputError(f"{name}: truncated or damaged zstd file ({error})") from error


def decode_text(content: bytes, where: object) -> str:
    """Returns the characters of a whole file, without the byte order mark it may begin with.

    Args:
        content: the bytes of the file.
        where: the file, for the error message.

    Raises:
        NotTextError: the content is not UTF-8.
    """
    return _decode(content, where).removeprefix(_BYTE_ORDER_MARK)


def _decode(content, where):
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        known = (name for start, name in _OTHER_FORMATS.items() if content.startswith(start))
        raise NotTextError(f"{where}: not UTF-8 ({next(known, error.reason)})") from error


def has_mark(path: pathlib.Path) -> bool:
    """Returns whether a file that is not compressed begins with the byte order mark of UTF-8."""
    with open(path, "rb") as file:
        return file.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8


def is_line(last: bytes, number: int) -> bool:
    """Returns whether what follows the last line feed of a file is a line.

    Carriage returns alone are none, and neither is the byte order mark that the file begins with.

    Args:
        last: what follows the last line feed; with a line feed, it is a line.
        number: the number that the line would have in the file, counted from 1.
    """
    return bool((last.removeprefix(codecs.BOM_UTF8) if number == 1 else last).strip(b"\r"))


def decode_line(line: bytes, name: object, number: int, column: int | None = None) -> str:
    """Returns the text of a line or of one column.

    Carriage returns are dropped, and so is the byte order mark that a file may begin with.

    Args:
        line: the bytes, with or without the line feed.
        name: the file, for error messages.
        number: the number of the line in the file, counted from 1.
        column: the column, counted from 1, or None for the whole line.

    Raises:
        NotTextError: the line is not UTF-8 or has a NUL byte.
        InputError: the line is longer than `MAX_LINE_BYTES` or lacks the column.
    """
    line = line.removesuffix(b"\n")
    where = f"{name}:{number}"
    check_length(len(line), where)
    text = decode_text(line, where) if number == 1 else _decode(line, where)
    text = text.replace("\r", "")
    if "\0" in text:
        raise NotTextError(f"{where}: not text in UTF-8 (it has a NUL byte)")
    if column is None:
        return text
    columns = text.split("\t")
    if len(columns) < column:
        raise InputError(
            f"{where}: expected at least {column} columns separated by tabs, got {len(columns)}"
        )
    return columns[column - 1]


def check_length(num_bytes: int, where: str) -> None:
    """Checks the length of a line or of its first part.

    Args:
        num_bytes: length without the line feed.
        where: file and line, for the error message.

    Raises:
        InputError: the line is longer than `MAX_LINE_BYTES`.
    """
    if num_bytes > MAX_LINE_BYTES:
        raise InputError(
            f"{where}: expected a sentence, got more than {MAX_LINE_BYTES:,} bytes without a "
            "line feed"
        )

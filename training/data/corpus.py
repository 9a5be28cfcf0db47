"""Text files as they come: plain or compressed lines, or a column of a TSV file."""

import contextlib
import dataclasses
import gzip
import hashlib
import io
import itertools
import os
import pathlib
import re
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

import zstandard

from training.data.zstd import ZstdFile

if TYPE_CHECKING:  # reading alone does not wait for it
    import tensorflow as tf

_TSV = re.compile(r"(?P<path>.+\.tsv(\.gz|\.zst)?)(:(?P<column>\d+))?", re.DOTALL)


@contextlib.contextmanager
def open_text(path: pathlib.Path) -> Iterator[BinaryIO]:
    """Opens a file for reading its bytes; what ends in `.gz` or `.zst` is decompressed.

    Raises:
        ValueError: while it is open, the compressed file turns out not to be whole.
    """
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rb") as file:
                yield file
        elif path.suffix == ".zst":
            with open(path, "rb") as compressed:
                yield io.BufferedReader(ZstdFile(compressed))
        else:
            with open(path, "rb") as file:
                yield file
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: not a whole gzip file ({error})") from error
    except zstandard.ZstdError as error:
        raise ValueError(f"{path}: not a whole zstd file ({error})") from error


def file_state(path: pathlib.Path) -> list[int] | None:
    """Size and time of the last change; None where there is no file.

    While they stay what they are, so does the text.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns]


@dataclasses.dataclass(frozen=True)
class TextFile:
    """One sentence a line, in UTF-8; lines end at a line feed, carriage returns are dropped.

    Args:
        path: the file; a name that ends in `.gz` or `.zst` is decompressed on the fly.
        column: for TSV files, the column that holds the sentence, counted from 1; else None.
        prefix: what stands before every sentence that is not empty, such as a language's tag.
    """

    path: pathlib.Path
    column: int | None = None
    prefix: str = ""

    @classmethod
    def parse(cls, name: str | os.PathLike, default_column: int = 1) -> "TextFile":
        """Reads a name as the command line has it: `F`, or `F.tsv:2` for column 2 of a TSV file.

        Raises:
            ValueError: there is no such file, it is a folder or a pipe, or no such column number.
        """
        name = os.fspath(name)
        match = _TSV.fullmatch(name)
        if match is None:
            file = cls(pathlib.Path(name))
        else:
            column = int(match["column"] or default_column)
            if column < 1:
                raise ValueError(f"{name}: columns are counted from 1")
            file = cls(pathlib.Path(match["path"]), column)
        if not file.path.exists():
            raise ValueError(f"{file.path}: no such file")
        if not file.path.is_file():
            raise ValueError(f"{file.path}: expected a file, as text is read more than once")
        return file

    def __str__(self) -> str:
        return str(self.path) if self.column is None else f"{self.path}:{self.column}"

    def lines(self) -> Iterator[str]:
        """The sentences one after the other.

        Raises:
            ValueError: a line is not UTF-8 or lacks the column; names the file and the line.
        """
        with open_text(self.path) as file:
            for number, line in enumerate(file, 1):
                if line.strip(b"\r"):  # else a last line without text or line feed
                    sentence = self.sentence(number, line)
                    yield self.prefix + sentence if sentence.strip() else sentence

    def sentence(self, number: int, line: bytes) -> str:
        """What the bytes of a line say, its column taken; `number` is for the messages.

        Raises:
            ValueError: the line is not UTF-8 or lacks the column; names the file and the line.
        """
        try:
            text = line.decode("utf-8").removesuffix("\n").replace("\r", "")
        except UnicodeDecodeError as error:
            raise ValueError(f"{self.path}:{number}: not UTF-8 ({error.reason})") from error
        if self.column is None:
            return text
        columns = text.split("\t")
        if len(columns) < self.column:
            raise ValueError(
                f"{self.path}:{number}: expected at least {self.column} columns separated by "
                f"tabs, got {len(columns)}"
            )
        return columns[self.column - 1]

    def dataset(self) -> "tf.data.Dataset":
        """The same sentences as a stream of string scalars, read as they are needed."""
        import tensorflow as tf

        if self.path.suffix == ".zst":  # TensorFlow does not read it
            return tf.data.Dataset.from_generator(
                self.lines, output_signature=tf.TensorSpec((), tf.string)
            )
        compression = "GZIP" if self.path.suffix == ".gz" else None
        # The name's bytes, which need not be UTF-8.
        lines = tf.data.TextLineDataset(os.fsencode(self.path), compression_type=compression)
        if self.column is not None:
            column = self.column - 1
            lines = lines.map(lambda line: tf.strings.split(line, "\t")[column])
        if self.prefix:
            lines = lines.map(
                lambda line: tf.where(tf.strings.strip(line) == "", line, self.prefix + line)
            )
        return lines


def digest(*files: TextFile | None) -> str:
    """BLAKE2 digest of the sentences of all files."""
    total = hashlib.blake2b(digest_size=16)
    for file in files:
        for line in file.lines() if file else ():
            total.update(line.encode() + b"\n")
        total.update(b"\f")
    return total.hexdigest()


def check_parallel(source: TextFile, target: TextFile) -> int:
    """Reads both files once and returns the number of sentence pairs.

    Raises:
        ValueError: the files differ in length or are empty, or a line is faulty.
    """
    counts = [0, 0]
    for pair in itertools.zip_longest(source.lines(), target.lines()):
        for side, line in enumerate(pair):
            counts[side] += line is not None
    if counts[0] != counts[1]:
        raise ValueError(
            "source and target must have one line for each other: "
            f"{source} has {counts[0]} lines, {target} has {counts[1]}"
        )
    if counts[0] == 0:
        both = f"{source} and {target} are" if source != target else f"{source} is"
        raise ValueError(f"{both} empty")
    return counts[0]

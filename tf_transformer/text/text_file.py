"""Text files: plain or compressed lines, or a column of a TSV file."""

import dataclasses
import os
import pathlib
import string
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tf_transformer.errors import InputError
from tf_transformer.text.reading import (
    COMPRESSED,
    MAX_LINE_BYTES,
    decode_line,
    has_mark,
    is_line,
    open_text,
    split_name,
)

if TYPE_CHECKING:  # reading without `dataset` must not import TensorFlow
    import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class TextFile:
    """A UTF-8 text file with one sentence per line.

    Lines end with a line feed; carriage returns are dropped, and the byte order mark at the
    beginning of the file.

    Args:
        path: the file; files that end in `.gz` or `.zst` are decompressed while reading.
        column: the column of a TSV file, counted from 1; None for other files.
        prefix: text to add before every sentence that is not blank, such as a language tag; blank
            are sentences of ASCII white space.
    """

    path: pathlib.Path
    column: int | None = None
    prefix: str = ""

    @classmethod
    def parse(cls, name: str | os.PathLike, default_column: int = 1) -> "TextFile":
        """Parses a file name of the command line, see `split_name`.

        Args:
            name: name of the file, with or without a column.
            default_column: column of a TSV file whose name has none.

        Raises:
            InputError: the file does not exist, is not a regular file, or the column is 0.
        """
        file = cls(*split_name(name, default_column))
        if not file.path.exists():
            raise InputError(f"{file.path}: no such file")
        if not file.path.is_file():
            raise InputError(f"{file.path}: expected a regular file, since it is read repeatedly")
        return file

    def __str__(self) -> str:
        return str(self.path) if self.column is None else f"{self.path}:{self.column}"

    def lines(self) -> Iterator[str]:
        """Yields the sentences.

        Raises:
            InputError: a line is not text, is too long or lacks the column, see `decode_line`; the
                message names file and line.
        """
        with open_text(self.path) as file:
            # One byte for the line feed, and one more to recognize lines that are too long.
            lines = iter(lambda: file.readline(MAX_LINE_BYTES + 2), b"")
            for line_number, line in enumerate(lines, 1):
                if is_line(line, line_number):
                    text = self.decode_line(line_number, line)
                    yield self.prefix + text if text.strip(string.whitespace) else text

    def decode_line(self, line_number: int, line: bytes) -> str:
        """Returns the text of a line, or of the column, without the prefix.

        Args:
            line_number: number of the line, for the error message.
            line: the bytes.

        Raises:
            InputError: as for `lines`.
        """
        return decode_line(line, self.path, line_number, self.column)

    def dataset(self) -> "tf.data.Dataset":
        """Returns the sentences of `lines` as a dataset of string scalars."""
        import tensorflow as tf

        # TensorFlow cannot read zstd. Its reader of gzip ends at an empty member, such as bgzip's
        # end marker within concatenated files, and refuses padding. It takes a byte order mark for
        # text.
        if self.path.suffix in COMPRESSED or has_mark(self.path):
            return tf.data.Dataset.from_generator(
                self.lines, output_signature=tf.TensorSpec((), tf.string)
            )
        # As bytes, because file names need not be UTF-8.
        lines = tf.data.TextLineDataset(os.fsencode(self.path))
        if self.column is not None:
            column = self.column - 1
            lines = lines.map(lambda line: tf.strings.split(line, "\t")[column])
        if self.prefix:
            lines = lines.map(
                lambda line: tf.where(tf.strings.strip(line) == "", line, self.prefix + line)
            )
        return lines

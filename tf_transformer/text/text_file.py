"""Text files as they come: plain or compressed lines, or a column of a TSV file."""

import dataclasses
import os
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tf_transformer.errors import InputError
from tf_transformer.text.reading import MAX_LINE_BYTES, open_text, sentence, split_name

if TYPE_CHECKING:  # reading alone does not wait for it
    import tensorflow as tf


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
        """Reads a name as the command line has it, see `split_name`.

        Raises:
            ValueError: there is no such file, it is a folder or a pipe, or no such column number.
        """
        file = cls(*split_name(name, default_column))
        if not file.path.exists():
            raise InputError(f"{file.path}: no such file")
        if not file.path.is_file():
            raise InputError(f"{file.path}: expected a file, as text is read more than once")
        return file

    def __str__(self) -> str:
        return str(self.path) if self.column is None else f"{self.path}:{self.column}"

    def lines(self) -> Iterator[str]:
        """The sentences one after the other.

        Raises:
            ValueError: a line is not text, is too long or lacks the column, see `sentence`; names
                the file and the line.
        """
        with open_text(self.path) as file:
            # One byte for the line feed, and one by which a line is too long.
            lines = iter(lambda: file.readline(MAX_LINE_BYTES + 2), b"")
            for number, line in enumerate(lines, 1):
                if line.strip(b"\r"):  # else a last line without text or line feed
                    text = self.sentence(number, line)
                    yield self.prefix + text if text.strip() else text

    def sentence(self, number: int, line: bytes) -> str:
        """What the bytes of a line say, its column taken; `number` is for the messages.

        Raises:
            ValueError: as `lines` does.
        """
        return sentence(line, f"{self.path}:{number}", self.column)

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

"""Where the answers to lines of text are written, batch by batch."""

import contextlib
import os
import pathlib
import sys
from collections.abc import Iterator
from typing import BinaryIO

from export.commands.line_batches import Lines
from tf_transformer.command_line.standard_streams import STANDARD_OUTPUT, standard_output
from tf_transformer.errors import InputError
from tf_transformer.storage.files import bring_to_disk, check_writable, naming
from tf_transformer.text.lines import for_terminal


def output_path(name: str) -> pathlib.Path | None:
    """The type of an option that names an output; `-` is standard output, as None is."""
    return None if name == "-" else pathlib.Path(name)


def check_output(path: pathlib.Path | None, lines: Lines) -> None:
    """Refuses what `open_output` could not write, or what is being read.

    Raises:
        OSError: see `check_writable`; or standard output, in place of None, is closed.
        ValueError: the file that is written, or grows beside it, is the input.
    """
    if path is None:
        standard_output()
        output = sys.__stdout__
        written = [] if output is None else [os.fstat(output.fileno())]
    else:
        check_writable(path)
        written = [place.stat() for place in (path, _partial(path)) if place.exists()]
    read = lines.status()
    if read and any(os.path.samestat(read, status) for status in written):
        # Standard output could be appended to it, without end.
        name = STANDARD_OUTPUT if path is None else f"--output {path}"
        raise InputError(f"{name} is the input; expected another file")


@contextlib.contextmanager
def open_output(path: pathlib.Path | None) -> Iterator[BinaryIO]:
    """Opens what a run writes batch by batch; None stands for standard output.

    A file grows under the name `F.partial` and takes its own when it is whole, so that a former
    one survives until then, and what was done survives a stop.

    Raises:
        OSError: as opening and writing do, with the name of the file.
    """
    if path is None:
        yield standard_output()
        return
    with naming(path):
        if path.exists() and not path.is_file():  # a pipe, a device
            with path.open("wb") as output:
                yield output
            return
        partial = _partial(path)
        with partial.open("wb") as output:
            yield output
        bring_to_disk(partial)
        partial.replace(os.path.realpath(path))


def write_line(output: BinaryIO, line: str) -> None:
    """Writes a line; control characters reach files and pipes, and are escaped on a terminal."""
    output.write(f"{for_terminal(line) if output.isatty() else line}\n".encode())


def _partial(path: pathlib.Path) -> pathlib.Path:
    real = pathlib.Path(os.path.realpath(path))
    return real.with_name(f"{real.name}.partial")

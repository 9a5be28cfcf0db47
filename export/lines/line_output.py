"""Writes the results for lines of text, batch by batch."""

import contextlib
import fcntl
import os
import pathlib
import stat
import sys
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from export.lines.line_batches import Lines
from tf_transformer.command_line.command_options import file_path
from tf_transformer.command_line.standard_streams import STANDARD_OUTPUT, standard_output
from tf_transformer.errors import InputError
from tf_transformer.storage.files import check_writable, name_in_errors, sync_to_disk
from tf_transformer.storage.output_files import check_output_file
from tf_transformer.text.lines import escape_control_characters


def output_path(name: str) -> pathlib.Path | None:
    """Converts the argument of an output option; `-` becomes None, which is standard output."""
    return None if name == "-" else file_path(name)


def check_output(
    path: pathlib.Path | None,
    lines: Lines,
    model_dirs: Sequence[pathlib.Path] = (),
    inputs: Sequence[str | pathlib.Path | None] = (),
) -> None:
    """Checks that `open_output` can write the output, and that it replaces nothing that is read.

    Args:
        path: the output; None is standard output.
        lines: the input.
        model_dirs: the model directories that are read.
        inputs: other files that are read; None is no file.

    Raises:
        OSError: the file is not writable, see `check_writable`, or standard output is closed.
        InputError: the output, or its `.partial` file, is an input or a file of the model, or the
            latter is a link, a pipe or a folder.
    """
    if path is None:
        standard_output()
        output = sys.__stdout__
        written = [] if output is None else [os.fstat(output.fileno())]
    else:
        check_writable(path)
        read_files = [pathlib.Path(name) for name in inputs if name is not None]
        for file in (path, partial_path(path)):
            check_output_file("--output", file, model_dirs, read_files)
        written = [file.stat() for file in (path, partial_path(path)) if file.exists()]
    read = lines.status()
    if read and any(os.path.samestat(read, status) for status in written):
        # With standard output appended to the input, the run would never end.
        name = STANDARD_OUTPUT if path is None else f"--output {path}"
        raise InputError(f"{name} is the input; expected another file")
    if path is not None and not is_special(path):
        _check_partial(partial_path(path))


@contextlib.contextmanager
def open_output(path: pathlib.Path | None, num_kept: int = 0) -> Iterator[BinaryIO]:
    """Opens an output that is written batch by batch; None is standard output.

    A file is written as `F.partial` and renamed to `F` when it is complete. Until then an existing
    `F` is kept, and after an interruption the results so far are in `F.partial`.

    Args:
        path: the output.
        num_kept: how many bytes of a former `F.partial` to keep.

    Raises:
        InputError: another process writes the same output.
        OSError: opening or writing failed; the message names the file.
    """
    if path is None:
        yield standard_output()
        return
    with name_in_errors(path):
        if is_special(path):
            with path.open("wb") as output:
                yield output
            return
        partial = partial_path(path)
        _check_partial(partial)
        with open(partial, "ab", opener=_open_no_link) as output:
            _lock(output, partial)
            if output.tell() < num_kept:
                raise InputError(f"{partial} has become shorter; another process has changed it")
            output.truncate(num_kept)
            output.seek(num_kept)
            yield output
        sync_to_disk(partial)
        partial.replace(os.path.realpath(path))


def _lock(output, path):
    """Locks an open file, since two processes would mix their results in it."""
    try:
        fcntl.flock(output, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_same = os.path.samestat(os.fstat(output.fileno()), path.stat())
    except (BlockingIOError, FileNotFoundError):
        is_same = False  # it has just been renamed
    except OSError:
        return  # a file system without locks
    if not is_same:
        raise InputError(f"{path}: another process is writing it")


def write_line(output: BinaryIO, line: str) -> None:
    """Writes a line, with control characters escaped if the output is a terminal."""
    output.write(f"{escape_control_characters(line) if output.isatty() else line}\n".encode())


def is_special(path: pathlib.Path) -> bool:
    """Returns whether an output is a pipe or a device, which is written at once."""
    return path.exists() and not path.is_file()


def _check_partial(partial: pathlib.Path) -> None:
    """Checks that nothing but a former output is replaced: nobody has named this file."""
    if os.path.lexists(partial) and not stat.S_ISREG(partial.lstat().st_mode):
        raise InputError(
            f"{partial}: expected a file or nothing, for the output until it is complete; remove it"
        )


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def partial_path(path: pathlib.Path) -> pathlib.Path:
    """Returns the name of an output until it is complete."""
    real = pathlib.Path(os.path.realpath(path))
    return real.with_name(f"{real.name}.partial")

"""Standard input and output of a command, which its caller may have closed."""

import io
import os
import sys
from typing import BinaryIO, cast

from tf_transformer.storage.files import name_in_errors

STANDARD_INPUT = "standard input"
STANDARD_OUTPUT = "standard output"


def open_standard_streams() -> None:
    """Prepares the standard streams for a command.

    Replaces closed streams by the null device, so that no other file gets their descriptors and
    printing does not fail. Standard output is line-buffered, for log files, escapes file names that
    are not UTF-8, and has its name in its errors. Progress bars of tqdm, if it is not imported yet,
    are also shown on a terminal that does not tell its size.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115, they stay open
    output = sys.__stdout__
    if output is not None and output is sys.stdout:
        raw = _NamedOutput(output.fileno(), "w", closefd=False)
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), output.encoding)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")
    _give_bars_a_size()


def _give_bars_a_size():
    """Sets a size for tqdm, which draws nothing on a terminal without lines and columns.

    Such are the terminals of programs that start others and of some containers.
    """
    try:
        size = os.get_terminal_size(sys.stderr.fileno())
    except (OSError, ValueError):  # not a terminal; no file
        return
    if size.columns < 1 or size.lines < 1:
        os.environ.setdefault("TQDM_NCOLS", "80")
        os.environ.setdefault("TQDM_NROWS", "24")


class _NamedOutput(io.FileIO):
    def write(self, data):
        with name_in_errors(STANDARD_OUTPUT):
            return super().write(data)


def give_up_standard_output() -> None:
    """Discards unwritten output, so that writing it does not fail again when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def standard_input() -> io.BufferedIOBase:
    """Returns standard input as a binary stream.

    Raises:
        OSError: it was closed when the process started.
    """
    if sys.__stdin__ is None:
        raise OSError("standard input is closed; expected text there, or a file for --input")
    return cast(io.BufferedIOBase, sys.stdin.buffer)


def standard_output() -> BinaryIO:
    """Returns standard output as a binary stream, for results.

    Raises:
        OSError: it was closed when the process started.
    """
    if sys.__stdout__ is None:
        raise OSError("standard output is closed; expected an open one for the result")
    return sys.stdout.buffer

"""Standard input and standard output of a command, which its caller may have closed."""

import io
import os
import sys
from typing import BinaryIO, cast

from tf_transformer.storage.files import naming

STANDARD_INPUT = "standard input"
STANDARD_OUTPUT = "standard output"


def open_standard_streams() -> None:
    """Makes the standard streams fit for a command.

    The null device takes the place of a closed one, so that no other file gets its descriptor and
    reports can be printed. Errors of standard output name it. It is written line by line, for log
    files, and shows file names that are not text.
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


class _NamedOutput(io.FileIO):
    def write(self, data):
        with naming(STANDARD_OUTPUT):
            return super().write(data)


def give_up_standard_output() -> None:
    """Discards what could not be written, so that it does not fail again when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def standard_input() -> io.BufferedIOBase:
    """Returns the bytes of standard input.

    Raises:
        OSError: it was closed when the process started.
    """
    if sys.__stdin__ is None:
        raise OSError("standard input is closed; expected text there, or a file as --input")
    return cast(io.BufferedIOBase, sys.stdin.buffer)


def standard_output() -> BinaryIO:
    """Returns where the bytes of a result go.

    Raises:
        OSError: it was closed when the process started.
    """
    if sys.__stdout__ is None:
        raise OSError("standard output is closed; expected a place for the result there")
    return sys.stdout.buffer

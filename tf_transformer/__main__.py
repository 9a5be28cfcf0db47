"""The command `tf-transformer`, which runs the commands of `training` and `export`."""

import argparse
import contextlib
import os
import signal
import sys

from tf_transformer import __version__
from tf_transformer.command_line.interruption import Interrupted
from tf_transformer.command_line.standard_streams import (
    STANDARD_OUTPUT,
    give_up_standard_output,
    open_standard_streams,
)
from tf_transformer.errors import InputError
from tf_transformer.printable import printable
from tf_transformer.tensorflow_messages import hide_messages

# Messages can contain untrusted text, such as names of files.
_MAX_MESSAGE_LENGTH = 4000


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line; its results have a function `run`."""
    from export.commands import cli as export_cli
    from training.commands import cli as training_cli

    parser = _Parser(
        prog="tf-transformer",
        description="The Transformer for sequence-to-sequence work in TensorFlow and Keras.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    training_cli.add_commands(commands)
    export_cli.add_commands(commands)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Runs one command.

    Args:
        arguments: the command line; None means `sys.argv`.

    Returns:
        The exit status: 0, 1 if the reader of standard output has closed it, 2 for expected errors,
        128 and the signal's number if a signal has ended the command, as 130 for Ctrl-C.
    """
    # TensorFlow's log reports every missing accelerator as an error. Real errors are exceptions.
    hide_messages("3")
    # Overrides keras.json, because the commands need TensorFlow.
    os.environ["KERAS_BACKEND"] = "tensorflow"
    open_standard_streams()
    try:
        try:
            options = make_parser().parse_args(arguments)
            return options.run(options) or 0
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt as error:
        signum = error.signum if isinstance(error, Interrupted) else signal.SIGINT
        by = f" by {signum.name}" if isinstance(error, Interrupted) else ""
        with contextlib.suppress(OSError):  # a closed terminal
            print(f"tf-transformer: interrupted{by}", file=sys.stderr)
        return 128 + signum
    except Exception as error:
        if isinstance(error, OSError) and error.filename == STANDARD_OUTPUT:
            give_up_standard_output()
            if isinstance(error, BrokenPipeError):  # the reader has closed the pipe
                return 1
        if not _is_expected(error):
            raise
        message = printable(_in_one_line(error), _MAX_MESSAGE_LENGTH)
        print(f"tf-transformer: error: {message}", file=sys.stderr)
        return 2


class _Parser(argparse.ArgumentParser):
    """A parser that reports errors in one line, also for subcommands."""

    def error(self, message):
        message = printable(message, _MAX_MESSAGE_LENGTH)
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def _is_expected(error: Exception) -> bool:
    """Returns whether an error is caused by input, files or disks, and not by a bug.

    TensorFlow reports a full disk or insufficient memory as exhausted resources. File names that
    are not UTF-8 are strings that cannot be encoded.
    """
    if isinstance(error, UnicodeEncodeError):
        return "surrogates" in error.reason
    is_exhausted = type(error).__name__ == "ResourceExhaustedError"
    return isinstance(error, InputError | OSError) or is_exhausted


def _in_one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        name = f"{error.filename}: " if error.filename else ""
        return f"{name}{error.strerror[0].lower()}{error.strerror[1:]}"
    if isinstance(error, UnicodeEncodeError):
        return f"expected a name in UTF-8, got {error.object!r}"
    return str(error)


if __name__ == "__main__":
    sys.exit(main())

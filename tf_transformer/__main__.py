"""The command `tf-transformer`: hands over to the commands of the packages."""

import argparse
import os
import sys

from tf_transformer import __version__
from tf_transformer.command_line.standard_streams import (
    STANDARD_OUTPUT,
    give_up_standard_output,
    open_standard_streams,
)
from tf_transformer.errors import InputError
from tf_transformer.printable import printable

# Names of files and whatever else a message holds may come from elsewhere.
_LONGEST_MESSAGE = 4000


def make_parser() -> argparse.ArgumentParser:
    """The command line; what it parses has the function to `run`."""
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
    """Runs one command and returns the exit status: 0, 2 for expected errors, 130 for Ctrl-C."""
    # Read by TensorFlow when it is imported. What matters comes as an exception; its log of errors
    # also names every accelerator that is not there.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # Read by Keras, before its own keras.json; the commands need TensorFlow, whatever else runs on
    # this machine.
    os.environ["KERAS_BACKEND"] = "tensorflow"
    open_standard_streams()
    try:
        try:
            options = make_parser().parse_args(arguments)
            return options.run(options) or 0
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        print("tf-transformer: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if isinstance(error, OSError) and error.filename == STANDARD_OUTPUT:
            give_up_standard_output()
            if isinstance(error, BrokenPipeError):  # its reader has gone; nobody is left to tell
                return 1
        if not _is_expected(error):
            raise
        message = printable(_in_one_line(error), _LONGEST_MESSAGE)
        print(f"tf-transformer: error: {message}", file=sys.stderr)
        return 2


class _Parser(argparse.ArgumentParser):
    """Reports a wrong command line in one line; subcommands inherit it."""

    def error(self, message):
        message = printable(message, _LONGEST_MESSAGE)
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def _is_expected(error: Exception) -> bool:
    """True for faults of input, files and disks; others are ours and deserve a traceback.

    TensorFlow reports a full disk, and memory that does not suffice, as exhausted resources. Names
    of files that are not UTF-8 are strings that cannot be encoded.
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

"""The command line options of `export.Client`, which also defines their defaults."""

import argparse
from typing import Any

from tf_transformer.command_line.command_options import text
from tf_transformer.errors import InputError

_NAMES = ("model", "protocol", "max_batch_size", "deadline")


def add_client_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of requests to a server, without its address."""
    parser.add_argument(
        "--protocol", choices=("rest", "grpc"), help="protocol of the server (default: rest)",
    )  # fmt: skip
    parser.add_argument(
        "--model", type=text, metavar="NAME",
        help="name of the model on the server (default: translator)",
    )  # fmt: skip
    parser.add_argument(
        "--max-batch-size", type=int, metavar="N",
        help="maximum sentences per request, at most the server's own limit (default: 32)",
    )  # fmt: skip
    parser.add_argument(
        "--deadline", type=float, metavar="S",
        help="seconds for a request to the server, including all retries (default: 60)",
    )  # fmt: skip


def check_client_options(options: argparse.Namespace) -> None:
    """Checks that the options are given for a server.

    Raises:
        InputError: they are given without one.
    """
    for name in parse_client_options(options):
        if options.server is None:
            raise InputError(f"--{name.replace('_', '-')} is valid only with --server")


def parse_client_options(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the options that were given, as arguments of `Client` by name."""
    given = {name: getattr(options, name) for name in _NAMES}
    return {name: value for name, value in given.items() if value is not None}

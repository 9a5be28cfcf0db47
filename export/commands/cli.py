"""The commands of this package, in the order of `--help`."""

import argparse

from export.commands import (
    align_cli,
    back_translate_cli,
    complete_cli,
    convert_cli,
    distill_cli,
    export_cli,
    identify_cli,
    import_cli,
    translate_cli,
    web_cli,
)

_MODULES = (
    translate_cli,
    distill_cli,
    back_translate_cli,
    align_cli,
    complete_cli,
    identify_cli,
    export_cli,
    web_cli,
    import_cli,
    convert_cli,
)


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parsers of all commands."""
    for module in _MODULES:
        module.add_commands(commands)

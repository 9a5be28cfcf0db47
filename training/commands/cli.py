"""The commands of this package, in the order of `--help`."""

import argparse

from training.commands import (
    attention_cli,
    average_cli,
    compare_cli,
    data_service_cli,
    demo_cli,
    evaluate_cli,
    picture_cli,
    plan_cli,
    prepare_cli,
    restore_cli,
    runs_cli,
    train_cli,
    train_confidence_cli,
    train_language_id_cli,
    train_shortlist_cli,
    tune_cli,
)

_MODULES = (
    demo_cli,
    train_cli,
    restore_cli,
    average_cli,
    train_shortlist_cli,
    train_confidence_cli,
    train_language_id_cli,
    evaluate_cli,
    compare_cli,
    prepare_cli,
    data_service_cli,
    plan_cli,
    tune_cli,
    runs_cli,
    attention_cli,
    picture_cli,
)


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parsers of all commands."""
    for module in _MODULES:
        module.add_commands(commands)

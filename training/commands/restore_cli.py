"""The command that downloads a backup of a model directory: restore."""

import argparse
import logging
import sys

from tf_transformer.command_line.command_options import add_model_dir
from tf_transformer.errors import InputError
from tf_transformer.storage.files import check_folder, locked


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parser of `restore`."""
    parser = commands.add_parser(
        "restore",
        help="download the model directory that `train --backup` has uploaded",
        description="Downloads the newest complete state of a training run from object storage "
        "into a new model directory, and compares sizes and digests. To resume training, no "
        "restore is needed: `train --backup` does it.",
    )
    parser.add_argument(
        "--backup", required=True, metavar="URL",
        help="the backup, such as gs://bucket/run or s3://bucket/run",
    )  # fmt: skip
    add_model_dir(parser, "the model directory to write")
    parser.set_defaults(run=_run)


def _run(options):
    from training.backup.backup import Backup
    from training.backup.object_store import check_backup_url
    from training.checkpointing.run_files import check_run_files

    check_backup_url(options.backup)
    check_folder(options.model_dir)
    if options.model_dir.exists() and any(options.model_dir.glob("[!.]*")):
        raise InputError(f"{options.model_dir}: expected a new or empty folder")
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    backup = Backup(options.backup, options.model_dir)
    options.model_dir.mkdir(parents=True, exist_ok=True)
    with locked(options.model_dir, "training this model"):
        check_run_files(options.model_dir)
        step = backup.restore(None)
    if step is None:
        raise InputError(f"{options.backup}: no checkpoint has been uploaded")
    print(f"Restored step {step}: {options.model_dir}")

"""The files that training writes in its model directory."""

import pathlib

from tf_transformer.errors import InputError
from tf_transformer.storage.adapter_file import ADAPTER_NAME
from tf_transformer.storage.json_files import read_json
from tf_transformer.storage.model_dir import CONFIG_NAME, WEIGHTS_NAME
from tf_transformer.storage.own_files import check_own_file, check_own_folder
from training.checkpointing.best_checkpoints import best_directory
from training.checkpointing.checkpoint_files import checkpoint_directory
from training.checkpointing.validation_history import SCORES_NAME
from training.fine_tuning import INITIAL_NAME
from training.prepared.prepared_folder import SPM_NAMES
from training.recorded_config import TRAINING_NAME

LOGS_NAME = "logs"
PICTURE_NAME = "training.png"

_FILES = (
    *(CONFIG_NAME, *SPM_NAMES, WEIGHTS_NAME, ADAPTER_NAME),
    *(TRAINING_NAME, SCORES_NAME, PICTURE_NAME),
)


def check_run_files(model_dir: pathlib.Path) -> None:
    """Checks, before anything is written, that no file of a run is a link or a special file.

    Raises:
        InputError: a file is a link or a special file, or of something else than a run; the message
            names the first one.
    """
    for name in _FILES:
        check_own_file(model_dir / name)
    for folder in (checkpoint_directory(model_dir), best_directory(model_dir)):
        check_own_folder(folder)
    for name in (LOGS_NAME, INITIAL_NAME):
        check_own_folder(model_dir / name)
    _check_no_other_files(model_dir)


def _check_no_other_files(model_dir):
    """Refuses files that no run has written; a run writes `training.json` first."""
    if (model_dir / CONFIG_NAME).exists():  # `start_or_resume` looks at what it belongs to
        return
    record = model_dir / TRAINING_NAME
    if record.exists():
        try:
            read_json(record)
        except ValueError as error:
            raise InputError(
                f"{record}: expected the record of a training run; give another --model-dir"
            ) from error
        return
    for name in _FILES:
        if (model_dir / name).exists():
            raise InputError(
                f"{model_dir / name} is not of a training run; give a new or empty --model-dir"
            )

"""The files that training writes in its model directory."""

import pathlib

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

_FILES = (CONFIG_NAME, *SPM_NAMES, WEIGHTS_NAME, TRAINING_NAME, SCORES_NAME, PICTURE_NAME)


def check_run_files(model_dir: pathlib.Path) -> None:
    """Checks, before anything is written, that no file of a run is a link or a special file.

    Raises:
        InputError: a file is a link or a special file; the message names the first one.
    """
    for name in _FILES:
        check_own_file(model_dir / name)
    for folder in (checkpoint_directory(model_dir), best_directory(model_dir)):
        check_own_folder(folder)
    for name in (LOGS_NAME, INITIAL_NAME):
        check_own_folder(model_dir / name)

"""The training settings that a model directory records."""

import pathlib

from tf_transformer.errors import InputError
from tf_transformer.storage.json_files import read_json
from training.config import TrainingConfig
from training.settings import make_config

TRAINING_NAME = "training.json"


def read_training_config(model_dir: pathlib.Path) -> TrainingConfig | None:
    """Returns the settings that a model was trained with; None if the directory records none.

    Raises:
        InputError: the file of settings is damaged.
    """
    path = model_dir / TRAINING_NAME
    if not path.exists():
        return None
    try:
        return make_config(read_json(path)["settings"])
    except (ValueError, TypeError, KeyError) as error:
        # An error of the file names it, too.
        is_input = isinstance(error, InputError)
        reason = str(error).removeprefix(f"{path}: ") if is_input else repr(error)
        raise InputError(f"{path}: damaged ({reason[:400]})") from error

"""What a model directory says of how its model was trained."""

import pathlib

from tf_transformer.errors import InputError
from tf_transformer.storage.json_files import read_json
from training.config import TrainingConfig
from training.settings import make_config

TRAINING_NAME = "training.json"


def trained_config(model_dir: pathlib.Path) -> TrainingConfig | None:
    """The settings of the run that trains a model; None for a model from elsewhere.

    Raises:
        ValueError: the file that says so is damaged.
    """
    path = model_dir / TRAINING_NAME
    if not path.exists():
        return None
    try:
        return make_config(read_json(path)["settings"])
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path}: damaged ({repr(error)[:400]})") from error

"""What a model directory says of how its model was trained."""

import json
import pathlib

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
        return make_config(json.loads(path.read_text(encoding="utf-8"))["settings"])
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path}: damaged ({error!r})") from error

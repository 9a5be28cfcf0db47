"""The weights of a model directory: those of training, or the mean of checkpoints."""

import pathlib

import keras

from tf_transformer.models.lora import adapted_layers
from tf_transformer.storage.adapter_file import ADAPTER_NAME, write_adapter
from tf_transformer.storage.model_dir import make_model, read_config, write_weights
from training.checkpointing.checkpoints import average_checkpoints, check_averageable
from training.recorded_config import read_training_config
from training.trained_weights import all_shapes, choose_trained


def write_weights_and_adapter(model_dir: pathlib.Path, model: keras.Model) -> None:
    """Writes the model's weights, with those of LoRA merged, and these in a file of their own."""
    write_weights(model_dir, model)
    if adapted_layers(model):
        write_adapter(model_dir / ADAPTER_NAME, model)


def write_average(model_dir: pathlib.Path, paths: list[str]) -> list[int]:
    """Sets the model's weights to the mean of the weights of checkpoints, which are unchanged.

    Args:
        model_dir: the model directory, which no other process may be training.
        paths: paths of the checkpoints without suffix.

    Returns:
        The steps of the checkpoints.

    Raises:
        InputError: a checkpoint is damaged, or of another model.
    """
    config, recorded = read_config(model_dir), read_training_config(model_dir)
    # Before memory is allocated for the model.
    check_averageable(paths, all_shapes(recorded, config))
    model = make_model(config)
    if recorded:
        choose_trained(model, recorded)
    steps = average_checkpoints(paths, model)
    write_weights_and_adapter(model_dir, model)
    return steps

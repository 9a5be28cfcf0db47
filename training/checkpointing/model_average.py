"""The mean of several models that were trained on from the same one, a "model soup".

theta = sum_k w_k theta_k, with weights w_k that sum to 1 (Wortsman et al., 2022, section 2). Such
models differ in data, order or dropout, and their mean is often as good as their ensemble, at the
cost of one model. The mean of models with different initial weights is none.
"""

import dataclasses
import math
import pathlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from tf_transformer.config import TransformerConfig
from tf_transformer.errors import InputError
from tf_transformer.storage.model_dir import WEIGHTS_NAME, read_config, write_config_and_tokenizers
from tf_transformer.storage.new_folder import new_folder
from tf_transformer.storage.trained_models import TrainedModels
from tf_transformer.storage.weight_shapes import weight_shapes
from tf_transformer.storage.weights_file import check_finite, read_arrays, write_arrays

# They change training only, or how long an input may be; those of the result are the first model's.
_MAY_DIFFER = ("dropout_rate", "attention_dropout_rate", "feed_forward_dropout_rate", "max_length")
# Cosine of two models' matrices: 0.01 to 0.02 with different initial weights, 0.88 to 0.97 between
# models that were trained on from the same one, or from one another (the lab notebook).
_LEAST_COSINE = 0.3


def write_model_average(models: TrainedModels, model_dir: pathlib.Path) -> None:
    """Writes a model directory with the mean of models' weights.

    It appears under its name when it is complete. Memory holds a weight of each model at a time.

    Args:
        models: the models, with their weights in the mean.
        model_dir: the model directory to write, see `check_new_folder`.

    Raises:
        InputError: a model is damaged, they differ in vocabularies or settings, weights are not
            finite, or the models have too little in common.
    """
    config = _common_config(models)
    source, target = models.check()
    shapes = weight_shapes(config)
    readers = [read_arrays(folder / WEIGHTS_NAME, shapes) for folder in models.directories]
    comparison = _Comparison(len(readers))
    with new_folder(model_dir) as folder:
        write_config_and_tokenizers(folder, config, source.model if source else None, target.model)
        means = _means(readers, models.member_weights(), models.directories, comparison)
        write_arrays(folder / WEIGHTS_NAME, shapes, means)
        comparison.check(models.directories)


def _common_config(models: TrainedModels) -> TransformerConfig:
    first, *others = (read_config(folder) for folder in models.directories)
    for folder, config in zip(models.directories[1:], others, strict=True):
        for field in dataclasses.fields(config):
            values = [getattr(each, field.name) for each in (first, config)]
            if values[0] != values[1] and field.name not in _MAY_DIFFER:
                raise InputError(
                    f"{models.directories[0]} and {folder} have different models: {field.name} is "
                    f"{values[0]} and {values[1]}; a mean needs models that were trained on from "
                    "the same one"
                )
    return dataclasses.replace(first, max_length=models.config().max_length)


def _means(
    readers: Sequence[Iterable[tuple[str, np.ndarray]]],
    weights: Sequence[float],
    directories: Sequence[pathlib.Path],
    comparison: "_Comparison",
) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the name and the mean of each weight."""
    for named in zip(*readers, strict=True):
        name = named[0][0]
        arrays = [array.astype(np.float64) for _, array in named]
        for array, folder in zip(arrays, directories, strict=True):
            check_finite(name, array, folder / WEIGHTS_NAME)
        comparison.add(arrays)
        yield name, np.average(arrays, axis=0, weights=weights)


class _Comparison:
    """The cosines between the matrices of the first model and those of each other one."""

    def __init__(self, number: int):
        self._products, self._squares = np.zeros(number), np.zeros(number)

    def add(self, arrays: Sequence[np.ndarray]) -> None:
        if arrays[0].ndim > 1:  # scales of layer normalization are alike in all models
            self._products += [np.vdot(arrays[0], array) for array in arrays]
            self._squares += [np.vdot(array, array) for array in arrays]

    def check(self, directories: Sequence[pathlib.Path]) -> None:
        for folder, product, square in zip(directories, self._products, self._squares, strict=True):
            cosine = product / max(math.sqrt(self._squares[0] * square), 1e-300)
            if cosine < _LEAST_COSINE:
                raise InputError(
                    f"{directories[0]} and {folder} have too little in common (the cosine of their "
                    f"weights is {cosine:.2f}, at least {_LEAST_COSINE} is needed); a mean needs "
                    "models that were trained on from the same one, and not far. Others make an "
                    "ensemble: `--model-dir` with several models"
                )

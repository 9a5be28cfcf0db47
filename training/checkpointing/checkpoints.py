"""Checkpoints of the whole training state, and averaging the weights of checkpoints."""

import errno
import logging
import math
import os
import pathlib
import shutil
from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from tf_transformer.command_line.progress import progress_bar
from tf_transformer.errors import InputError
from tf_transformer.storage.checkpoint_names import BETWEEN
from tf_transformer.storage.files import sync_to_disk
from tf_transformer.storage.own_files import make_own_folder
from tf_transformer.storage.regular_files import stored_bytes
from tf_transformer.storage.weight_shapes import Shapes
from tf_transformer.storage.weights_file import check_finite
from training.checkpointing.checkpoint_files import (
    checkpoint_directory,
    checkpoint_files,
    checkpoint_paths,
    files_without_index,
    step_of,
    tensorflow_path,
)

_log = logging.getLogger(__name__)

# Errors that TensorFlow raises for a damaged checkpoint, or one with other variables.
_UNREADABLE = (AssertionError, LookupError, ValueError, tf.errors.OpError, DecodeError)
# Key of the object graph, which TensorFlow stores in every checkpoint.
_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"


class Checkpoints:
    """The most recent checkpoints of a training run, in `model_dir/checkpoints`.

    A checkpoint holds the weights, their moving averages if any, the states of the dropout seeds,
    and the optimizer's state with the number of steps done. Its files are written to a temporary
    folder, flushed to disk and renamed, the index last: saving is atomic, and an interrupted save
    leaves earlier checkpoints unchanged.

    Args:
        model_dir: the model directory.
        model: the compiled model, with a built optimizer.
        keep: number of most recent regular checkpoints to keep. A checkpoint between two regular
            steps, where a run was stopped, does not count and is removed by the next save. A marker
            file records that it is one, because `every` may change.
        every: regular steps are the multiples of this.
        is_writer: whether this process writes checkpoints; False only reads them.
    """

    def __init__(
        self,
        model_dir: pathlib.Path,
        model: keras.Model,
        keep: int,
        every: int,
        *,
        is_writer: bool = True,
    ):
        self._directory = checkpoint_directory(model_dir)
        self._writing = self._directory / "writing"
        self._keep, self._every = keep, every
        self._is_writer = is_writer
        self._optimizer = model.optimizer
        self._trained = [*model.weights, *model.optimizer.variables]
        weights, state = _weights_and_state(model)
        averages = [average.value for average in model.optimizer.averages]
        optimizer = [variable.value for variable in model.optimizer.variables]
        # Lists of variables: tf.train.Checkpoint(model=...) would lose layers held in lists.
        self._variables = {
            "weights": weights,
            "state": state,
            "averages": averages,
            "optimizer": _without(optimizer, averages),
        }
        self._checkpoint = tf.train.Checkpoint(**self._variables)

    def save(self, step: int) -> None:
        """Writes the state after `step` updates.

        Raises:
            OSError: the disk is full or fails; earlier checkpoints are unchanged.
        """
        try:
            make_own_folder(self._directory)
            shutil.rmtree(self._writing, ignore_errors=True)
            make_own_folder(self._writing)
            self._checkpoint.write(str(self._writing / f"step-{step}"))
            if step % self._every:
                (self._writing / f"step-{step}{BETWEEN}").touch()
            for path in checkpoint_files(self._writing, step):
                sync_to_disk(path)
                os.replace(path, self._directory / path.name)
        except tf.errors.ResourceExhaustedError as error:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._directory)) from error
        except tf.errors.OpError as error:
            reason = " ".join(str(error.message).split())[:200]
            raise OSError(f"{self._directory}: cannot be written ({reason})") from error
        finally:
            self._remove_leftovers()
        self._remove_outdated()
        _write_checkpoint_state(self._directory)

    def _remove_outdated(self):
        paths = checkpoint_paths(self._directory)
        steps = [step_of(path) for path in paths]
        regular = [step_of(path) for path in paths if not os.path.exists(path + BETWEEN)]
        for step in set(steps) - {steps[-1], *regular[-self._keep :]}:
            for path in reversed(checkpoint_files(self._directory, step)):
                path.unlink()

    def _remove_leftovers(self) -> None:
        """Removes the files of interrupted saves and removals."""
        shutil.rmtree(self._writing, ignore_errors=True)
        for path in files_without_index(self._directory):
            path.unlink()

    def restore(self) -> bool:
        """Restores the newest intact checkpoint.

        Newer damaged checkpoints are renamed to `damaged-step-*`, and the files of interrupted
        saves are removed.

        Returns:
            Whether there was a checkpoint.

        Raises:
            InputError: all checkpoints are damaged or of another model, or the newest intact one
                holds values that are not finite. No file is changed then.
        """
        paths = checkpoint_paths(self._directory)
        errors = []
        for path in reversed(paths):
            try:
                self._read(path)
                break
            except _UNREADABLE as error:
                errors.append(_damaged(path, error))
        else:
            if errors:
                raise InputError(
                    f"no checkpoint of {len(paths)} can be read; restore one, or give another "
                    f"--model-dir. {errors[0]}"
                )
            return False
        self._check_finite(path)
        for fault, damaged in zip(errors, reversed(paths), strict=False):
            _log.warning("%s; renamed, resuming from %s", fault, path)
            if self._is_writer:
                _rename_damaged(damaged)
        if self._is_writer:
            self._remove_leftovers()
        return True

    def _read(self, path: str) -> None:
        with tensorflow_path(path) as name:
            _check_entries(name, self._variables)
            self._checkpoint.read(name).assert_consumed()
        done = int(self._optimizer.iterations.numpy())
        if done != step_of(path):
            raise InputError(f"its optimizer has done {done} steps, not {step_of(path)}")

    def _check_finite(self, path: str) -> None:
        """Checks all float variables but the gradient norm, which is not finite after a skip."""
        for variable in self._trained:
            if "float" in variable.dtype and variable is not self._optimizer.gradient_norm:
                check_finite(variable.path, variable.value.numpy(), path)


def _check_entries(name: str, variables: Mapping[str, Sequence[tf.Variable]]) -> None:
    """Compares a checkpoint's names, shapes and types with the variables before reading values."""
    expected = {
        _key(part, index): (list(variable.shape), variable.dtype)
        for part, group in variables.items()
        for index, variable in enumerate(group)
    } | {_OBJECTS: ([], tf.string)}
    reader = tf.train.load_checkpoint(name)
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    found = {key: (shape, dtypes[key]) for key, shape in shapes.items()}
    for key in sorted(expected.keys() | found.keys()):
        if found.get(key) != expected.get(key):
            raise InputError(
                f"{key}: expected {_describe(expected.get(key))}, got {_describe(found.get(key))}"
            )


def _describe(entry: tuple[list[int], tf.DType] | None) -> str:
    return "nothing" if entry is None else f"{entry[1].name} of shape {entry[0]}"


def _rename_damaged(checkpoint: str) -> None:
    path = pathlib.Path(checkpoint)
    for file in reversed(checkpoint_files(path.parent, step_of(checkpoint))):
        file.rename(file.with_name(f"damaged-{file.name}"))


def _write_checkpoint_state(directory: pathlib.Path) -> None:
    """Writes the file `checkpoint` for `tf.train.latest_checkpoint`; this package ignores it."""
    paths = checkpoint_paths(directory)
    tf.compat.v1.train.update_checkpoint_state(
        str(directory), paths[-1], all_model_checkpoint_paths=paths
    )


def check_averageable(paths: list[str], weights: Shapes) -> None:
    """Checks that checkpoints hold the weights of a model, before memory is allocated for it.

    Args:
        paths: paths of the checkpoints without suffix.
        weights: shapes of the model's weights, by name.

    Raises:
        InputError: a checkpoint is damaged, of another model, or smaller than its weights.
    """
    expected = sorted(weights.values())
    needed = np.dtype("float32").itemsize * sum(map(math.prod, expected))
    for path in paths:
        try:
            with tensorflow_path(path) as name:
                shapes = tf.train.load_checkpoint(name).get_variable_to_shape_map()
            found = sorted(tuple(s) for key, s in shapes.items() if key.startswith("weights/"))
            if found != expected:
                raise InputError(f"its {len(found)} weights have other shapes than the model's")
            files = checkpoint_files(pathlib.Path(path).parent, step_of(path))
            stored = sum(map(stored_bytes, files))
            # Several names may refer to the same bytes, and a sparse file stores fewer.
            if 2 * stored < needed:
                raise InputError(f"the weights need {needed:,} bytes, it stores {stored:,}")
        except _UNREADABLE as error:
            raise _damaged(path, error) from error


def average_checkpoints(paths: list[str], model: keras.Model) -> list[int]:
    """Sets the model's weights to the mean of the weights of checkpoints.

    If a checkpoint holds moving averages of the weights, these are used, as in validation.

    Args:
        paths: paths of the checkpoints without suffix.
        model: the model to change.

    Returns:
        The steps of the checkpoints.

    Raises:
        InputError: a checkpoint is damaged, or holds weights that are not finite.
    """
    totals = [np.zeros(weight.shape, np.float64) for weight in model.weights]
    for path in progress_bar(iterable=paths, desc="reading checkpoints", leave=False):
        arrays = _read_weights(path, model)
        for total, weight, array in zip(totals, model.weights, arrays, strict=True):
            check_finite(weight.path.partition("/")[2], array, path)
            total += array
    for weight, total in zip(model.weights, totals, strict=True):
        weight.assign(total / len(paths))
    return [step_of(path) for path in paths]


def _read_weights(path, model):
    """Yields the weights of a checkpoint one by one, or their moving averages if there are any."""
    trained = {id(weight): index for index, weight in enumerate(model.trainable_weights)}
    try:
        with tensorflow_path(path) as name:
            reader = tf.train.load_checkpoint(name)
            has_averages = reader.has_tensor(_key("averages", 0))
            for index, weight in enumerate(model.weights):
                if has_averages and id(weight) in trained:
                    yield _read_weight(reader, _key("averages", trained[id(weight)]), weight)
                else:
                    yield _read_weight(reader, _key("weights", index), weight)
    except _UNREADABLE as error:
        raise _damaged(path, error) from error


def _read_weight(reader, key, weight):
    """Returns an array of a checkpoint; compares shape and type before allocating memory."""
    shape = reader.get_variable_to_shape_map().get(key)
    dtype = reader.get_variable_to_dtype_map().get(key)
    if (shape, dtype) != (list(weight.shape), tf.as_dtype(weight.dtype)):
        raise InputError(
            f"{key} is {dtype and dtype.name} of shape {shape}, expected {weight.dtype} of shape "
            f"{list(weight.shape)}"
        )
    return reader.get_tensor(key)


def _key(part: str, index: int) -> str:
    """Returns the key of a variable in a checkpoint."""
    return f"{part}/{index}/.ATTRIBUTES/VARIABLE_VALUE"


def _weights_and_state(model: keras.Model) -> tuple[list[tf.Variable], list[tf.Variable]]:
    """Returns the model's weights and its other variables, the dropout seeds."""
    weights = [weight.value for weight in model.weights]
    return weights, _without([variable.value for variable in model.variables], weights)


def _without(variables: list[tf.Variable], others: list[tf.Variable]) -> list[tf.Variable]:
    ids = {id(other) for other in others}
    return [variable for variable in variables if id(variable) not in ids]


def _damaged(path: str, error: Exception) -> InputError:
    reason = " ".join(str(error).split())[:200]
    return InputError(f"{path}: damaged, or of another model ({reason})")

"""Training of the task on pairs of strings."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import keras
import keras_hub
import numpy as np
import tensorflow as tf

from tf_transformer.errors import InputError
from tf_transformer.hub.preprocessor import check_parts
from tf_transformer.hub.traced_weights import TracedWeights
from tf_transformer.known_names import check_names
from tf_transformer.text.texts import list_of_texts

_NO_ARGUMENTS = ("self", "kwargs")


class TrainedOnText(keras_hub.models.Seq2SeqLM):
    """Base class of a task that accepts strings in every form for training and evaluation.

    A subclass sets `_traced` before it calls the constructor of this class.
    """

    _traced: TracedWeights

    def fit(
        self,
        x=None,
        y=None,
        batch_size=None,
        sample_weight=None,
        validation_data=None,
        **kwargs,
    ):
        """Trains on pairs of strings, or on ids without a preprocessor, see `keras.Model.fit`.

        Args:
            x: dictionary of `encoder_text` and `decoder_text`, lists of strings; or the sources
                alone; or a `tf.data.Dataset` of batches of either kind, with targets where needed.
            y: the targets, if `x` are the sources.
            batch_size: number of pairs per batch; 32 when None.
            sample_weight: weight of each pair.
            validation_data: a tuple of `x`, `y` and `sample_weight`, or a dataset.
            **kwargs: those of `keras.Model.fit`.

        Raises:
            InputError: texts are missing or no strings, there are not equally many sources,
                targets and weights, or an argument is unknown.
        """
        check_arguments(kwargs, keras.Model.fit)
        if self.preprocessor is not None:
            if isinstance(validation_data, tuple | list | Mapping):
                inputs, labels, weights = keras.utils.unpack_x_y_sample_weight(validation_data)
                inputs, labels = text_tensors(inputs, labels, weights)
                validation_data = _batches(inputs, labels, weights, batch_size)
            if _is_text(x):
                x, y = text_tensors(x, y, sample_weight)
            if _is_text(x) and not kwargs.get("validation_split"):
                x = _batches(x, y, sample_weight, batch_size, kwargs.get("shuffle", True))
                y = sample_weight = batch_size = None
                kwargs["shuffle"] = False
        if isinstance(x, tf.data.Dataset):
            kwargs.setdefault("shuffle", False)  # Keras warns of its own default
        return super().fit(x, y, batch_size, sample_weight, validation_data, **kwargs)

    def evaluate(self, x=None, y=None, batch_size=None, sample_weight=None, **kwargs):
        """Computes loss and metrics on the data that `fit` takes.

        Raises:
            InputError: as `fit`.
        """
        check_arguments(kwargs, keras.Model.evaluate)
        if self.preprocessor is not None and _is_text(x):
            x, y = text_tensors(x, y, sample_weight)
            x = _batches(x, y, sample_weight, batch_size)
            y = sample_weight = batch_size = None
        return super().evaluate(x, y, batch_size, sample_weight, **kwargs)

    def make_train_function(self, force=False):
        return super().make_train_function(force or self._traced.changed("train", self))

    def make_test_function(self, force=False):
        return super().make_test_function(force or self._traced.changed("test", self))

    def make_predict_function(self, force=False):
        return super().make_predict_function(force or self._traced.changed("predict", self))


def check_arguments(given: Mapping[str, Any], method: Callable[..., Any]) -> None:
    """Checks that Keras' method has all arguments; names with an underscore are Keras' own.

    Args:
        given: the arguments.
        method: the method.

    Raises:
        InputError: an argument is unknown.
    """
    known = [name for name in inspect.signature(method).parameters if name not in _NO_ARGUMENTS]
    check_names([name for name in given if not name.startswith("_")], known, "argument")


def _is_text(x):
    return isinstance(x, Mapping | list | tuple | np.ndarray | tf.Tensor)


def text_tensors(x: Any, y: Any, sample_weight: Any = None) -> tuple[Any, Any]:
    """Returns sources and targets as tensors of strings, in the form that they are given in.

    Args:
        x: the sources, or a dictionary of `encoder_text` and `decoder_text`.
        y: the targets, if `x` are the sources.
        sample_weight: weight of each pair, or None.

    Raises:
        InputError: texts are missing or no strings, or there are not equally many of all.
    """
    given = dict(x) if isinstance(x, Mapping) else {"x": x, "y": y}
    check_parts(given)
    texts = {name: list_of_texts(part, name) for name, part in given.items()}
    sizes = {name: len(part) for name, part in texts.items()}
    if sample_weight is not None:
        sizes["sample_weight"] = len(sample_weight)
    if len(set(sizes.values())) > 1 or 0 in sizes.values():
        received = ", ".join(f"{size} in {name}" for name, size in sizes.items())
        raise InputError(
            f"there must be as many targets as sources, and at least one. Received: {received}"
        )
    tensors = {name: tf.constant(part, tf.string) for name, part in texts.items()}
    return (tensors, y) if isinstance(x, Mapping) else (tensors["x"], tensors["y"])


def _batches(x, y, sample_weight, batch_size, shuffle=False):
    """Returns batches of strings.

    KerasHub would use Grain, where that is installed, which needs batches of one shape.
    """
    parts = keras.utils.pack_x_y_sample_weight(
        dict(x) if isinstance(x, Mapping) else x, y, sample_weight
    )
    pairs = tf.data.Dataset.from_tensor_slices(parts)
    if shuffle:
        pairs = pairs.shuffle(max(1, len(pairs)))
    return pairs.batch(batch_size or 32)

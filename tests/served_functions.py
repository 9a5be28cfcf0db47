"""Signatures of an export in this process, and a stand-in for TF Serving that computes them."""

import functools
import pathlib
import types
from collections.abc import Callable, Iterable, Mapping

import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the tokenizer's ops

from tests.serving_stub import Behaviour
from tf_transformer.predictors.saved_model_predictor import SavedModelPredictor

_DATA_TYPES = {
    tf.string: "DT_STRING",
    tf.int32: "DT_INT32",
    tf.int64: "DT_INT64",
    tf.float32: "DT_FLOAT",
    tf.bool: "DT_BOOL",
}


@functools.lru_cache(2)
def load_signatures(version: pathlib.Path) -> Mapping[str, Callable]:
    """The signatures of a version, loaded once, as a program does that knows only TensorFlow."""
    return tf.saved_model.load(str(version)).signatures


def saved_model_predictor(
    version: pathlib.Path, functions: Mapping[str, Callable]
) -> SavedModelPredictor:
    """The predictor of a version whose signatures, `functions`, are loaded already."""
    with pytest.MonkeyPatch.context() as patch:
        loaded = types.SimpleNamespace(signatures=functions)
        patch.setattr(tf.saved_model, "load", lambda _: loaded)
        return SavedModelPredictor(version)


def behaviour_of(
    functions: Mapping[str, Callable], names: Iterable[str] | None = None
) -> Behaviour:
    """What a server does that serves these concrete functions, or those with these names."""
    served = [name for name in functions if names is None or name in names]
    return Behaviour(
        specs={name: _specs_of(functions[name]) for name in served},
        answers={name: functools.partial(_answer, functions[name]) for name in served},
    )


def _specs_of(function):
    _, keywords = function.structured_input_signature
    return tuple(
        {name: (_DATA_TYPES[spec.dtype], tuple(spec.shape[1:])) for name, spec in specs.items()}
        for specs in (keywords or _named(function), function.structured_outputs)
    )


def _named(function):
    """The inputs of a function that `tf.saved_model.load` did not make."""
    return {spec.name: spec for spec in function.structured_input_signature[0]}


def _answer(function, **values):
    specs = function.structured_input_signature[1] or _named(function)
    tensors = {name: tf.constant(values[name], spec.dtype) for name, spec in specs.items()}
    return {name: x.numpy().tolist() for name, x in function(**tensors).items()}

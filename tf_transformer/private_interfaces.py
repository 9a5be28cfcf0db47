"""The private interfaces of Keras and TensorFlow that this project calls, in one place.

They may change with any minor version, so setup.py pins the minors of both. Methods that Keras
calls, and that a class here overrides, stand in their classes: `DecoderModel._maybe_symbolic_build`
and the update step of `training.optimizer`.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import keras


def sublayers(
    layer: keras.layers.Layer, *, recursive: bool = True, include_self: bool = False
) -> list[keras.layers.Layer]:
    """The layers that a layer or model holds, in the order in which they were assigned."""
    return list(layer._flatten_layers(recursive=recursive, include_self=include_self))


@contextlib.contextmanager
def tracker_unlocked(layer: keras.layers.Layer) -> Iterator[None]:
    """Lets a layer that is built take new variables and sublayers as attributes."""
    layer._tracker.unlock()
    try:
        yield
    finally:
        layer._tracker.lock()


def remove_weights(layer: keras.layers.Layer, attributes: Sequence[str]) -> None:
    """Forgets all variables of a layer, and sets the attributes that hold them to None."""
    for variable in layer.weights:
        layer._untrack_variable(variable)
    # What an attribute once held stays tracked, and is saved, unless the attribute is deleted.
    for name in attributes:
        # Layer's own `__delattr__` also collects garbage, 0.2 s for each variable.
        super(keras.layers.Layer, layer).__delattr__(name)
        setattr(layer, name, None)


def strategy_of(model: keras.Model) -> Any:
    """The `tf.distribute` strategy that a model was compiled under, or None."""
    return getattr(model, "_distribute_strategy", None)


def quantized_matmul(inputs: list[Any], attributes: dict[str, Any], name: str) -> Any:
    """The product of oneDNN's kernel for 8-bit integers, for which TensorFlow has no function."""
    import tensorflow as tf

    operation = tf.compat.v1.get_default_graph().create_op(
        "_QuantizedMatMul", inputs, [tf.float32], attrs=attributes, name=name
    )
    return operation.outputs[0]


def merge_call(function: Any, strategy: Any, *arguments: Any) -> Any:
    """Calls `function(strategy, *arguments)` once for all replicas, where there are several."""
    import tensorflow as tf

    return tf.__internal__.distribute.interim.maybe_merge_call(function, strategy, *arguments)

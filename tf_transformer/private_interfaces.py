"""All private interfaces of Keras and TensorFlow that this project calls.

They may change with any minor version, so setup.py pins the minor versions of both. Two classes
also override private methods: `DecoderModel`, two of `keras.Model`, and `training.optimizer`, the
update step.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras


def sublayers(
    layer: keras.layers.Layer, *, recursive: bool = True, include_self: bool = False
) -> list[keras.layers.Layer]:
    """Returns the sublayers of a layer or model, in the order of their assignment.

    Args:
        layer: the layer or model.
        recursive: whether to include the sublayers of sublayers.
        include_self: whether to include `layer`.
    """
    return list(layer._flatten_layers(recursive=recursive, include_self=include_self))


class CompositeLayer(keras.layers.Layer):
    """Base class of layers whose sublayers `Model.summary(expand_nested=True)` shows.

    Attributes:
        layers: the sublayers, in order of creation.
    """

    @property
    def layers(self) -> list[keras.layers.Layer]:
        return sublayers(self, recursive=False)

    def __dir__(self):
        # Keras names the weights in a file after the attributes listed here. Every sublayer
        # already is an attribute, so `layers` would list it twice.
        return [name for name in super().__dir__() if name != "layers"]


@contextlib.contextmanager
def tracker_unlocked(layer: keras.layers.Layer) -> Iterator[None]:
    """Allows new variables and sublayers as attributes of a built layer, in a `with` statement."""
    layer._tracker.unlock()
    try:
        yield
    finally:
        layer._tracker.lock()


def remove_weights(layer: keras.layers.Layer, attributes: Sequence[str]) -> None:
    """Removes all variables of a layer.

    Args:
        layer: the layer.
        attributes: attributes that hold the variables; they are set to None.
    """
    for variable in layer.weights:
        layer._untrack_variable(variable)
    # What an attribute once held stays tracked, and is saved, unless the attribute is deleted.
    for name in attributes:
        # `Layer.__delattr__` also collects garbage, 0.2 s for each variable.
        super(keras.layers.Layer, layer).__delattr__(name)
        setattr(layer, name, None)


def set_initializer(weight: keras.Variable, initializer: Callable[[Any, str], Any]) -> None:
    """Replaces the initializer of a weight that Keras initializes at the end of a scope.

    Args:
        weight: a weight that was created in a `keras.StatelessScope`, in which this is called.
        initializer: returns the initial value for a shape and a dtype.
    """
    weight._initializer = initializer


def set_direction(metric: keras.metrics.Metric, direction: str) -> None:
    """Tells callbacks with `mode="auto"` whether a metric should rise or fall.

    Args:
        metric: the metric.
        direction: "up" or "down".
    """
    metric._direction = direction


def direction_of(metric: keras.metrics.Metric) -> str | None:
    """Returns "up" or "down", or None if a metric has no direction."""
    return getattr(metric, "_direction", None)


def strategy_of(model: keras.Model) -> Any:
    """Returns the `tf.distribute` strategy that a model was compiled with, or None."""
    return getattr(model, "_distribute_strategy", None)


def quantized_matmul(inputs: list[Any], attributes: dict[str, Any], name: str) -> Any:
    """Calls oneDNN's product of 8-bit integers, for which TensorFlow has no public function.

    Args:
        inputs: inputs of the operation `_QuantizedMatMul`.
        attributes: attributes of the operation.
        name: name of the operation.

    Returns:
        `(rows, outputs)` float32.
    """
    import tensorflow as tf

    operation = tf.compat.v1.get_default_graph().create_op(
        "_QuantizedMatMul", inputs, [tf.float32], attrs=attributes, name=name
    )
    return operation.outputs[0]


def merge_call(function: Any, strategy: Any, *arguments: Any) -> Any:
    """Calls `function(strategy, *arguments)` once for all replicas.

    Args:
        function: function to call in the cross-replica context.
        strategy: the `tf.distribute` strategy.
        *arguments: per-replica arguments.

    Returns:
        The function's result.
    """
    import tensorflow as tf

    return tf.__internal__.distribute.interim.maybe_merge_call(function, strategy, *arguments)


def xla_dynamic_update_slice(array: Any, values: Any, start: Sequence[Any]) -> Any:
    """Returns an array with values written from an index on; XLA writes them in place.

    Only for functions that XLA compiles. TensorFlow has a public function for it only in `tf2xla`,
    which is not part of the package's API.

    Args:
        array: any tensor.
        values: tensor of the same rank and dtype.
        start: for each axis, the first index, an int or a `()` int32 tensor.
    """
    import tensorflow as tf
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops

    indices = tf.stack([tf.cast(index, tf.int32) for index in start])
    return gen_xla_ops.xla_dynamic_update_slice(input=array, update=values, indices=indices)

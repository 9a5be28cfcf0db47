"""The dense layers of attention and feed-forward networks."""

import math
from typing import Any

import keras


def projection(
    num_inputs: int,
    num_outputs: int,
    *,
    num_parts: int = 1,
    gain: float = 1.0,
    dtype: Any = None,
    name: str | None = None,
) -> keras.layers.Dense:
    """`num_parts` dense layers of the same input side by side, as one product.

    Each starts Xavier-uniform by itself, W ~ U(-a, a) with a = gain sqrt(6 / (inputs + outputs))
    (Glorot and Bengio, 2010), and has a bias, which starts at 0.

    Args:
        num_inputs: width of the input.
        num_outputs: width of each part's output.
        num_parts: how many parts.
        gain: scales the initial weights.

    Returns:
        A built layer from `(..., num_inputs)` to `(..., num_parts * num_outputs)`.
    """
    limit = gain * math.sqrt(6.0 / (num_inputs + num_outputs))
    layer = keras.layers.Dense(
        num_parts * num_outputs,
        kernel_initializer=keras.initializers.RandomUniform(-limit, limit),
        dtype=dtype,
        name=name,
    )
    layer.build((None, num_inputs))
    return layer

"""Assignment of large weights without another copy of them in memory."""

import keras
import numpy as np
import tensorflow as tf

# Larger arrays are assigned in parts of about this size.
_PART_BYTES = 2**26


def assign_in_parts(weight: keras.Variable, array: np.ndarray) -> None:
    """Assigns an array to a weight.

    `Variable.assign` converts all of the array to a tensor first. A weight that is larger than 64
    MiB is assigned part by part along its first axis, unless it is distributed.

    Args:
        weight: the weight.
        array: its values, of the same shape.
    """
    variable = weight.value
    if array.nbytes <= _PART_BYTES or isinstance(variable, tf.distribute.DistributedValues):
        weight.assign(array)
        return
    rows = max(1, len(array) * _PART_BYTES // array.nbytes)
    for start in range(0, len(array), rows):
        part = tf.cast(array[start : start + rows], variable.dtype)
        variable[start : start + rows].assign(part)

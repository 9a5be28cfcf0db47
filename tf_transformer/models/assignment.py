"""Assignment of large weights without another copy of them in memory."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import keras
import numpy as np
import tensorflow as tf

if TYPE_CHECKING:
    import h5py

# Larger arrays are assigned in parts of about this size.
_PART_BYTES = 2**26


def assign_in_parts(
    weight: keras.Variable,
    stored: "np.ndarray | h5py.Dataset",
    check: Callable[[np.ndarray], None],
) -> None:
    """Assigns a stored array to a weight.

    An array that is larger than 64 MiB is read and assigned part by part along its first axis,
    unless the weight is distributed.

    Args:
        weight: the weight.
        stored: its values, of the same shape, in memory or in a file.
        check: raises an error if a part is invalid.
    """
    variable = weight.value
    if stored.nbytes <= _PART_BYTES or isinstance(variable, tf.distribute.DistributedValues):
        array = stored[()]
        check(array)
        weight.assign(array)
        return
    rows = max(1, len(stored) * _PART_BYTES // stored.nbytes)
    for start in range(0, len(stored), rows):
        part = stored[start : start + rows]
        check(part)
        variable[start : start + rows].assign(tf.cast(part, variable.dtype))

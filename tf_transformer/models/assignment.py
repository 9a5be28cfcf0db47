"""Large weights without copies in memory: TensorFlow shares the memory of NumPy arrays.

TensorFlow copies an array that it converts to a tensor, computes initial values that are then
overwritten, and keeps the memory of both. `python -m benchmarks.import_memory` measures what is
left.
"""

import math
from collections.abc import Callable, Iterable

import keras
import numpy as np
import tensorflow as tf

from tf_transformer.private_interfaces import set_initializer

# Smaller arrays are copied.
_SHARED_BYTES = 2**20
# Alignment in bytes that TensorFlow needs to share an array.
_ALIGNMENT = 64


def aligned_zeros(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    """Returns zeros that `shared_tensor` accepts; memory is taken when they are written.

    Args:
        shape: their shape.
        dtype: a floating-point type, "bfloat16" included.
    """
    item = tf.as_dtype(dtype)
    num_bytes = item.size * math.prod(shape)
    memory = np.zeros(num_bytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + num_bytes].view(item.as_numpy_dtype).reshape(shape)


def shared_tensor(array: np.ndarray) -> tf.Tensor:
    """Returns a tensor on the CPU that shares the memory of an array of `aligned_zeros`."""
    dtype = tf.as_dtype(array.dtype)
    if dtype != tf.bfloat16:
        return tf.experimental.dlpack.from_dlpack(array.__dlpack__())
    # NumPy exports no arrays of this type.
    bits = tf.experimental.dlpack.from_dlpack(array.view(np.uint16).__dlpack__())
    return tf.bitcast(bits, dtype)


def shared_array(weight: keras.Variable) -> np.ndarray:
    """Returns a read-only array; it shares the memory of a weight on the CPU."""
    value = weight.value.read_value()
    if value.dtype != tf.bfloat16:
        return np.asarray(memoryview(value))
    # Python's buffers have no such type, and newer versions of ml_dtypes refuse to make one.
    bits = np.asarray(memoryview(tf.bitcast(value, tf.uint16)))
    return bits.view(tf.bfloat16.as_numpy_dtype)


def without_initial_values(build: Callable[[], keras.Model]) -> keras.Model:
    """Calls a function that builds a model, whose weights are then to be assigned.

    Args:
        build: returns a new model.

    Returns:
        The model; its weights are 0, and take no memory yet if they are large.
    """
    with keras.StatelessScope():  # Keras initializes variables at its end
        model = build()
        for weight in model.weights:
            set_initializer(weight, lambda shape, dtype: _unwritten_zeros(shape, dtype))
    return model


def _unwritten_zeros(shape, dtype):
    if dtype not in ("float32", "bfloat16") or _is_small(shape):
        return tf.zeros(shape, dtype)
    return shared_tensor(aligned_zeros(shape, dtype))


def assign_shared(weight: keras.Variable, array: np.ndarray) -> None:
    """Assigns an array to a weight on the CPU of the same type, which shares its memory.

    Args:
        weight: the weight.
        array: an array whose memory begins as that of `aligned_zeros`.
    """
    weight.value.assign(shared_tensor(array))


def _is_small(shape):
    return 4 * math.prod(shape) < _SHARED_BYTES


def assign_parts(weight: keras.Variable, parts: Iterable[np.ndarray]) -> None:
    """Assigns an array that is read part by part to a weight.

    Args:
        weight: the weight.
        parts: float32 arrays; concatenated along their first axis, they have the weight's shape.
    """
    variable = weight.value
    if _is_small(weight.shape) or isinstance(variable, tf.distribute.DistributedValues):
        weight.assign(np.concatenate(list(parts)))
        return
    array = aligned_zeros(weight.shape, weight.dtype)  # the parts are cast one by one
    start = 0
    for part in parts:
        array[start : start + len(part)] = part
        start += len(part)
    assign_shared(weight, array)

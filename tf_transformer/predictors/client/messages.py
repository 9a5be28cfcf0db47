"""Tensors in TF Serving's messages; needs no TensorFlow.

The messages are generated from serving.proto, which holds the fields that a client needs; other
fields that a server sends are skipped.
"""

import math

import numpy as np

from tf_transformer.errors import InputError
from tf_transformer.predictors.client.serving_pb2 import DataType, TensorProto
from tf_transformer.predictors.signature import numpy_type

# The field of `TensorProto` that lists the values of each data type.
_FIELDS = {
    "DT_FLOAT": "float_val",
    "DT_DOUBLE": "double_val",
    "DT_INT32": "int_val",
    "DT_UINT8": "int_val",
    "DT_INT16": "int_val",
    "DT_INT8": "int_val",
    "DT_STRING": "string_val",
    "DT_INT64": "int64_val",
    "DT_BOOL": "bool_val",
}

MAX_AXES = 32  # what every version of NumPy supports


def data_type_name(number: int) -> str:
    """Returns the name of a data type by its number in a message, such as `DT_INT32` for 3."""
    return DataType.Name(number) if number in DataType.values() else f"data type {number}"


def make_tensor(array: np.ndarray, data_type: str) -> TensorProto:
    """Returns the message that holds an array.

    Args:
        array: an array of type `numpy_type(data_type)`.
        data_type: the name of its data type, such as `DT_INT32`.
    """
    tensor = TensorProto(dtype=data_type)
    for size in array.shape:
        tensor.tensor_shape.dim.add(size=size)
    if data_type == "DT_STRING":
        tensor.string_val.extend(array.ravel().tolist())
    else:
        tensor.tensor_content = array.tobytes()
    return tensor


def read_tensor(tensor: TensorProto, max_values: int = 2**25) -> np.ndarray:
    """Returns the array in a message, whether its values are raw bytes or listed one by one.

    As in TensorFlow, a list that is too short is filled up with its last value, and an empty one
    with zeros.

    Args:
        tensor: a `TensorProto`.
        max_values: upper limit for the product of the axes' sizes, with 1 for each size of 0. It
            bounds the memory, since a large shape takes a few bytes in the message.

    Raises:
        InputError: the data type is unsupported, the shape is invalid or too large, or the number
            of values does not match the shape.
    """
    name = data_type_name(tensor.dtype)
    dtype = numpy_type(name)
    shape = _read_shape(tensor.tensor_shape, max_values)
    count = math.prod(shape)
    if tensor.tensor_content:
        if dtype.kind == "O" or len(tensor.tensor_content) != count * dtype.itemsize:
            num_bytes = len(tensor.tensor_content)
            raise InputError(f"expected {count} values of {name}. Received: {num_bytes} bytes")
        return np.frombuffer(tensor.tensor_content, dtype).reshape(shape)
    found = getattr(tensor, _FIELDS[name])
    if len(found) > count:
        raise InputError(f"expected {count} values of {name}. Received: {len(found)}")
    values = list(found)
    last = values[-1] if values else b"" if name == "DT_STRING" else 0
    values += [last] * (count - len(values))
    try:
        return np.array(values, dtype).reshape(shape)
    except OverflowError as error:
        raise InputError(f"expected values of {name}. Received: {error}") from error


def _read_shape(shape, max_values):
    if shape.unknown_rank or len(shape.dim) > MAX_AXES:
        raise InputError(f"expected a shape of at most {MAX_AXES} axes. Received: {len(shape.dim)}")
    sizes = [dim.size for dim in shape.dim]
    if min(sizes, default=0) < 0 or math.prod(max(size, 1) for size in sizes) > max_values:
        raise InputError(f"expected at most {max_values} values. Received: shape {sizes}")
    return sizes

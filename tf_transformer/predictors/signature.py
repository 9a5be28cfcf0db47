"""The inputs and outputs of a model's signatures."""

from typing import NamedTuple

import numpy as np

from tf_transformer.errors import InputError
from tf_transformer.tasks.table import TASK_OF

_DATA_TYPES = {
    "string": "DT_STRING",
    "float32": "DT_FLOAT",
    "int32": "DT_INT32",
    "int64": "DT_INT64",
    "bool": "DT_BOOL",
}
_NUMPY_TYPES = {
    "DT_FLOAT": np.float32,
    "DT_DOUBLE": np.float64,
    "DT_INT32": np.int32,
    "DT_UINT8": np.uint8,
    "DT_INT16": np.int16,
    "DT_INT8": np.int8,
    "DT_STRING": np.object_,
    "DT_INT64": np.int64,
    "DT_BOOL": np.bool_,
}


class TensorSpec(NamedTuple):
    """One input or output of a signature.

    Attributes:
        data_type: TensorFlow's name of the type, such as `DT_INT32`.
        shape: sizes, with None for any size; None instead of a tuple for any rank.
    """

    data_type: str
    shape: tuple[int | None, ...] | None

    def has_form_of(self, other: "TensorSpec") -> bool:
        """Returns whether type and rank are those of another one."""
        return self.data_type == other.data_type and len(self.shape or ()) == len(other.shape or ())


class Signature(NamedTuple):
    """One signature of a model.

    Attributes:
        inputs: the inputs by name.
        outputs: the outputs by name.
    """

    inputs: dict[str, TensorSpec]
    outputs: dict[str, TensorSpec]


def numpy_type(data_type: str) -> np.dtype:
    """Returns the NumPy type of a data type by its name; strings are objects of type `bytes`.

    Raises:
        InputError: the type is not one for strings, numbers or booleans.
    """
    if data_type not in _NUMPY_TYPES:
        raise InputError(f"expected one of {', '.join(_NUMPY_TYPES)}. Received: {data_type}")
    return np.dtype(_NUMPY_TYPES[data_type])


def signature_of_task(name: str) -> Signature:
    """Returns the form of a signature of a task; no axis but the first has a known size.

    Args:
        name: its name, a key of `TASK_OF`.
    """
    task = TASK_OF[name]
    inputs = {own.name: _spec(own.dtype, 1) for own in task.inputs_of(name)}
    inputs |= {own.name: _spec(own.dtype, 2) for own in task.inputs if own.has_source_width}
    outputs = {own.name: _spec(own.dtype, own.rank) for own in task.outputs}
    return Signature(inputs, outputs)


def _spec(dtype: str, rank: int) -> TensorSpec:
    return TensorSpec(_DATA_TYPES[dtype], (None,) * rank)

"""TF Serving's messages, and tensors in them; needs no TensorFlow.

They have the fields that a client needs, under their names and numbers in
`tensorflow_serving/apis` and `tensorflow/core` of TensorFlow 2.21; what else a server sends is
skipped over. They are built in a descriptor pool of their own, because TensorFlow registers the
same names in the common one and both may be loaded in one process.
"""

import math

import numpy as np
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory, wrappers_pb2
from google.protobuf.message import Message

from tf_transformer.errors import InputError

# Number, NumPy type, and the field of `TensorProto` that holds the values one by one.
_DATA_TYPES = {
    "DT_FLOAT": (1, np.float32, "float_val"),
    "DT_DOUBLE": (2, np.float64, "double_val"),
    "DT_INT32": (3, np.int32, "int_val"),
    "DT_UINT8": (4, np.uint8, "int_val"),
    "DT_INT16": (5, np.int16, "int_val"),
    "DT_INT8": (6, np.int8, "int_val"),
    "DT_STRING": (7, np.object_, "string_val"),
    "DT_INT64": (9, np.int64, "int64_val"),
    "DT_BOOL": (10, np.bool_, "bool_val"),
}
_DATA_TYPE_NAMES = {number: name for name, (number, *_) in _DATA_TYPES.items()}

MAX_AXES = 32  # what every NumPy can have

# Package -> message -> field -> number and type; the keys of a map are strings.
_MESSAGES = {
    "tensorflow": {
        "TensorShapeProto": {
            "dim": (2, "repeated .tensorflow.TensorShapeProto.Dim"),
            "unknown_rank": (3, "bool"),
        },
        "TensorShapeProto.Dim": {"size": (1, "int64")},
        "TensorProto": {
            "dtype": (1, "enum .tensorflow.DataType"),
            "tensor_shape": (2, ".tensorflow.TensorShapeProto"),
            "tensor_content": (4, "bytes"),
            "float_val": (5, "repeated float"),
            "double_val": (6, "repeated double"),
            "int_val": (7, "repeated int32"),
            "string_val": (8, "repeated bytes"),
            "int64_val": (10, "repeated int64"),
            "bool_val": (11, "repeated bool"),
        },
        "TensorInfo": {
            "dtype": (2, "enum .tensorflow.DataType"),
            "tensor_shape": (3, ".tensorflow.TensorShapeProto"),
        },
        "SignatureDef": {
            "inputs": (1, "map .tensorflow.TensorInfo"),
            "outputs": (2, "map .tensorflow.TensorInfo"),
        },
    },
    "tensorflow.serving": {
        "ModelSpec": {
            "name": (1, "string"),
            "version": (2, ".google.protobuf.Int64Value"),
            "signature_name": (3, "string"),
        },
        "PredictRequest": {
            "model_spec": (1, ".tensorflow.serving.ModelSpec"),
            "inputs": (2, "map .tensorflow.TensorProto"),
        },
        "PredictResponse": {"outputs": (1, "map .tensorflow.TensorProto")},
        "GetModelMetadataRequest": {
            "model_spec": (1, ".tensorflow.serving.ModelSpec"),
            "metadata_field": (2, "repeated string"),
        },
        "GetModelMetadataResponse": {"metadata": (2, "map .google.protobuf.Any")},
        "SignatureDefMap": {"signature_def": (1, "map .tensorflow.SignatureDef")},
        "PredictLog": {"request": (1, ".tensorflow.serving.PredictRequest")},
        "PredictionLog": {"predict_log": (6, ".tensorflow.serving.PredictLog")},
    },
}


def _build_pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    for module in (any_pb2, wrappers_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    names = [any_pb2.DESCRIPTOR.name, wrappers_pb2.DESCRIPTOR.name]
    for package, messages in _MESSAGES.items():
        file = _build_file(package, messages, dependencies=names)
        pool.AddSerializedFile(file.SerializeToString())
        names.append(file.name)
    return pool


def _build_file(package, messages, dependencies):
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package}.proto", package=package, syntax="proto3", dependency=dependencies
    )
    if package == "tensorflow":
        types = file.enum_type.add(name="DataType")
        types.value.add(name="DT_INVALID", number=0)
        for name, (number, *_) in _DATA_TYPES.items():
            types.value.add(name=name, number=number)
    made: dict[str, Message] = {}
    for path, fields in messages.items():
        outer, _, name = path.rpartition(".")
        siblings = made[outer].nested_type if outer else file.message_type
        made[path] = siblings.add(name=name)
        for field, (number, kind) in fields.items():
            _add_field(made[path], f".{package}.{path}", field, number, kind)
    return file


def _add_field(message, path, name, number, kind):
    modifier, _, kind = kind.rpartition(" ")
    field = message.field.add(name=name, number=number)
    repeated = modifier in ("repeated", "map")
    field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
    if modifier == "map":
        entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        _add_field(entry, f"{path}.{entry.name}", "key", 1, "string")
        _add_field(entry, f"{path}.{entry.name}", "value", 2, kind)
        kind = f"{path}.{entry.name}"
    if kind.startswith("."):
        field.type_name = kind
        field.type = field.TYPE_ENUM if modifier == "enum" else field.TYPE_MESSAGE
    else:
        field.type = field.Type.Value(f"TYPE_{kind.upper()}")


_POOL = _build_pool()


def _message_class(name):
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(name))


TensorProto = _message_class("tensorflow.TensorProto")
PredictRequest = _message_class("tensorflow.serving.PredictRequest")
PredictResponse = _message_class("tensorflow.serving.PredictResponse")
GetModelMetadataRequest = _message_class("tensorflow.serving.GetModelMetadataRequest")
GetModelMetadataResponse = _message_class("tensorflow.serving.GetModelMetadataResponse")
SignatureDefMap = _message_class("tensorflow.serving.SignatureDefMap")
PredictionLog = _message_class("tensorflow.serving.PredictionLog")


def data_type_name(number: int) -> str:
    """The name of a data type by its number in a message, such as `DT_INT32` for 3."""
    return _DATA_TYPE_NAMES.get(number, f"data type {number}")


def numpy_type(data_type: str) -> np.dtype:
    """The NumPy type of a data type by its name; strings are objects, of type `bytes`.

    Raises:
        ValueError: the type is none of those that strings, numbers and truth values need.
    """
    if data_type not in _DATA_TYPES:
        raise InputError(f"expected one of {', '.join(_DATA_TYPES)}. Received: {data_type}")
    return np.dtype(_DATA_TYPES[data_type][1])


def make_tensor(array: np.ndarray, data_type: str) -> Message:
    """The message for an array.

    Args:
        array: of `numpy_type(data_type)`.
        data_type: its name.
    """
    tensor = TensorProto(dtype=data_type)
    for size in array.shape:
        tensor.tensor_shape.dim.add(size=size)
    if data_type == "DT_STRING":
        tensor.string_val.extend(array.ravel().tolist())
    else:
        tensor.tensor_content = array.tobytes()
    return tensor


def read_tensor(tensor: Message, max_values: int = 2**25) -> np.ndarray:
    """The array of a message, with its values as bytes or one by one.

    As in TensorFlow, the last of too few values stands for those that are left out, and zero for
    all.

    Args:
        tensor: the message.
        max_values: most values that the array may have, or places of the axes before one of size
            0: a shape takes a few bytes, whatever it says.

    Raises:
        ValueError: the type is none of `numpy_type`, the shape is none or too large, or the values
            do not fill it.
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
    found = getattr(tensor, _DATA_TYPES[name][2])
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

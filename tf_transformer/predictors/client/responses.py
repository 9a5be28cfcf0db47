"""Parses responses of an untrusted server, in JSON or protobuf.

Each function raises an `InputError` that says what is wrong if the body is not a response of TF
Serving. The number of values is checked before parsing, see `response_size`, so that memory stays
in proportion to the size of the response.
"""

import base64
import json
import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from tf_transformer.errors import InputError
from tf_transformer.predictors.client.messages import (
    MAX_AXES,
    data_type_name,
    read_tensor,
)
from tf_transformer.predictors.client.response_size import check_json, check_message
from tf_transformer.predictors.client.serving_pb2 import (
    GetModelMetadataResponse,
    PredictResponse,
    SignatureDefMap,
)
from tf_transformer.predictors.signature import Signature, TensorSpec, numpy_type

_MAX_RANK = 254  # TensorFlow's limit
# For metadata and errors; the metadata of an export's 12 signatures has about 2,000 tokens.
_MAX_TOKENS = 2**17
# Types of the parsed JSON values of an array, by the kind of its NumPy type.
_JSON_TYPES: dict[str, set[type]] = {
    "f": {int, float},
    "i": {int},
    "u": {int},
    "b": {bool},
    "O": {str, dict},
}


def signatures_from_json(body: bytes) -> dict[str, Signature]:
    """Returns the signatures by name from the metadata response of REST."""
    found: Any = _parse_json(body, _MAX_TOKENS)
    for key in ("metadata", "signature_def", "signature_def"):
        found = _entry(found, key, dict)
    return {
        name: Signature(
            *(
                {key: _spec_from_json(info) for key, info in _entry(sides, side, dict).items()}
                for side in ("inputs", "outputs")
            )
        )
        for name, sides in found.items()
        if not name.startswith("__")
    }


def outputs_from_json(
    body: bytes, signature: Signature, max_tokens: int, end: float = math.inf
) -> dict[str, np.ndarray]:
    """Returns the outputs by name from the predict response of REST.

    Args:
        body: body of the response.
        signature: the signature that was called.
        max_tokens: maximum number of JSON tokens, see `check_json`.
        end: time of `time.monotonic` after which a `TimeoutError` is raised.

    Returns:
        Arrays by name; strings are `bytes` or `str`.
    """
    outputs = _entry(_parse_json(body, max_tokens, end), "outputs", object)
    if len(signature.outputs) == 1:  # REST sends the value of a single output without its name
        outputs = dict.fromkeys(signature.outputs, outputs)
    return {
        key: _array_from_json(key, _entry(outputs, key, object), spec.data_type)
        for key, spec in signature.outputs.items()
    }


def error_from_json(body: bytes) -> str | None:
    """Returns the message from an error response of REST, or None for another body."""
    try:
        return _entry(_parse_json(body, _MAX_TOKENS), "error", str)
    except ValueError:
        return None


def signatures_from_proto(body: bytes) -> dict[str, Signature]:
    """Returns the signatures by name from the metadata response of gRPC."""
    packed = _parse_proto(GetModelMetadataResponse, body, _MAX_TOKENS).metadata
    if "signature_def" not in packed:
        raise InputError("'signature_def' is missing")
    definition = packed["signature_def"].value
    found = _parse_proto(SignatureDefMap, definition, _MAX_TOKENS).signature_def
    return {
        name: Signature(
            *(
                {key: _spec_from_proto(info) for key, info in infos.items()}
                for infos in (sides.inputs, sides.outputs)
            )
        )
        for name, sides in found.items()
        if not name.startswith("__")
    }


def outputs_from_proto(
    body: bytes, signature: Signature, max_tokens: int, end: float = math.inf
) -> dict[str, np.ndarray]:
    """Returns the outputs by name from the predict response of gRPC.

    Args:
        body: body of the response.
        signature: the signature that was called.
        max_tokens: maximum number of fields, see `check_message`, and of values per output.
        end: time of `time.monotonic` after which a `TimeoutError` is raised.

    Returns:
        Arrays by name; strings are `bytes`.
    """
    tensors = _parse_proto(PredictResponse, body, max_tokens, end).outputs
    outputs = {}
    for key, spec in signature.outputs.items():
        if key not in tensors:
            raise InputError(f"output {key!r} is missing")
        if (found := data_type_name(tensors[key].dtype)) != spec.data_type:
            raise InputError(f"output {key!r} has type {found}, expected {spec.data_type}")
        outputs[key] = read_tensor(tensors[key], max_tokens)
    return outputs


def _parse_json(body, max_tokens, end=math.inf):
    check_json(body, max_tokens, end)
    try:
        # The model's strings may contain bytes that are not UTF-8.
        return json.loads(body.decode(errors="replace"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}") from error


def _parse_proto(message_class, body, max_fields, end=math.inf):
    check_message(body, message_class.DESCRIPTOR, max_fields, end)
    try:
        return message_class.FromString(body)
    except DecodeError as error:
        raise InputError(f"not a {message_class.DESCRIPTOR.name}") from error


def _entry(value, key, kind):
    """Returns an entry of a JSON object after checking that it exists and has that type."""
    if not isinstance(value, dict) or key not in value or not isinstance(value[key], kind):
        raise InputError(f"{key!r} is missing or has a wrong type")
    return value[key]


def _spec_from_json(info):
    data_type = _entry(info, "dtype", str)
    if not re.fullmatch(r"DT_[A-Z0-9_]{1,40}", data_type):
        raise InputError("a data type is invalid")
    shape = _entry(info, "tensor_shape", dict)
    if shape.get("unknown_rank"):
        return TensorSpec(data_type, None)
    sizes = [
        str(_entry(dim, "size", str | int)) for dim in _entry({"dim": []} | shape, "dim", list)
    ]
    if not all(re.fullmatch(r"-?[0-9]{1,19}", size) for size in sizes):
        raise InputError("a size in a shape is not an integer")
    return TensorSpec(data_type, _shape(map(int, sizes)))


def _spec_from_proto(info):
    shape = info.tensor_shape
    return TensorSpec(
        data_type_name(info.dtype),
        None if shape.unknown_rank else _shape(dim.size for dim in shape.dim),
    )


def _shape(sizes: Iterable[int]) -> tuple[int | None, ...]:
    shape = tuple(None if size < 0 else size for size in sizes)
    if len(shape) > _MAX_RANK:
        raise InputError(f"a shape has {len(shape)} sizes, more than {_MAX_RANK}")
    return shape


def _array_from_json(name, values, data_type):
    dtype = numpy_type(data_type)
    array = np.array(values, np.object_)  # lists of unequal length stay lists
    if array.ndim > MAX_AXES:  # NumPy creates such arrays but cannot iterate over them
        raise InputError(f"output {name!r} has more than {MAX_AXES} nested lists")
    types = set(map(type, array.flat))
    if not types <= _JSON_TYPES[dtype.kind]:
        found = ", ".join(sorted(kind.__name__ for kind in types))
        raise InputError(f"output {name!r} of type {data_type} contains {found}")
    if dtype.kind == "O":
        flat = np.empty(array.size, np.object_)
        flat[:] = [_string_from_json(value) for value in array.flat]
        return flat.reshape(array.shape)
    try:
        with np.errstate(over="ignore"):
            return array.astype(dtype)
    except OverflowError as error:
        raise InputError(f"output {name!r} of type {data_type}: {error}") from error


def _string_from_json(value):
    return (
        value
        if isinstance(value, str)
        else base64.b64decode(_entry(value, "b64", str), validate=True)
    )

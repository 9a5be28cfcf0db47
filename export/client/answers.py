"""Reads what a server answers, as JSON or as gRPC's bytes, without trust in it.

Each function raises `ValueError`, which says what came, for whatever is not an answer of TF
Serving, before it takes memory that the answer alone does not account for. How much it may hold is
checked before it is parsed, see `answer_size`.
"""

import base64
import json
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from export.client.answer_size import check_json, check_message
from export.client.messages import MAX_AXES, data_type_name, numpy_type, read_tensor
from export.client.serving_pb2 import GetModelMetadataResponse, PredictResponse, SignatureDefMap
from export.client.signature import Signature, TensorSpec
from tf_transformer.errors import InputError

_MAX_RANK = 254  # TensorFlow's own
# Of an answer about a model, or of an error; the 12 signatures of an export take about 2,000.
_MAX_TOKENS = 2**17
# What JSON has for values of an array, by the kind of its NumPy type.
_JSON_TYPES: dict[str, set[type]] = {
    "f": {int, float},
    "i": {int},
    "u": {int},
    "b": {bool},
    "O": {str, dict},
}


def signatures_from_json(body: bytes) -> dict[str, Signature]:
    """Returns the signatures by name from REST's answer about a model."""
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


def outputs_from_json(body: bytes, signature: Signature, max_tokens: int) -> dict[str, np.ndarray]:
    """Returns a signature's outputs from REST's answer; strings are `bytes` or `str`.

    Args:
        body: the answer.
        signature: whose outputs they are.
        max_tokens: see `check_json`.
    """
    outputs = _entry(_parse_json(body, max_tokens), "outputs", object)
    if len(signature.outputs) == 1:  # its bare value
        outputs = dict.fromkeys(signature.outputs, outputs)
    return {
        key: _array_from_json(key, _entry(outputs, key, object), spec.data_type)
        for key, spec in signature.outputs.items()
    }


def error_from_json(body: bytes) -> str | None:
    """Returns the message of REST's answer to a request that failed, or None for another answer."""
    try:
        return _entry(_parse_json(body, _MAX_TOKENS), "error", str)
    except ValueError:
        return None


def signatures_from_proto(body: bytes) -> dict[str, Signature]:
    """Returns the signatures by name from gRPC's answer about a model."""
    packed = _parse_proto(GetModelMetadataResponse, body, _MAX_TOKENS).metadata
    if "signature_def" not in packed:
        raise InputError("no 'signature_def'")
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


def outputs_from_proto(body: bytes, signature: Signature, max_tokens: int) -> dict[str, np.ndarray]:
    """Returns a signature's outputs from gRPC's answer; strings are `bytes`.

    Args:
        body: the answer.
        signature: whose outputs they are.
        max_tokens: most fields, see `check_message`, and most values of an output.
    """
    tensors = _parse_proto(PredictResponse, body, max_tokens).outputs
    outputs = {}
    for key, spec in signature.outputs.items():
        if key not in tensors:
            raise InputError(f"no {key!r}")
        if (found := data_type_name(tensors[key].dtype)) != spec.data_type:
            raise InputError(f"{found} for output {key!r} of type {spec.data_type}")
        outputs[key] = read_tensor(tensors[key], max_tokens)
    return outputs


def _parse_json(body, max_tokens):
    check_json(body, max_tokens)
    try:
        # A string of the model may hold bytes that are not UTF-8.
        return json.loads(body.decode(errors="replace"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}") from error


def _parse_proto(message_class, body, max_fields):
    check_message(body, message_class.DESCRIPTOR, max_fields)
    try:
        return message_class.FromString(body)
    except DecodeError as error:
        raise InputError(f"no {message_class.DESCRIPTOR.name}") from error


def _entry(value, key, kind):
    """An entry of a JSON object, if it is there and of that type."""
    if not isinstance(value, dict) or key not in value or not isinstance(value[key], kind):
        raise InputError(f"no {key!r} as expected")
    return value[key]


def _spec_from_json(info):
    data_type = _entry(info, "dtype", str)
    if not re.fullmatch(r"DT_[A-Z0-9_]{1,40}", data_type):
        raise InputError("no data type")
    shape = _entry(info, "tensor_shape", dict)
    if shape.get("unknown_rank"):
        return TensorSpec(data_type, None)
    sizes = [
        str(_entry(dim, "size", str | int)) for dim in _entry({"dim": []} | shape, "dim", list)
    ]
    if not all(re.fullmatch(r"-?[0-9]{1,19}", size) for size in sizes):
        raise InputError("no sizes in a shape")
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
        raise InputError(f"a shape of {len(shape)} sizes")
    return shape


def _array_from_json(name, values, data_type):
    dtype = numpy_type(data_type)
    array = np.array(values, np.object_)  # a list stays one where the next has another length
    if array.ndim > MAX_AXES:  # NumPy makes such arrays, and cannot go through them
        raise InputError(f"more than {MAX_AXES} lists in each other in output {name!r}")
    types = set(map(type, array.flat))
    if not types <= _JSON_TYPES[dtype.kind]:
        found = ", ".join(sorted(kind.__name__ for kind in types))
        raise InputError(f"{found} in output {name!r} of type {data_type}")
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

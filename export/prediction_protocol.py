"""TF Serving's two protocols, REST and gRPC, for one model; needs no TensorFlow.

The messages of gRPC have the fields that a client needs, under their names and numbers in
`tensorflow_serving/apis` and `tensorflow/core` of TensorFlow 2.21; what else a server sends is
skipped over. They are built in a descriptor pool of their own, because TensorFlow registers the
same names in the common one and both may be loaded in one process.
"""

import base64
import json
import re
import urllib.parse
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import grpc
import numpy as np
import urllib3
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory, wrappers_pb2

SERVICE = "tensorflow.serving.PredictionService"

# As TF Serving's REST server maps them; what a proxy says of a server behind it is its absence.
_CODES = {
    400: "INVALID_ARGUMENT",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "UNAVAILABLE",
}

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
    made = {}
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


def data_type_name(number: int) -> str:
    """The name of a data type by its number in a message, such as `DT_INT32` for 3."""
    return _DATA_TYPE_NAMES.get(number, f"data type {number}")


def numpy_type(data_type: str) -> np.dtype:
    """The NumPy type of a data type by its name; strings are objects, of type `bytes`.

    Raises:
        ValueError: the type is none of those that strings, numbers and truth values need.
    """
    if data_type not in _DATA_TYPES:
        raise ValueError(f"expected one of {', '.join(_DATA_TYPES)}. Received: {data_type}")
    return np.dtype(_DATA_TYPES[data_type][1])


def make_tensor(array: np.ndarray, data_type: str) -> TensorProto:
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


def read_tensor(tensor: TensorProto) -> np.ndarray:
    """The array of a message, with its values as bytes or one by one.

    As in TensorFlow, the last of too few values stands for those that are left out, and zero for
    all.

    Raises:
        ValueError: the type is none of `numpy_type`, or the values do not fill the shape.
    """
    name = data_type_name(tensor.dtype)
    dtype = numpy_type(name)
    shape = [dim.size for dim in tensor.tensor_shape.dim]
    if tensor.tensor_content:
        return np.frombuffer(tensor.tensor_content, dtype).reshape(shape)
    values = list(getattr(tensor, _DATA_TYPES[name][2]))
    last = values[-1] if values else b"" if name == "DT_STRING" else 0
    values += [last] * (int(np.prod(shape)) - len(values))
    return np.array(values, dtype).reshape(shape)


class TensorSpec(NamedTuple):
    """One input or output of a signature.

    Attributes:
        data_type: TensorFlow's name, such as `DT_INT32`.
        shape: sizes, None where any will do; None in all for any rank.
    """

    data_type: str
    shape: tuple[int | None, ...] | None


class Signature(NamedTuple):
    """The inputs and outputs of one of a model's signatures, by name."""

    inputs: dict[str, TensorSpec]
    outputs: dict[str, TensorSpec]


class RestServer:
    """One model over REST, a request a call.

    Args:
        address: `HOST:PORT` of the server.
        model: the model's name.
        version: its version, or the server's choice.
        concurrency: connections to keep.
        place: what messages call the model.
    """

    def __init__(self, address: str, model: str, version: int | None, concurrency: int, place: str):
        self._place = place
        self._path = f"/v1/models/{urllib.parse.quote(model, safe='')}"
        if version is not None:
            self._path += f"/versions/{version}"
        self._pool = urllib3.connection_from_url(f"http://{address}", maxsize=concurrency)

    def close(self) -> None:
        """Closes the connections."""
        self._pool.close()

    def read_signatures(self, timeout: float) -> dict[str, Signature]:
        """Asks for the model's signatures, by name; `predict` has the other argument and errors."""
        answer = self._request("GET", "/metadata", None, timeout)
        try:
            return {
                name: Signature(*(_rest_specs(signature[side]) for side in ("inputs", "outputs")))
                for name, signature in answer["metadata"]["signature_def"]["signature_def"].items()
                if not name.startswith("__")
            }
        except (AttributeError, KeyError, TypeError) as error:
            raise self._unexpected(answer) from error

    def predict(
        self, name: str, signature: Signature, arrays: Mapping[str, np.ndarray], timeout: float
    ) -> dict[str, np.ndarray]:
        """Asks for the outputs of one batch.

        Args:
            name, signature: of the signature.
            arrays: its inputs; strings are `bytes`.
            timeout: seconds.

        Returns:
            Its outputs; strings are `bytes` or `str`, as they come.

        Raises:
            ValueError: the model is not there, or the server refuses the request.
            ConnectionError: the server is not available.
            TimeoutError: it did not answer in time.
            OSError: it failed otherwise.
        """
        inputs = {key: _to_json(array) for key, array in arrays.items()}
        body = json.dumps({"signature_name": name, "inputs": inputs}, ensure_ascii=False)
        answer = self._request("POST", ":predict", body.encode(), timeout)
        try:
            outputs = answer["outputs"]
            if len(signature.outputs) == 1:  # its bare value
                outputs = dict.fromkeys(signature.outputs, outputs)
            return {
                key: _from_json(outputs[key], spec.data_type)
                for key, spec in signature.outputs.items()
            }
        except (KeyError, TypeError) as error:
            raise self._unexpected(answer) from error

    def _request(self, method, suffix, body, timeout):
        try:
            response = self._pool.request(
                method,
                self._path + suffix,
                body=body,
                headers={"Content-Type": "application/json"},
                timeout=urllib3.Timeout(total=timeout),
                retries=False,
            )
        except urllib3.exceptions.NewConnectionError as error:
            raise _error(self._place, "UNAVAILABLE", str(error)) from error
        except urllib3.exceptions.TimeoutError as error:
            raise TimeoutError(str(error)) from error
        except urllib3.exceptions.HTTPError as error:
            raise _error(self._place, "UNAVAILABLE", str(error)) from error
        return self._read_answer(response)

    def _read_answer(self, response):
        try:
            # A string of the model may hold bytes that are not UTF-8.
            answer = json.loads(response.data.decode(errors="replace"))
        except ValueError:
            answer = response.data
        if response.status == 200:
            return answer
        message = answer.get("error") if isinstance(answer, dict) else None
        code = _CODES.get(response.status, f"HTTP {response.status}")
        raise _error(self._place, code, str(message or f"{response.reason}, {answer[:200]!r}"))

    def _unexpected(self, answer):
        return OSError(
            f"the {self._place}: expected an answer of TF Serving. Received: {str(answer)[:200]}"
        )


class GrpcServer:
    """One model over gRPC, a request a call; arguments, methods and errors are `RestServer`'s."""

    def __init__(self, address: str, model: str, version: int | None, concurrency: int, place: str):
        self._place = place
        self._model = {"name": model}
        if version is not None:
            self._model["version"] = {"value": version}
        options = {
            "grpc.max_receive_message_length": -1,
            "grpc.max_send_message_length": -1,
            "grpc.enable_http_proxy": 0,  # as over REST
            # A lost server is looked for this often; calls in between fail at once.
            "grpc.initial_reconnect_backoff_ms": 100,
            "grpc.max_reconnect_backoff_ms": 1000,
        }
        self._channel = grpc.insecure_channel(address, options=list(options.items()))
        self._predict = self._method("Predict", PredictRequest, PredictResponse)
        self._get_metadata = self._method(
            "GetModelMetadata", GetModelMetadataRequest, GetModelMetadataResponse
        )

    def _method(self, name, request, response):
        return self._channel.unary_unary(
            f"/{SERVICE}/{name}", request.SerializeToString, response.FromString
        )

    def close(self) -> None:
        """Closes the connection; calls that are under way end."""
        self._channel.close()

    def read_signatures(self, timeout: float) -> dict[str, Signature]:
        """Asks for the model's signatures, by name."""
        request = GetModelMetadataRequest(model_spec=self._model, metadata_field=["signature_def"])
        answer = self._call(self._get_metadata, request, timeout)
        found = SignatureDefMap.FromString(answer.metadata["signature_def"].value)
        return {
            name: Signature(_grpc_specs(signature.inputs), _grpc_specs(signature.outputs))
            for name, signature in found.signature_def.items()
            if not name.startswith("__")
        }

    def predict(
        self, name: str, signature: Signature, arrays: Mapping[str, np.ndarray], timeout: float
    ) -> dict[str, np.ndarray]:
        """Asks for the outputs of one batch."""
        request = PredictRequest(model_spec=self._model | {"signature_name": name})
        for key, array in arrays.items():
            request.inputs[key].CopyFrom(make_tensor(array, signature.inputs[key].data_type))
        outputs = self._call(self._predict, request, timeout).outputs
        if missing := set(signature.outputs) - set(outputs):
            raise OSError(f"the {self._place} left {sorted(missing)} out of its answer")
        return {key: read_tensor(outputs[key]) for key in signature.outputs}

    def _call(self, method, request, timeout):
        try:
            return method(request, timeout=timeout)
        except grpc.RpcError as error:
            raise _error(self._place, error.code().name, error.details()) from error


SERVERS = {"rest": RestServer, "grpc": GrpcServer}


def _error(place: str, code: str, message: str) -> Exception:
    """What to raise for a status of gRPC, by its name, and the server's message."""
    if code in ("UNAVAILABLE", "RESOURCE_EXHAUSTED"):
        return ConnectionError(
            f"the {place} is not available: {message} "
            "(TF Serving's own ports are 8501 for REST and 8500 for gRPC)"
        )
    if code == "DEADLINE_EXCEEDED":
        return TimeoutError(message)
    if code == "NOT_FOUND":
        return ValueError(f"the server does not have the {place}: {message}")
    if limit := re.search(r"larger than maximum input batch size (\d+)", message):
        return ValueError(
            f"the {place} takes at most {limit[1]} rows a request: set `max_batch_size` to that"
        )
    if code in ("INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE"):
        return ValueError(f"the {place} refuses the request: {message}")
    return OSError(f"the {place} failed: {message} ({code})")


def _to_json(array):
    return [_json_string(value) for value in array] if array.dtype.kind == "O" else array.tolist()


def _json_string(value):
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(value).decode()}


def _from_json(values, data_type):
    if data_type != "DT_STRING":
        return np.array(values, numpy_type(data_type))
    array = np.array(values, np.object_)
    read = [
        base64.b64decode(item["b64"]) if isinstance(item, dict) else item for item in array.flat
    ]
    flat = np.empty(len(read), np.object_)
    flat[:] = read
    return flat.reshape(array.shape)


def _rest_specs(infos: Mapping[str, Any]) -> dict[str, TensorSpec]:
    return {
        name: TensorSpec(
            info["dtype"],
            None
            if info["tensor_shape"].get("unknown_rank")
            else _shape(int(dim["size"]) for dim in info["tensor_shape"].get("dim", [])),
        )
        for name, info in infos.items()
    }


def _grpc_specs(infos: Mapping[str, Any]) -> dict[str, TensorSpec]:
    return {
        name: TensorSpec(
            data_type_name(info.dtype),
            None
            if info.tensor_shape.unknown_rank
            else _shape(dim.size for dim in info.tensor_shape.dim),
        )
        for name, info in infos.items()
    }


def _shape(sizes: Iterable[int]) -> tuple[int | None, ...]:
    return tuple(None if size < 0 else size for size in sizes)

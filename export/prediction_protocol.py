"""TF Serving's two protocols, REST and gRPC, for one model; needs no TensorFlow."""

import base64
import json
import re
import urllib.parse
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import grpc
import numpy as np
import urllib3

from export.serving_messages import (
    GetModelMetadataRequest,
    GetModelMetadataResponse,
    PredictRequest,
    PredictResponse,
    SignatureDefMap,
    data_type_name,
    make_tensor,
    numpy_type,
    read_tensor,
)

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

"""TF Serving's two protocols, REST and gRPC, for one model; needs no TensorFlow."""

import base64
import json
import re
import urllib.parse
from collections.abc import Mapping
from typing import Any

import grpc
import numpy as np
import urllib3

from export.client.answer_size import most_tokens
from export.client.answers import (
    error_from_json,
    outputs_from_json,
    outputs_from_proto,
    signatures_from_json,
    signatures_from_proto,
)
from export.client.bounded_http import BoundedPool, ResponseTooLargeError
from export.client.messages import make_tensor
from export.client.serving_pb2 import GetModelMetadataRequest, PredictRequest
from export.client.signature import Signature
from tf_transformer.errors import InputError
from tf_transformer.printable import printable

SERVICE = "tensorflow.serving.PredictionService"

# As TF Serving's REST server maps them; what a proxy says of a server behind it is its absence.
_CODES = {
    400: "INVALID_ARGUMENT",
    404: "NOT_FOUND",
    412: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "UNAVAILABLE",
}

# What a model answers to rows it cannot take, and TF Serving to all whose rows it had merged with
# these. It says the last two before it merges anything.
_MERGED_CODES = {"INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE", "INTERNAL", "UNKNOWN"}
_TOO_MANY_ROWS = r"larger than maximum input batch size (\d{1,9})"
_NO_SIGNATURE = r"Serving signature (key|name)"


class MergedBatchError(Exception):
    """A request failed, perhaps because of others that the server merged with it into one batch.

    Attributes:
        reason: the `ValueError` or `OSError` that it is if the request was at fault by itself.
    """

    def __init__(self, reason: Exception):
        super().__init__(str(reason))
        self.reason = reason


class RestServer:
    """One model over REST, a request a call.

    Args:
        address: `HOST:PORT` of the server.
        model: the model's name.
        version: its version, or the server's choice.
        concurrency: connections to keep.
        place: what messages call the model.
        max_response_bytes: most bytes of an answer. Compressed answers are none.
    """

    def __init__(
        self,
        address: str,
        model: str,
        version: int | None,
        concurrency: int,
        place: str,
        max_response_bytes: int,
    ):
        self._place = place
        self._path = f"/v1/models/{urllib.parse.quote(model, safe='')}"
        if version is not None:
            self._path += f"/versions/{version}"
        self._max_response_bytes = max_response_bytes
        self._pool = BoundedPool(address, concurrency, max_response_bytes)

    def close(self) -> None:
        """Closes the connections."""
        self._pool.close()

    def read_signatures(self, timeout: float) -> dict[str, Signature]:
        """Asks for the model's signatures, by name.

        `predict` has the other argument and errors.
        """
        body = self._request("GET", "/metadata", None, timeout)
        return _read(self._place, body, signatures_from_json)

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
            MergedBatchError: the request failed, perhaps because of another.
            ValueError: the model is not there, or the server refuses the request.
            ConnectionError: the server is not available.
            TimeoutError: it did not answer in time.
            OSError: it failed otherwise.
        """
        inputs = {key: _to_json(array) for key, array in arrays.items()}
        request = json.dumps({"signature_name": name, "inputs": inputs}, ensure_ascii=False)
        body = self._request("POST", ":predict", request.encode(), timeout)
        max_tokens = _most_tokens(signature, arrays, self._max_response_bytes)
        return _read(self._place, body, outputs_from_json, signature, max_tokens)

    def _request(self, method, suffix, body, timeout):
        try:
            status, reason, answer = self._pool.request(method, self._path + suffix, body, timeout)
        except ResponseTooLargeError as error:
            raise _too_large(self._place, self._max_response_bytes) from error
        except urllib3.exceptions.NewConnectionError as error:
            raise _error(self._place, "UNAVAILABLE", str(error)) from error
        except urllib3.exceptions.TimeoutError as error:
            raise TimeoutError(printable(str(error))) from error
        except urllib3.exceptions.HTTPError as error:
            raise _error(self._place, "UNAVAILABLE", str(error)) from error
        if status == 200:
            return answer
        code = _CODES.get(status, f"HTTP {status}")
        message = error_from_json(answer) or f"HTTP {status} {reason}, {answer[:200]!r}"
        raise _error(self._place, code, message)


class GrpcServer:
    """One model over gRPC, a request a call; arguments, methods and errors are `RestServer`'s."""

    def __init__(
        self,
        address: str,
        model: str,
        version: int | None,
        concurrency: int,
        place: str,
        max_response_bytes: int,
    ):
        self._place = place
        self._max_response_bytes = max_response_bytes
        self._model: dict[str, Any] = {"name": model}
        if version is not None:
            self._model["version"] = {"value": version}
        options = {
            "grpc.max_receive_message_length": max_response_bytes,
            "grpc.max_send_message_length": -1,
            # Its own decompression has no limit; what is compressed is then no answer.
            "grpc.per_message_decompression": 0,
            "grpc.enable_http_proxy": 0,  # as over REST
            # A lost server is looked for this often; calls in between fail at once.
            "grpc.initial_reconnect_backoff_ms": 100,
            "grpc.max_reconnect_backoff_ms": 1000,
        }
        # Without the scheme, hosts such as `unix` would be taken for one.
        self._channel = grpc.insecure_channel(f"dns:///{address}", options=list(options.items()))
        # Answers are read here: gRPC logs a traceback for what is none.
        self._predict, self._get_metadata = (
            self._channel.unary_unary(f"/{SERVICE}/{name}", request.SerializeToString)
            for name, request in (
                ("Predict", PredictRequest),
                ("GetModelMetadata", GetModelMetadataRequest),
            )
        )

    def close(self) -> None:
        """Closes the connection; calls that are under way end."""
        self._channel.close()

    def read_signatures(self, timeout: float) -> dict[str, Signature]:
        """Asks for the model's signatures, by name."""
        request = GetModelMetadataRequest(model_spec=self._model, metadata_field=["signature_def"])
        body = self._call(self._get_metadata, request, timeout)
        return _read(self._place, body, signatures_from_proto)

    def predict(
        self, name: str, signature: Signature, arrays: Mapping[str, np.ndarray], timeout: float
    ) -> dict[str, np.ndarray]:
        """Asks for the outputs of one batch."""
        request = PredictRequest(model_spec=self._model | {"signature_name": name})
        for key, array in arrays.items():
            request.inputs[key].CopyFrom(make_tensor(array, signature.inputs[key].data_type))
        body = self._call(self._predict, request, timeout)
        max_tokens = _most_tokens(signature, arrays, self._max_response_bytes)
        return _read(self._place, body, outputs_from_proto, signature, max_tokens)

    def _call(self, method, request, timeout):
        try:
            return method(request, timeout=timeout)
        except grpc.RpcError as error:
            message = error.details() or ""
            if "message larger than max" in message:
                raise _too_large(self._place, self._max_response_bytes) from error
            raise _error(self._place, error.code().name, message) from error


SERVERS: dict[str, type[RestServer] | type[GrpcServer]] = {"rest": RestServer, "grpc": GrpcServer}


def _error(place: str, code: str, message: str) -> Exception:
    """What to raise for a status of gRPC, by its name, and the server's message."""
    shown = printable(message)
    if code in ("UNAVAILABLE", "RESOURCE_EXHAUSTED"):
        return ConnectionError(
            f"the {place} is not available: {shown} "
            "(TF Serving's own ports are 8501 for REST and 8500 for gRPC)"
        )
    if code == "DEADLINE_EXCEEDED":
        return TimeoutError(shown)
    if code == "NOT_FOUND":
        return InputError(f"the server does not have the {place}: {shown}")
    if limit := re.search(_TOO_MANY_ROWS, message):
        return InputError(
            f"the {place} takes at most {limit[1]} rows a request: set `max_batch_size` to that"
        )
    if code in ("INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE"):
        reason: Exception = InputError(f"the {place} refuses the request: {shown}")
    else:
        reason = OSError(f"the {place} failed: {shown} ({code})")
    if code not in _MERGED_CODES or re.search(_NO_SIGNATURE, message):
        return reason
    return MergedBatchError(reason)


def _read(place, body, read, *arguments):
    """Calls one of `export.client.answers` on an answer."""
    try:
        return read(body, *arguments)
    except ValueError as error:
        raise OSError(
            f"the {place}: expected an answer of TF Serving. Received: "
            f"{printable(repr(body[:200]))} ({printable(str(error))})"
        ) from error


def _most_tokens(signature, arrays, max_response_bytes):
    num_rows = max(map(len, arrays.values()), default=0)
    return most_tokens(signature, num_rows, max_response_bytes)


def _too_large(place, max_response_bytes):
    return OSError(
        f"the {place} answers with more than {max_response_bytes} bytes: lower `max_batch_size` or "
        "raise `max_response_bytes`"
    )


def _to_json(array):
    return [_json_string(value) for value in array] if array.dtype.kind == "O" else array.tolist()


def _json_string(value):
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(value).decode()}

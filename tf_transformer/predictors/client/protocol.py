"""TF Serving's protocols, REST and gRPC, for one model; needs no TensorFlow."""

import base64
import json
import time
import urllib.parse
from collections.abc import Mapping
from typing import Any

import grpc
import numpy as np
import urllib3

from tf_transformer.predictors.client.bounded_http import BoundedPool, ResponseTooLargeError
from tf_transformer.predictors.client.failures import failure
from tf_transformer.predictors.client.messages import make_tensor
from tf_transformer.predictors.client.response_size import max_num_tokens
from tf_transformer.predictors.client.responses import (
    error_from_json,
    outputs_from_json,
    outputs_from_proto,
    signatures_from_json,
    signatures_from_proto,
)
from tf_transformer.predictors.client.serving_pb2 import GetModelMetadataRequest, PredictRequest
from tf_transformer.predictors.signature import Signature
from tf_transformer.printable import printable

SERVICE = "tensorflow.serving.PredictionService"

# The inverse of the mapping in TF Serving's REST server. 502 and 504 are proxies' statuses for a
# server that does not respond.
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


class RestServer:
    """One model served over REST.

    Args:
        address: `HOST:PORT` of the server.
        model: name of the model.
        version: version of the model, or None for the server's default.
        concurrency: number of connections to keep open.
        description: the model's name in error messages.
        max_response_bytes: maximum size of a response. Compressed responses are refused.
    """

    def __init__(
        self,
        address: str,
        model: str,
        version: int | None,
        concurrency: int,
        description: str,
        max_response_bytes: int,
    ):
        self._description = description
        self._path = f"/v1/models/{urllib.parse.quote(model, safe='')}"
        if version is not None:
            self._path += f"/versions/{version}"
        self._max_response_bytes = max_response_bytes
        self._pool = BoundedPool(address, concurrency, max_response_bytes)

    def close(self) -> None:
        """Closes the connections."""
        self._pool.close()

    def read_signatures(self, timeout: float) -> dict[str, Signature]:
        """Requests the model's signatures by name.

        Args:
            timeout: seconds.

        Raises:
            Exception: as `predict` does.
        """
        body = self._request("GET", "/metadata", None, timeout)
        return _parse(self._description, body, signatures_from_json)

    def predict(
        self, name: str, signature: Signature, arrays: Mapping[str, np.ndarray], timeout: float
    ) -> dict[str, np.ndarray]:
        """Requests the outputs of one batch.

        Args:
            name: name of the signature.
            signature: its inputs and outputs.
            arrays: the inputs by name; strings are `bytes`.
            timeout: seconds.

        Returns:
            The outputs by name; strings are `bytes` or `str`.

        Raises:
            MergedBatchError: the request failed, possibly because of another one.
            BatchMateError: the request failed because of another one.
            InputError: the model does not exist, or the server refuses the request.
            ConnectionError: the server is unavailable; an `OverloadError` if it has too many
                requests.
            TimeoutError: the response did not arrive in time.
            OSError: the request failed in another way, or the response is invalid.
        """
        end = time.monotonic() + timeout
        inputs = {key: _to_json(array) for key, array in arrays.items()}
        request = json.dumps({"signature_name": name, "inputs": inputs}, ensure_ascii=False)
        body = self._request("POST", ":predict", request.encode(), timeout)
        max_tokens = _max_num_tokens(signature, arrays, self._max_response_bytes)
        return _parse(self._description, body, outputs_from_json, signature, max_tokens, end)

    def _request(self, method, suffix, body, timeout):
        try:
            status, reason, data = self._pool.request(method, self._path + suffix, body, timeout)
        except ResponseTooLargeError as error:
            raise _too_large(self._description, self._max_response_bytes) from error
        except urllib3.exceptions.NewConnectionError as error:
            raise failure(self._description, "UNAVAILABLE", str(error)) from error
        except urllib3.exceptions.TimeoutError as error:
            raise TimeoutError(printable(str(error))) from error
        except urllib3.exceptions.HTTPError as error:
            raise failure(self._description, "UNAVAILABLE", str(error)) from error
        if status == 200:
            return data
        code = _CODES.get(status, f"HTTP {status}")
        message = error_from_json(data) or f"HTTP {status} {reason}, {data[:200]!r}"
        raise failure(self._description, code, message)


class GrpcServer:
    """One model served over gRPC.

    Args:
        address: `HOST:PORT` of the server.
        model: name of the model.
        version: version of the model, or None for the server's default.
        concurrency: not used; gRPC sends all requests over one connection.
        description: the model's name in error messages.
        max_response_bytes: maximum size of a response. Compressed responses are refused.
    """

    def __init__(
        self,
        address: str,
        model: str,
        version: int | None,
        concurrency: int,
        description: str,
        max_response_bytes: int,
    ):
        self._description = description
        self._max_response_bytes = max_response_bytes
        self._model: dict[str, Any] = {"name": model}
        if version is not None:
            self._model["version"] = {"value": version}
        options = {
            "grpc.max_receive_message_length": max_response_bytes,
            "grpc.max_send_message_length": -1,
            # gRPC's decompression has no size limit. Without it, compressed responses are invalid.
            "grpc.per_message_decompression": 0,
            "grpc.enable_http_proxy": 0,  # as over REST
            # How often gRPC reconnects to a lost server; calls in between fail immediately.
            "grpc.initial_reconnect_backoff_ms": 100,
            "grpc.max_reconnect_backoff_ms": 1000,
        }
        # With an explicit scheme, hosts such as `unix` are not parsed as a scheme.
        self._channel = grpc.insecure_channel(f"dns:///{address}", options=list(options.items()))
        # Without a deserializer, since gRPC logs a traceback for an invalid response.
        self._predict, self._get_metadata = (
            self._channel.unary_unary(f"/{SERVICE}/{name}", request.SerializeToString)
            for name, request in (
                ("Predict", PredictRequest),
                ("GetModelMetadata", GetModelMetadataRequest),
            )
        )

    def close(self) -> None:
        """Closes the connection and cancels pending calls."""
        self._channel.close()

    def read_signatures(self, timeout: float) -> dict[str, Signature]:
        """Requests the model's signatures by name; see `RestServer.read_signatures`."""
        request = GetModelMetadataRequest(model_spec=self._model, metadata_field=["signature_def"])
        body = self._call(self._get_metadata, request, timeout)
        return _parse(self._description, body, signatures_from_proto)

    def predict(
        self, name: str, signature: Signature, arrays: Mapping[str, np.ndarray], timeout: float
    ) -> dict[str, np.ndarray]:
        """Requests the outputs of one batch; see `RestServer.predict`."""
        end = time.monotonic() + timeout
        request = PredictRequest(model_spec=self._model | {"signature_name": name})
        for key, array in arrays.items():
            request.inputs[key].CopyFrom(make_tensor(array, signature.inputs[key].data_type))
        body = self._call(self._predict, request, timeout)
        max_tokens = _max_num_tokens(signature, arrays, self._max_response_bytes)
        return _parse(self._description, body, outputs_from_proto, signature, max_tokens, end)

    def _call(self, method, request, timeout):
        try:
            return method(request, timeout=timeout)
        except grpc.RpcError as error:
            message = error.details() or ""
            if "message larger than max" in message:
                raise _too_large(self._description, self._max_response_bytes) from error
            raise failure(self._description, error.code().name, message) from error


SERVERS: dict[str, type[RestServer] | type[GrpcServer]] = {"rest": RestServer, "grpc": GrpcServer}


def _parse(description, body, parse, *arguments):
    """Calls a function of `responses` with the body of a response."""
    try:
        return parse(body, *arguments)
    except ValueError as error:
        raise OSError(
            f"the {description}: expected a response of TF Serving. Received: "
            f"{printable(repr(body[:200]))} ({printable(str(error))})"
        ) from error


def _max_num_tokens(signature, arrays, max_response_bytes):
    num_rows = max(map(len, arrays.values()), default=0)
    return max_num_tokens(signature, num_rows, max_response_bytes)


def _too_large(description, max_response_bytes):
    return OSError(
        f"the {description} sent a response of more than {max_response_bytes} bytes: lower "
        "`max_batch_size` (--max-batch-size), or raise `max_response_bytes` of `Client` in Python"
    )


def _to_json(array):
    return [_json_string(value) for value in array] if array.dtype.kind == "O" else array.tolist()


def _json_string(value):
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(value).decode()}

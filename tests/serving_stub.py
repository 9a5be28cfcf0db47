"""A small stand-in for TF Serving, over REST and gRPC, that does as it is told.

Codes and messages of refusals are TF Serving's own. A text `refuse` is refused, `busy` finds the
server unavailable, `gone` without the model.
"""

import base64
import concurrent.futures
import contextlib
import dataclasses
import functools
import http.server
import json
import re
import socketserver
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import grpc
import numpy as np

from tests.serving_batches import Batches, Refused
from tf_transformer.predictors.client import messages, protocol, serving_pb2
from tf_transformer.predictors.signature import numpy_type

MODEL = "translator"

# Signature -> inputs and outputs: name -> data type, and the shape of one row.
SIGNATURES = {
    "serving_default": (
        {"text": ("DT_STRING", ())},
        {
            "translation": ("DT_STRING", ()),
            "score": ("DT_FLOAT", ()),
            "truncated": ("DT_BOOL", ()),
        },
    ),
    "translate_options": (
        {
            "text": ("DT_STRING", ()),
            "beam_size": ("DT_INT32", ()),
            "length_penalty": ("DT_FLOAT", ()),
        },
        {
            "translation": ("DT_STRING", ()),
            "score": ("DT_FLOAT", ()),
            "truncated": ("DT_BOOL", ()),
        },
    ),
    "reverse": ({"text": ("DT_STRING", ())}, {"reversed_bytes": ("DT_STRING", ())}),
    "mirror": ({"text": ("DT_STRING", ())}, {"same": ("DT_STRING", ())}),
    "numbers": (
        {
            "ids": ("DT_INT32", (3,)),
            "large": ("DT_INT64", ()),
            "flag": ("DT_BOOL", ()),
            "exact": ("DT_DOUBLE", ()),
        },
        {
            "ids": ("DT_INT32", (3,)),
            "large": ("DT_INT64", ()),
            "flag": ("DT_BOOL", ()),
            "exact": ("DT_DOUBLE", ()),
            "best": ("DT_STRING", (2,)),
        },
    ),
    "widths": ({"ids": ("DT_INT32", (-1,))}, {"width": ("DT_INT32", ())}),
    "total": ({"text": ("DT_STRING", ())}, {"count": ("DT_INT32", ())}),
}

_HTTP_STATUS = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "UNKNOWN": 500,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
}


@dataclasses.dataclass
class Behaviour:
    """What the server does, and what it has seen.

    Attributes:
        failures: what to answer the next requests for predictions with: a name of gRPC's codes,
            `LOST` for a lost connection, or over REST a status; with a message, in a tuple.
        max_rows: most rows of a request, and of a batch.
        slow: seconds before a batch is answered whose first text begins with `slow`.
        together: requests wait until so many have been under way at once, one time,
        patience: or for so many seconds.
        max_calls: most requests at once, as with `--grpc_max_threads`; None for any number.
        batch_seconds: how long a request waits to be merged with others; 0 turns batching off.
        batch_mates: requests of other callers, see `Batches`.
        one_by_one: tensors carry values one by one, over gRPC, rather than as bytes.
        specs: the signatures, as `SIGNATURES`.
        answers: signature -> what it computes.
        requests: the text of each request for predictions, in the order they came.
        metadata_requests: how many asked for the signatures.
        most_at_once: most requests for predictions that were under way at once.
    """

    failures: list[str | int | tuple[str, str]] = dataclasses.field(default_factory=list)
    max_rows: int = 32
    slow: float = 0.0
    together: int = 1
    patience: float = 10.0
    max_calls: int | None = None
    batch_seconds: float = 0.0
    batch_mates: Iterable[dict[str, list] | None] = ()
    one_by_one: bool = True
    specs: dict[str, tuple[dict, dict]] = dataclasses.field(default_factory=lambda: SIGNATURES)
    answers: dict[str, Callable] = dataclasses.field(default_factory=lambda: _ANSWERS)
    requests: list[list[bytes]] = dataclasses.field(default_factory=list)
    metadata_requests: int = 0
    most_at_once: int = 0

    def __post_init__(self):
        self._num_at_once = 0
        self._changed = threading.Condition()
        self.stopped = threading.Event()

    @functools.cached_property
    def _batches(self):
        return Batches(self.batch_seconds, self._compute, iter(self.batch_mates))

    def wait_until_at_once(self, number: int) -> None:
        """Waits until so many requests are under way."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._num_at_once == number, 60)

    def signatures(self, model: str, version: int | None) -> dict:
        """The signatures of a model, if it is there."""
        self.metadata_requests += 1
        _check_model(model, version)
        return self.specs

    def predict(
        self, model: str, version: int | None, signature: str, inputs: dict[str, list]
    ) -> dict[str, Any]:
        """The outputs of a signature."""
        with self._changed:
            self.requests.append(inputs.get("text", []))
            if self.max_calls is not None and self._num_at_once >= self.max_calls:
                raise Refused("RESOURCE_EXHAUSTED", "Server Threadpool Exhausted")
            self._num_at_once += 1
            self.most_at_once = max(self.most_at_once, self._num_at_once)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.most_at_once >= self.together, self.patience)
            failure = self.failures.pop(0) if self.failures else None
        try:
            if failure:
                script = "as the script says"
                raise Refused(*(failure if isinstance(failure, tuple) else (failure, script)))
            _check_model(model, version)
            return self._answer(signature, inputs)
        finally:
            with self._changed:
                self._num_at_once -= 1

    def _answer(self, signature, inputs):
        assert set(inputs) == set(self.specs[signature][0])
        rows = len(next(iter(inputs.values())))
        assert rows > 0, "TF Serving would never answer"
        if rows > self.max_rows:
            raise Refused(
                "INVALID_ARGUMENT",
                f"Task size {rows} is larger than maximum input batch size {self.max_rows}",
            )
        texts = [text for text in inputs.get("text", []) if isinstance(text, bytes)]
        if texts and texts[0].startswith(b"slow"):
            self.stopped.wait(self.slow)
        if b"busy" in texts:
            raise Refused("UNAVAILABLE", "always busy")
        if b"gone" in texts:
            _check_model("gone", None)
        if self.batch_seconds:
            return self._batches.run(signature, inputs, self.max_rows)
        return self._compute(signature, inputs)

    def _compute(self, signature, inputs):
        texts = inputs.get("text", [])
        if b"refuse" in texts:
            raise Refused("INVALID_ARGUMENT", "cannot refuse")
        if not all(isinstance(text, bytes) for text in texts):
            raise Refused("INVALID_ARGUMENT", "Expects arg[0] to be string")
        return self.answers[signature](**inputs)


def _check_model(model, version):
    if model != MODEL or version not in (None, 1):
        spec = f"Latest({model})" if version is None else f"Specific({model}, {version})"
        raise Refused("NOT_FOUND", f"Servable not found for request: {spec}")


def _translate(text, beam_size=None, length_penalty=None):
    suffixes = [b""] * len(text)
    if beam_size:
        pairs = zip(beam_size, length_penalty, strict=True)
        suffixes = [f" beam {beam} penalty {penalty:g}".encode() for beam, penalty in pairs]
    return {
        "translation": [t.upper() + s for t, s in zip(text, suffixes, strict=True)],
        "score": [-0.1 * len(t) for t in text],
        "truncated": [len(t) > 20 for t in text],
    }


def _numbers(ids, large, flag, exact):
    return {
        "ids": [[-i for i in row] for row in ids],
        "large": large,
        "flag": [not value for value in flag],
        "exact": exact,
        "best": [[b"first", b"second"]] * len(ids),
    }


_ANSWERS: dict[str, Callable[..., dict[str, Any]]] = {
    "serving_default": _translate,
    "translate_options": _translate,
    "reverse": lambda text: {"reversed_bytes": [t[::-1] for t in text]},
    "mirror": lambda text: {"same": text},
    "numbers": _numbers,
    "widths": lambda ids: {"width": [len(row) for row in ids]},
    "total": lambda text: {"count": len(text)},
}


@contextlib.contextmanager
def serve(name: str, behaviour: Behaviour, port: int = 0) -> Iterator[str]:
    """Runs a server of one protocol, `rest` or `grpc`, and gives its address."""
    with {"rest": _serve_rest, "grpc": _serve_grpc}[name](behaviour, port) as port:
        try:
            yield f"127.0.0.1:{port}"
        finally:
            behaviour.stopped.set()


@contextlib.contextmanager
def _serve_rest(behaviour, port):
    class Handler(_RestHandler):
        script = behaviour

    with http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        server.block_on_close = False
        thread = threading.Thread(target=server.serve_forever, args=(0.005,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


class _RestHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    script: Behaviour

    def do_GET(self):
        self._reply(self._metadata)

    def do_POST(self):
        self._reply(self._predict)

    def _reply(self, answer):
        pattern = r"/v1/models/([^/:]+)(?:/versions/(\d+))?(?:/metadata|:predict)"
        model, version = re.fullmatch(pattern, self.path).groups()
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            status, body = 200, answer(model, version and int(version), body)
        except Refused as refusal:
            code, message = refusal.args
            if code == "LOST":
                self.close_connection = True
                return
            status, body = _HTTP_STATUS.get(code, code), {"error": message}
        data = json.dumps(body, ensure_ascii=False).encode(errors="surrogateescape")
        with contextlib.suppress(ConnectionError):  # the client may have given up
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    def _metadata(self, model, version, body):
        signatures = {
            name: {"inputs": _rest_infos(inputs), "outputs": _rest_infos(outputs)}
            for name, (inputs, outputs) in self.script.signatures(model, version).items()
        }
        signatures["__saved_model_init_op"] = {"inputs": {}, "outputs": {}}
        return {"metadata": {"signature_def": {"signature_def": signatures}}}

    def _predict(self, model, version, body):
        request = json.loads(body)
        name = request.get("signature_name", "serving_default")
        inputs = {
            key: [_read_json(value) for value in values]
            for key, values in request["inputs"].items()
        }
        outputs = self.script.predict(model, version, name, inputs)
        outputs = {
            key: _to_json(values, self.script.specs[name][1][key][0], key.endswith("_bytes"))
            for key, values in outputs.items()
        }
        return {"outputs": outputs if len(outputs) > 1 else next(iter(outputs.values()))}

    def log_message(self, *_):
        pass


def _rest_infos(specs):
    return {
        name: {
            "dtype": data_type,
            "tensor_shape": {
                "dim": [{"size": str(size), "name": ""} for size in (-1, *shape)],
                "unknown_rank": False,
            },
            "name": f"{name}:0",
        }
        for name, (data_type, shape) in specs.items()
    }


def _read_json(value):
    if isinstance(value, dict):
        return base64.b64decode(value["b64"])
    return value.encode() if isinstance(value, str) else value


def _to_json(value, data_type, in_base64):
    """A value as TF Serving writes it: float32 in few digits, bytes as they are."""
    if isinstance(value, list):
        return [_to_json(item, data_type, in_base64) for item in value]
    if isinstance(value, bytes):
        if in_base64:
            return {"b64": base64.b64encode(value).decode()}
        return value.decode(errors="surrogateescape")
    return float(str(np.float32(value))) if data_type == "DT_FLOAT" else value


@contextlib.contextmanager
def _serve_grpc(behaviour, port):
    with concurrent.futures.ThreadPoolExecutor(16) as executor:
        server = grpc.server(executor)
        server.add_registered_method_handlers(
            protocol.SERVICE,
            {
                "Predict": grpc.unary_unary_rpc_method_handler(
                    _answering(_predict, behaviour),
                    serving_pb2.PredictRequest.FromString,
                    serving_pb2.PredictResponse.SerializeToString,
                ),
                "GetModelMetadata": grpc.unary_unary_rpc_method_handler(
                    _answering(_metadata, behaviour),
                    serving_pb2.GetModelMetadataRequest.FromString,
                    serving_pb2.GetModelMetadataResponse.SerializeToString,
                ),
            },
        )
        port = server.add_insecure_port(f"127.0.0.1:{port}")
        server.start()
        try:
            yield port
        finally:
            behaviour.stopped.set()
            server.stop(0).wait()


def _answering(function, behaviour):
    def answer(request, context):
        spec = request.model_spec
        version = spec.version.value if spec.HasField("version") else None
        try:
            return function(request, behaviour, spec, version)
        except Refused as refusal:
            code, message = refusal.args
            context.abort(grpc.StatusCode["UNAVAILABLE" if code == "LOST" else code], message)

    return answer


def _predict(request, behaviour, spec, version):
    inputs = {key: messages.read_tensor(t).tolist() for key, t in request.inputs.items()}
    name = spec.signature_name
    response = serving_pb2.PredictResponse()
    for key, values in behaviour.predict(spec.name, version, name, inputs).items():
        data_type = behaviour.specs[name][1][key][0]
        array = np.array(values, numpy_type(data_type))
        tensor = messages.make_tensor(array, data_type)
        if behaviour.one_by_one and tensor.tensor_content:
            _write_one_by_one(tensor, array, data_type)
        response.outputs[key].CopyFrom(tensor)
    return response


def _write_one_by_one(tensor, array, data_type):
    tensor.tensor_content = b""
    fields = {
        "DT_FLOAT": tensor.float_val,
        "DT_DOUBLE": tensor.double_val,
        "DT_INT32": tensor.int_val,
        "DT_INT64": tensor.int64_val,
        "DT_BOOL": tensor.bool_val,
    }
    fields[data_type].extend(array.ravel().tolist())


def _metadata(request, behaviour, spec, version):
    assert list(request.metadata_field) == ["signature_def"]
    found = serving_pb2.SignatureDefMap()
    for name, sides in behaviour.signatures(spec.name, version).items():
        signature = found.signature_def[name]
        for infos, specs in zip((signature.inputs, signature.outputs), sides, strict=True):
            for key, (data_type, shape) in specs.items():
                infos[key].dtype = _number(data_type)
                for size in (-1, *shape):
                    infos[key].tensor_shape.dim.add(size=size)
    found.signature_def["__saved_model_init_op"].SetInParent()
    response = serving_pb2.GetModelMetadataResponse()
    response.metadata["signature_def"].value = found.SerializeToString()
    return response


def _number(data_type):
    return serving_pb2.TensorProto(dtype=data_type).dtype


@contextlib.contextmanager
def serve_bytes(answer: Callable[[bytes], Iterable[bytes]], pause: float = 0.0) -> Iterator[str]:
    """Runs a server that sends any bytes, and gives its address.

    Args:
        answer: the first bytes of a connection's request to the pieces to send, after which the
            connection is closed.
        pause: seconds after each piece.
    """
    stopped = threading.Event()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            with contextlib.suppress(OSError):  # the client may have given up
                for piece in answer(self.request.recv(65536)):
                    self.request.sendall(piece)
                    if stopped.wait(pause):
                        return

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads, server.block_on_close = True, False
        thread = threading.Thread(target=server.serve_forever, args=(0.005,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            stopped.set()
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def serve_grpc_bytes(
    answers: dict[str, bytes], compression: grpc.Compression = grpc.Compression.NoCompression
) -> Iterator[str]:
    """Runs a server that answers `Predict` and `GetModelMetadata` with any bytes."""
    with concurrent.futures.ThreadPoolExecutor(4) as executor:
        options = [("grpc.max_send_message_length", -1)]
        server = grpc.server(executor, options=options, compression=compression)
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(lambda *_, data=data: data)
            for name, data in answers.items()
        }
        server.add_registered_method_handlers(protocol.SERVICE, handlers)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            server.stop(0).wait()

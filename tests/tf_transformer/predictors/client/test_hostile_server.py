"""The client against servers that are none, or mean it harm."""

import contextlib
import gzip
import itertools
import json
import re
import socket
import subprocess
import sys
import time
import tracemalloc

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.serving_stub import Behaviour, serve, serve_bytes, serve_grpc_bytes
from tf_transformer.predictors.client import (
    Client,
    messages,
    response_size,
    responses,
    retries,
    serving_pb2,
)
from tf_transformer.predictors.client.response_size import check_json, check_message, max_num_tokens
from tf_transformer.predictors.signature import Signature, TensorSpec
from tf_transformer.printable import printable

TRANSLATE = Signature(
    {"text": TensorSpec("DT_STRING", (None,))},
    {
        "translation": TensorSpec("DT_STRING", (None,)),
        "score": TensorSpec("DT_FLOAT", (None,)),
        "truncated": TensorSpec("DT_BOOL", (None,)),
    },
)
SIGNATURES = {"serving_default": TRANSLATE}
NOWHERE = contextlib.nullcontext("localhost:1")
INVALID_RESPONSE = r"^the model 'translator' at .*: expected a response of TF Serving\. Received: b"
OUTPUTS = {"translation": ["A"], "score": [0.5], "truncated": [False]}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(retries, "_FIRST_PAUSE", 0.001)


def http(body: bytes, *headers: str) -> bytes:
    lines = ["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *headers]
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + body


@contextlib.contextmanager
def connected(server, protocol="rest", signatures=SIGNATURES, **arguments):
    """A client of a server of this module, which has the signatures already."""
    with server as address, Client(address, protocol=protocol, **arguments) as client:
        if signatures is not None:
            client.signatures = signatures
        yield client


def translate(client):
    return list(client.translate_lines(["a"]))


def fails(server, protocol="rest", signatures=SIGNATURES, kind=OSError, match=None, **arguments):
    """Returns what a translation by that server ends with."""
    with (
        connected(server, protocol, signatures, **arguments) as client,
        pytest.raises(kind, match=match) as caught,
    ):
        translate(client)
    assert str(caught.value).isprintable()
    return caught.value


# What comes before the byte that is sent again and again.
SLOW_PARTS = {
    "status line": b"HTTP/1.1 200 ",
    "headers": b"HTTP/1.1 200 OK\r\nX: ",
    "body": b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n",
    "body to the end": b"HTTP/1.1 200 OK\r\n\r\n",
    "chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\n",
    "size of a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    "trailer": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
    "body of an error": b"HTTP/1.1 500 No\r\nContent-Length: 1000\r\n\r\n",
}
# What comes before a body without an end.
ENDLESS_BODIES = {
    "announced": b"HTTP/1.1 200 OK\r\nContent-Length: 3000000000\r\n\r\n",
    "to the end": b"HTTP/1.1 200 OK\r\n\r\n",
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nb2d05e00\r\n",
    "negative chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
    "an error": b"HTTP/1.1 500 No\r\nContent-Length: 3000000000\r\n\r\n",
}


class TestDeadline:
    @pytest.mark.representatives("prediction", "headers-metadata")
    @pytest.mark.slow
    @pytest.mark.parametrize("signatures", [SIGNATURES, None], ids=["prediction", "metadata"])
    @pytest.mark.parametrize("start", SLOW_PARTS.values(), ids=SLOW_PARTS)
    def test_a_byte_now_and_then(self, start, signatures):
        server = serve_bytes(lambda _: [start, *[b"0"] * 60], pause=0.05)
        fails(
            server,
            signatures=signatures,
            deadline=0.25,
            kind=TimeoutError,
            match="not respond within 0.25 seconds: raise",
        )

    @pytest.mark.slow
    def test_a_response_to_come_now_and_then(self):
        server = serve_bytes(lambda _: [b"HTTP/1.1 100 Continue\r\n\r\n"] * 60, pause=0.05)
        with connected(server, deadline=0.25) as client, pytest.raises(TimeoutError):
            translate(client)

    @pytest.mark.slow
    @pytest.mark.parametrize("signatures", [SIGNATURES, None], ids=["prediction", "metadata"])
    def test_a_byte_now_and_then_over_grpc(self, signatures):
        settings_frame = b"\0\0\0\4\0\0\0\0\0"
        for pieces in (
            [bytes([byte]) for byte in settings_frame * 7],
            [settings_frame, settings_frame[:3] + b"\4\1\0\0\0\0", *[settings_frame] * 60],
        ):
            server = serve_bytes(lambda _, pieces=pieces: pieces, pause=0.05)
            fails(
                server,
                "grpc",
                signatures,
                deadline=0.25,
                kind=TimeoutError,
                match="did not respond within",
            )

    @pytest.mark.slow
    def test_a_server_that_reads_nothing(self):
        with (
            socket.create_server(("127.0.0.1", 0)) as listener,
            Client(f"127.0.0.1:{listener.getsockname()[1]}", deadline=0.25) as client,
            pytest.raises(TimeoutError, match="did not respond within"),
        ):
            client.signatures = SIGNATURES
            list(client.translate_lines(["a" * 20_000_000]))

    def test_all_addresses_of_a_host_share_it(self, monkeypatch):
        attempts = []

        def connect(self, address):
            attempts.append(address)
            time.sleep(self.gettimeout())
            raise TimeoutError

        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", n)) for n in (1, 2, 3)]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        monkeypatch.setattr(socket.socket, "connect", connect)
        fails(
            contextlib.nullcontext("many:1"),
            deadline=0.2,
            kind=TimeoutError,
            match="did not respond within",
        )
        assert attempts == [("127.0.0.1", 1)]


class TestSize:
    @pytest.mark.parametrize("signatures", [SIGNATURES, None], ids=["prediction", "metadata"])
    @pytest.mark.parametrize("head", ENDLESS_BODIES.values(), ids=ENDLESS_BODIES)
    def test_of_a_body(self, head, signatures):
        sent = []

        def answer(_):
            yield head
            for _ in range(1000):  # 64 MB
                yield b"0" * 2**16
                sent.append(2**16)

        fails(
            serve_bytes(answer),
            signatures=signatures,
            max_response_bytes=2**20,
            match="sent a response of more than 1048576 bytes: lower `max_batch",
        )
        assert sum(sent) < 2**25  # what fits into the buffers of two sockets lies between

    @pytest.mark.parametrize("line", [b"X: y\r\n", b"X: " + b"y" * 60_000 + b"\r\n", b"y" * 2**17])
    def test_of_headers(self, line):
        server = serve_bytes(
            lambda _: itertools.chain([b"HTTP/1.1 200 OK\r\n"], itertools.repeat(line, 1000))
        )
        fails(server, retries=0, max_response_bytes=2**20, match="model 'translator' at ")

    @pytest.mark.slow
    def test_of_a_body_that_is_compressed(self):
        body = gzip.compress(json.dumps({"outputs": OUTPUTS}).encode().ljust(2**26))
        assert len(body) < 2**17
        server = serve_bytes(lambda _: [http(body, "Content-Encoding: gzip")])
        with bounded_memory(2**24):
            fails(server, max_response_bytes=2**20, match=f"{INVALID_RESPONSE}'.x1f.x8b")

    @pytest.mark.parametrize("method", ["Predict", "GetModelMetadata"])
    def test_of_a_message(self, method):
        signatures = SIGNATURES if method == "Predict" else None
        server = serve_grpc_bytes({method: bytes(2**21)})
        match = "sent a response of more than 1048576 bytes"
        error = fails(server, "grpc", signatures, match=match, max_response_bytes=2**20)
        assert type(error) is OSError  # and so was not sent again

    @pytest.mark.slow
    def test_of_a_message_that_is_compressed(self):
        server = serve_grpc_bytes({"Predict": bytes(2**26)}, grpc.Compression.Gzip)
        fails(server, "grpc", match=f"{INVALID_RESPONSE}'.x1f.x8b", max_response_bytes=2**20)

    @pytest.mark.parametrize("limit", [0, 2**31])
    def test_wrong_limits(self, limit):
        with pytest.raises(
            ValueError, match="`max_response_bytes` must be above 0 and below 2 GiB"
        ):
            Client("localhost:1", max_response_bytes=limit)


class TestHttp:
    def test_a_connection_that_is_lost_in_the_middle(self):
        requests = []

        def answer(request):
            requests.append(request)
            return [http(b" " * 100)[:-50]]

        fails(
            serve_bytes(answer),
            retries=2,
            kind=ConnectionError,
            match=r"available: .*; attempts: 3$",
        )
        assert len(requests) == 3

    def test_redirects_are_not_followed(self):
        requests = []

        def answer(request):
            requests.append(request)
            return [b"HTTP/1.1 307 Go\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"]

        fails(serve_bytes(answer), match=r"failed: HTTP 307 Go, b'' \(HTTP 307\)")
        assert len(requests) == 1

    @pytest.mark.parametrize("protocol", ["rest", "grpc"])
    def test_proxies_of_the_environment_are_not_used(self, protocol, monkeypatch):
        for name in ("http_proxy", "HTTP_PROXY", "grpc_proxy", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, "http://127.0.0.1:1")
        with connected(serve(protocol, Behaviour()), protocol) as client:
            assert translate(client)[0].text == "A"

    def test_halves_of_characters_are_replaced(self):
        body = json.dumps({"outputs": OUTPUTS | {"translation": ["a\ud800\U0001f600\udc00"]}})
        with connected(serve_bytes(lambda _: [http(body.encode())])) as client:
            assert translate(client)[0].text == "a\ufffd\U0001f600\ufffd"

    @pytest.mark.slow
    @settings(max_examples=100, deadline=None)
    @given(data=st.data())
    def test_anything(self, data):
        lines = [b"HTTP/1.1 200 OK", b"HTTP/1.1 100 Continue", b"HTTP/1.1 ", b"HTTP/0.9 204"]
        headers = [b"Content-Length: ", b"Transfer-Encoding: chunked", b"Connection: ", b"\x1b[31m"]
        values = [b"-1", b"7", b"f" * 90, b"9" * 5000, b"\xb2", b'{"outputs": ', b"[", b"}"]
        ends = [b"\r\n", b"\r\n\r\n", b"\n", b" ", b"0\r\n"]
        parts = st.sampled_from(lines + headers + values + ends)
        sent = data.draw(st.lists(parts | st.binary(max_size=20), max_size=12))
        fails(serve_bytes(lambda _: sent), retries=0, deadline=20)


REST_METADATA = [
    b"",
    b"<html>",
    b"[1]",
    b"[" * 100_000,
    b'{"metadata":' * 100_000,
    b"1" * 10_000,
    b'{"metadata": {"signature_def": {"signature_def": {"s": 1}}}}',
    *(
        json.dumps(
            {
                "metadata": {
                    "signature_def": {"signature_def": {"s": {"inputs": inputs, "outputs": {}}}}
                }
            }
        ).encode()
        for inputs in (
            [],
            {"text": None},
            {"text": {"dtype": 7, "tensor_shape": {}}},
            {"text": {"dtype": "\x1b[31m", "tensor_shape": {}}},
            {"text": {"dtype": "DT_STRING"}},
            {"text": {"dtype": "DT_STRING", "tensor_shape": {"dim": 3}}},
            {"text": {"dtype": "DT_STRING", "tensor_shape": {"dim": [3]}}},
            {"text": {"dtype": "DT_STRING", "tensor_shape": {"dim": [{"size": "many"}]}}},
            {"text": {"dtype": "DT_STRING", "tensor_shape": {"dim": [{"size": 1e400}]}}},
            {"text": {"dtype": "DT_STRING", "tensor_shape": {"dim": [{"size": "1" * 5000}]}}},
            {"text": {"dtype": "DT_STRING", "tensor_shape": {"dim": [{"size": "1"}] * 300}}},
        )
    ),
]


@pytest.mark.parametrize("body", REST_METADATA, ids=lambda body: repr(body[:20] + body[-40:]))
def test_metadata_that_is_none(body):
    fails(serve_bytes(lambda _: [http(body)]), signatures=None, match=INVALID_RESPONSE)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"outputs": ' + b"[" * 100_000,
        b'{"outputs": [1]}',
        b'{"outputs": {"translation": ["A"], "score": [1]}}',
        *(
            json.dumps({"outputs": OUTPUTS | changes}).encode()
            for changes in (
                {"score": ["0.5"]},
                {"score": [None]},
                {"score": [True]},
                {"score": [[0.5], [0.5, 1]]},
                {"score": [10**400]},
                {"score": [{}]},
                {"truncated": [1]},
                {"truncated": ["no"]},
                {"translation": [1]},
                {"translation": [["A"], "A"]},
                {"translation": [{"b64": 3}]},
                {"translation": [{"b64": "*"}]},
                {"translation": [{"b65": ""}]},
                {"translation": [{}]},
            )
        ),
    ],
    ids=lambda body: repr(body[-40:]),
)
def test_a_prediction_that_is_none(body):
    fails(serve_bytes(lambda _: [http(body)]), match=INVALID_RESPONSE)


@pytest.mark.parametrize(
    "changes",
    [{"translation": ["A", "B"]}, {"translation": "A"}, {"score": [[0.5]]}, {"truncated": []}],
)
def test_a_prediction_of_another_shape(changes):
    body = json.dumps({"outputs": OUTPUTS | changes}).encode()
    fails(
        serve_bytes(lambda _: [http(body)]),
        match=r"must have one entry per row, shape \(any\)\. Received: ",
    )


@pytest.mark.parametrize(
    ("number", "shown"), [(b"NaN", "nan"), (b"-Infinity", "-inf"), (b"1e300", "inf")]
)
def test_scores_that_are_not_finite(number, shown):
    """An error in translations, as with a local model; other outputs may have such numbers."""
    body = b'{"outputs": {"translation": ["A"], "score": [%s], "truncated": [true]}}' % number
    match = rf"^the model 'translator' at .*: expected finite scores. Received: {shown} in row "
    fails(serve_bytes(lambda _: [http(body)]), match=f"{match}1$")
    with connected(serve_bytes(lambda _: [http(body)])) as client:
        batches = client.translate_batches(["a"], line_numbers=[7])
        with pytest.raises(OSError, match=f"{match}7$"):
            next(batches)
        assert str(client.predict({"text": ["a"]})["score"]) == f"[{shown}]"


@pytest.mark.parametrize(
    ("name", "spec", "given"),
    [
        ("translation", TensorSpec("DT_FLOAT", (None,)), r"DT_FLOAT of shape \(None,\)"),
        ("score", TensorSpec("DT_FLOAT", (None, 5)), r"DT_FLOAT of shape \(None, 5\)"),
    ],
)
def test_a_signature_of_other_types(name, spec, given):
    outputs = TRANSLATE.outputs | {name: spec}
    signatures = {"serving_default": TRANSLATE._replace(outputs=outputs)}
    fails(
        NOWHERE,
        signatures=signatures,
        kind=ValueError,
        match=rf"'{name}' of .* must be DT_\w+ of shape \(None,\), one per row. Received: {given}",
    )


def test_outputs_of_unknown_types():
    signatures = {"s": Signature(TRANSLATE.inputs, {"half": TensorSpec("DT_HALF", (None,))})}
    with (
        connected(NOWHERE, signatures=signatures) as client,
        pytest.raises(ValueError, match=r"expected one of DT_FLOAT, .* Received: DT_HALF"),
    ):
        client.predict({"text": ["a"]}, "s")


def tensor(sizes, data_type="DT_STRING", **values):
    made = serving_pb2.TensorProto(dtype=data_type, **values)
    for size in sizes:
        made.tensor_shape.dim.add(size=size)
    return made


def prediction(**changes) -> bytes:
    response = serving_pb2.PredictResponse()
    tensors = {
        "translation": tensor([1], string_val=[b"A"]),
        "score": tensor([1], "DT_FLOAT", float_val=[0.5]),
        "truncated": tensor([1], "DT_BOOL", bool_val=[False]),
    }
    for name, made in (tensors | changes).items():
        response.outputs[name].CopyFrom(made)
    return response.SerializeToString()


def metadata(value: bytes) -> bytes:
    response = serving_pb2.GetModelMetadataResponse()
    response.metadata["signature_def"].value = value
    return response.SerializeToString()


@pytest.mark.parametrize("data", [b"", b"\xff", b"<html>", metadata(b"\xff"), metadata(b"\n\x7f")])
def test_metadata_that_is_none_over_grpc(data, capfd):
    fails(serve_grpc_bytes({"GetModelMetadata": data}), "grpc", None, match=INVALID_RESPONSE)
    # A server that stops before its client is reported if TensorFlow has been imported.
    assert re.sub(r"I\d{4} .*Got goaway.*\n", "", capfd.readouterr().err) == ""


HOSTILE_TENSORS = {
    "many rows": tensor([10**12], string_val=[b"A"]),
    "many columns": tensor([1, 10**12]),
    "many columns of nothing": tensor([1, 10**12, 0]),
    "too many for a number": tensor([2**62] * 30),
    "many axes": tensor([1] * 100_000),
    "a negative size": tensor([-1], string_val=[b"A"]),
    "bytes of strings": tensor([1], tensor_content=b"12345678"),
    "too many values": tensor([1], string_val=[b"A", b"B"]),
    "another type": tensor([1], "DT_FLOAT", float_val=[1]),
}


@pytest.mark.parametrize("made", HOSTILE_TENSORS.values(), ids=HOSTILE_TENSORS)
def test_a_tensor_that_is_none(made):
    server = serve_grpc_bytes({"Predict": prediction(translation=made)})
    with bounded_memory(2**24):
        fails(server, "grpc", match=INVALID_RESPONSE)


@pytest.mark.parametrize(
    "made",
    [
        tensor([1], "DT_INT8", int_val=[300]),
        tensor([1], "DT_UINT8", int_val=[-1]),
        tensor([2], "DT_FLOAT", tensor_content=b"1234567"),
        tensor([0], "DT_FLOAT", tensor_content=b"1234"),
        tensor([-2, -1], "DT_FLOAT", tensor_content=b"12345678"),
    ],
)
def test_tensors_whose_values_do_not_fit(made):
    with pytest.raises(ValueError, match=r"expected .* Received: "):
        messages.read_tensor(made)


@contextlib.contextmanager
def bounded_memory(num_bytes):
    """Fails if Python and NumPy take more at once."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < num_bytes
    finally:
        tracemalloc.stop()


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["DT_STRING", "DT_INT8", "-1", 2**63, -(10**400), [[]], [[], [1]]]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(max_size=3) | st.sampled_from(["b64", "size", "dim"]), inner, max_size=3
        )
    ),
    max_leaves=12,
)
EVERY_TYPE = Signature(
    {},
    {data_type.lower(): TensorSpec(data_type, None) for data_type in messages._FIELDS},
)


@st.composite
def json_answers(draw):
    """Answers of which parts are anything."""
    info = {
        "dtype": draw(JSON),
        "tensor_shape": draw(JSON | st.builds(lambda dim: {"dim": dim}, JSON)),
    }
    signatures = {"s": {"inputs": {"x": info}, "outputs": draw(JSON)}}
    return draw(
        st.sampled_from(
            [
                draw(JSON),
                {"metadata": {"signature_def": {"signature_def": signatures}}},
                {"outputs": {name: draw(JSON) for name in EVERY_TYPE.outputs}},
                {"error": draw(JSON)},
            ]
        )
    )


@st.composite
def damaged(draw, data):
    """Bytes of which some are others, are there twice or are left out."""
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(data)))
        stop = draw(st.integers(start, min(start + 9, len(data))))
        data = (
            data[:start] + draw(st.binary(max_size=9) | st.just(data[start:stop] * 2)) + data[stop:]
        )
    return data


def try_to_read(read, body, *arguments):
    """Calls a function that reads what may be an answer; it may only refuse it."""
    with contextlib.suppress(ValueError):
        read(body, *arguments)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(body=json_answers().map(lambda found: json.dumps(found).encode()) | st.binary(max_size=50))
def test_reads_no_json_but_answers(body):
    with bounded_memory(2**24):
        try_to_read(responses.signatures_from_json, body)
        try_to_read(responses.outputs_from_json, body, EVERY_TYPE, 2**16)
        for name, spec in EVERY_TYPE.outputs.items():
            one = Signature({}, {name: spec})
            try_to_read(responses.outputs_from_json, body, one, 2**16)
        error = responses.error_from_json(body)
    assert error is None or isinstance(error, str)


def every_tensor() -> bytes:
    values = {"DT_FLOAT": "float_val", "DT_DOUBLE": "double_val", "DT_STRING": "string_val"}
    values |= {"DT_INT64": "int64_val", "DT_BOOL": "bool_val"}
    response = serving_pb2.PredictResponse()
    for name, spec in EVERY_TYPE.outputs.items():
        field = values.get(spec.data_type, "int_val")
        value = b"A" if field == "string_val" else 1
        response.outputs[name].CopyFrom(tensor([1, 2], spec.data_type, **{field: [value] * 2}))
    return response.SerializeToString()


def every_signature() -> bytes:
    signatures = serving_pb2.SignatureDefMap()
    for name, made in (("x", tensor([-1, 3])), ("y", tensor([]))):
        info = signatures.signature_def["s"].inputs[name]
        info.dtype = made.dtype
        info.tensor_shape.CopyFrom(made.tensor_shape)
    return signatures.SerializeToString()


SIZES = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-1, 3), max_size=5)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(body=damaged(every_tensor()), sizes=SIZES, content=st.binary(max_size=16))
def test_reads_no_messages_but_answers(body, sizes, content):
    with bounded_memory(2**24):
        try_to_read(responses.outputs_from_proto, body, EVERY_TYPE, 2**16)
        for spec in EVERY_TYPE.outputs.values():
            for values in ({}, {"tensor_content": content}):
                made = tensor(sizes, spec.data_type, **values)
                try_to_read(messages.read_tensor, made, 2**16)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(body=damaged(metadata(every_signature())) | damaged(every_signature()).map(metadata))
def test_reads_no_signatures_but_answers(body):
    with bounded_memory(2**24):
        try_to_read(responses.signatures_from_proto, body)


def test_the_undamaged_is_read():
    outputs = responses.outputs_from_proto(every_tensor(), EVERY_TYPE, 200)
    assert {name: array.shape for name, array in outputs.items()} == dict.fromkeys(
        EVERY_TYPE.outputs, (1, 2)
    )
    [signature] = responses.signatures_from_proto(metadata(every_signature())).values()
    assert signature.inputs["x"] == TensorSpec("DT_STRING", (None, 3))


# ---- How much an answer holds ----


@pytest.mark.parametrize("depth", [33, 64, 65, 900, 100_000])
def test_lists_in_each_other(depth):
    values = b"[" * depth + b"0" + b"]" * depth
    body = b'{"outputs": {"translation": ["A"], "score": %s, "truncated": [false]}}' % values
    fails(serve_bytes(lambda _: [http(body)]), match=INVALID_RESPONSE)


# What takes few bytes and many objects, beside what was asked for.
MANY_VALUES = {
    "lists": b"[" + b"[]," * 2**20 + b"[]]",
    "objects": b"[" + b"{}," * 2**20 + b"{}]",
    "numbers": b"[" + b"0.5," * 2**20 + b"1]",
    "strings": b"[" + b'"ab",' * 2**20 + b'""]',
    "keys": b"{" + b",".join(b'"%d":0' % number for number in range(2**20)) + b"}",
}


@pytest.mark.slow
@pytest.mark.representatives("lists", "keys")
@pytest.mark.parametrize("values", MANY_VALUES.values(), ids=MANY_VALUES)
def test_values_that_nobody_asked_for(values):
    body = b'{"unused": %s, "outputs": %s}' % (values, json.dumps(OUTPUTS).encode())
    most = max_num_tokens(TRANSLATE, 32, 2**27)
    for read in (
        lambda: responses.outputs_from_json(body, TRANSLATE, most),
        lambda: responses.signatures_from_json(body),
    ):
        with bounded_memory(2**16), pytest.raises(ValueError, match=r"^more than \d+ strings, val"):
            read()
    with bounded_memory(2**16):
        assert responses.error_from_json(body) is None
    fails(serve_bytes(lambda _: [http(body)]), match=INVALID_RESPONSE)


def in_tensor(content: bytes) -> bytes:
    """A response with one output, whose tensor has these bytes."""
    response = serving_pb2.PredictResponse()
    response.outputs["score"].MergeFromString(content)
    return response.SerializeToString()


MANY_FIELDS = {
    "outputs": b"\x0a\0" * 2**20,
    "sizes": in_tensor(b"\x12" + b"\x80\x80\x80\x01" + b"\x12\0" * 2**20),
    "strings": in_tensor(b"\x42\0" * 2**20),
    "unknown": b"\x78\0" * 2**20,
}


@pytest.mark.representatives("sizes", "unknown")
@pytest.mark.slow
@pytest.mark.parametrize("body", MANY_FIELDS.values(), ids=MANY_FIELDS)
def test_fields_that_nobody_asked_for(body):
    most = max_num_tokens(TRANSLATE, 32, 2**27)
    with bounded_memory(2**16), pytest.raises(ValueError, match=r"^more than \d+ fields$"):
        responses.outputs_from_proto(body, TRANSLATE, most)
    with bounded_memory(2**16), pytest.raises(ValueError):
        responses.signatures_from_proto(body)
    fails(serve_grpc_bytes({"Predict": body}), "grpc", match=INVALID_RESPONSE)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["int_val", "int64_val", "bool_val"])
def test_packed_numbers_are_counted(name):
    """A byte of an `int64_val` would take eight once it is parsed."""
    values = [1] * 10 if name == "bool_val" else [1, 2**31 - 1] * 5
    body = in_tensor(serving_pb2.TensorProto(**{name: values}).SerializeToString())
    kind = serving_pb2.PredictResponse.DESCRIPTOR
    check_message(body, kind, 4 + 10)
    for read in (
        lambda: check_message(body, kind, 13),
        lambda: responses.outputs_from_proto(body, TRANSLATE, 13),
    ):
        with pytest.raises(ValueError, match=r"^more than 13 fields$"):
            read()
    field = serving_pb2.TensorProto.DESCRIPTOR.fields_by_name[name].number
    body = in_tensor(bytes([field << 3 | 2]) + b"\x80\x80\x80\x08" + bytes(2**24))
    with bounded_memory(2**16), pytest.raises(ValueError, match=r"^more than 500000 fields$"):
        responses.outputs_from_proto(body, TRANSLATE, 500_000)


@pytest.mark.slow
def test_deadline_covers_the_counting_of_fields(monkeypatch):
    """A signature that claims wide outputs may have many fields."""
    outputs = TRANSLATE.outputs | {"wide": TensorSpec("DT_FLOAT", (None, 2**40))}
    signatures = {"serving_default": TRANSLATE._replace(outputs=outputs)}
    counted = []
    read_varint = response_size._read_varint
    monkeypatch.setattr(
        response_size, "_read_varint", lambda *a: counted.append(1) or read_varint(*a)
    )
    server = serve_grpc_bytes({"Predict": b"\x78\0" * 2**22})
    match = "did not respond within 0.5 seconds"
    fails(server, "grpc", signatures, TimeoutError, match, deadline=0.5)
    assert len(counted) < 2**22


@pytest.mark.slow
def test_deadline_covers_the_counting_of_tokens(monkeypatch):
    """As of fields, over REST."""
    outputs = TRANSLATE.outputs | {"wide": TensorSpec("DT_FLOAT", (None, 2**40))}
    signatures = {"serving_default": TRANSLATE._replace(outputs=outputs)}
    counted = []
    check_time = response_size._check_time
    monkeypatch.setattr(
        response_size, "_check_time", lambda *a: counted.append(1) or check_time(*a)
    )
    server = serve_bytes(lambda _: [http(b'{"outputs": [' + b"1," * 2**22 + b"1]}")])
    fails(server, "rest", signatures, TimeoutError, "did not respond within 0.5 sec", deadline=0.5)
    assert 0 < len(counted) < 2**22


def number_of_tokens(value):
    """As `check_json` counts them in what `json.dumps` makes of a value."""
    if isinstance(value, str):
        return 1
    if isinstance(value, dict):
        inside = [1 + number_of_tokens(part) for part in value.values()]
    elif isinstance(value, list):
        inside = [number_of_tokens(part) for part in value]
    else:
        return 0
    return 1 + max(len(inside) - 1, 0) + sum(inside)


TEXTS = st.text(st.sampled_from('"\\,[{a\n\0é😀'), max_size=6)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    value=st.recursive(
        st.none() | st.integers() | TEXTS,
        lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
        max_leaves=20,
    ),
    as_ascii=st.booleans(),
)
def test_tokens_of_json_are_counted(value, as_ascii):
    body = json.dumps(value, ensure_ascii=as_ascii).encode()
    count = number_of_tokens(value)
    check_json(body, count)
    if count:
        with pytest.raises(ValueError, match=f"^more than {count - 1} strings"):
            check_json(body, count - 1)


def test_fields_of_a_message_are_counted():
    """Of two outputs: entry, key, tensor; type, shape, two axes with their sizes; values."""
    response = serving_pb2.PredictResponse()
    response.outputs["a"].CopyFrom(tensor([1, 2], "DT_STRING", string_val=[b"A", b"B"]))
    response.outputs["b"].CopyFrom(tensor([1, 2], "DT_FLOAT", float_val=[1, 2]))
    body, kind = response.SerializeToString(), serving_pb2.PredictResponse.DESCRIPTOR
    check_message(body, kind, 2 * 9 + 3)
    with pytest.raises(ValueError, match=r"^more than 20 fields$"):
        check_message(body, kind, 20)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(None,), (None, 4), (None, None), (None, 200, 300), None])
def test_as_much_as_a_signature_says_is_read(shape):
    """Strings in base64 have most tokens, and a list for every one of them."""
    num_rows = 3
    signature = Signature({}, {"x": TensorSpec("DT_STRING", shape)})
    sizes = [num_rows, *(size or 50 for size in (shape or (None, 7))[1:]), 1]
    row = {"b64": "QQ=="}
    for size in reversed(sizes):
        row = [row] * size
    body = json.dumps({"outputs": row}).encode()
    most = max_num_tokens(signature, num_rows, 2**27)
    found = responses.outputs_from_json(body, signature, most)["x"]
    assert found.shape == tuple(sizes) and set(found.flat) == {b"A"}


def test_what_a_signature_may_claim_is_limited():
    signature = Signature({}, {"x": TensorSpec("DT_FLOAT", (None, 10**9))})
    assert max_num_tokens(signature, 32, 2**27) == 2**23


@pytest.mark.parametrize("protocol", ["rest", "grpc"])
@pytest.mark.parametrize("code", ["INVALID_ARGUMENT", "NOT_FOUND", "UNAVAILABLE", "UNIMPLEMENTED"])
def test_texts_of_a_server_are_shown_escaped(protocol, code):
    behaviour = Behaviour(failures=[(code, "a\x1b]0;b\x07\n\u202ec\x9b31m é" + "x" * 5000)] * 3)
    kind = (ValueError, OSError)
    message = str(fails(serve(protocol, behaviour), protocol, kind=kind, retries=0))
    assert r"a\x1b]0;b\x07 \u202ec\x9b31m éxxx" in message
    assert len(message) < 800


def test_what_is_no_json_is_shown_escaped():
    head = b"HTTP/1.1 500 \x1b[31mred\x9b\r\n\r\n"
    fails(serve_bytes(lambda _: [head, "\x1b[31m\u202e".encode()]), match=r"x1b\[31mred.x9b")


def test_names_of_a_server_are_shown_escaped_and_few():
    signatures = {f"\x1b[31m{number:04}" + "x" * 5000: TRANSLATE for number in range(1000)}
    with (
        connected(NOWHERE, signatures=signatures) as client,
        pytest.raises(ValueError, match=r"'no'; it has .* and 980 more$") as caught,
    ):
        client.predict({"text": ["a"]}, "no")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 5000


@given(text=st.text(st.characters(), max_size=30), max_length=st.integers(1, 30))
def test_printable(text, max_length):
    shown = printable(text, max_length)
    assert shown.isprintable()
    assert shown.endswith("...") or len(text) <= max_length
    if text.isprintable() and len(text) <= max_length:
        assert shown == " ".join(text.split())


# What 4 MB after a quote consist of. They are counted in a second if they are read once, and in
# hours if the search starts again at each quote.
UNCLOSED_STRINGS = [rb"\"", rb"\a", rb"\\"]


@pytest.mark.slow
def test_a_string_without_an_end_is_read_once():
    code = (
        "from tf_transformer.predictors.client.response_size import check_json\n"
        f"for pair in {UNCLOSED_STRINGS}:\n"
        "    check_json(b'\"' + pair * 2_000_000, 1)\n"
        "    check_json(b'[' + b'\"' + pair * 2_000_000 + b'\\\\', 2)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)

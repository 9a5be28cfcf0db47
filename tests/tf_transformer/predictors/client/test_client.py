"""The client against a stand-in for TF Serving, over both protocols."""

import concurrent.futures
import contextlib
import itertools
import math
import pathlib
import random
import re
import socket
import subprocess
import sys
import threading
import traceback

import numpy as np
import pytest

from tests.few_packages import run_with_packages
from tests.serving_stub import Behaviour, serve
from tf_transformer.errors import InputError
from tf_transformer.predictors.client import (
    Client,
    Translation,
    messages,
    protocol,
    retries,
    serving_pb2,
)
from tf_transformer.predictors.client import client as client_module
from tf_transformer.predictors.client.failures import OverloadError
from tf_transformer.predictors.signature import numpy_type

ROOT = pathlib.Path(__file__).parents[4]
SERVING_PAGE = ROOT / "docs" / "serving.md"


@pytest.fixture(params=["rest", "grpc"])
def protocol_name(request) -> str:
    return request.param


@pytest.fixture
def behaviour() -> Behaviour:
    return Behaviour()


@pytest.fixture
def connect(protocol_name, behaviour, monkeypatch):
    """Makes clients of one server; their pauses before retries are short."""
    monkeypatch.setattr(retries, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(retries, "_FIRST_MATE_PAUSE", 0.001)
    with serve(protocol_name, behaviour) as address, contextlib.ExitStack() as clients:

        def connect(**arguments):
            made = Client(address, protocol=protocol_name, **arguments)
            return clients.enter_context(made)

        yield connect


@contextlib.contextmanager
def raises(kind: type[Exception], match: str):
    """As `pytest.raises`, and the command line would report it in one line with status 2."""
    with pytest.raises(kind, match=match) as caught:
        yield caught
    assert isinstance(caught.value, InputError | OSError)
    origin = pathlib.Path(traceback.extract_tb(caught.tb)[-1].filename)
    assert origin.is_relative_to(ROOT / "tf_transformer")


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def test_translates_lines_in_order(connect, behaviour):
    lines = ["Guten Tag", b"na\xc3\xafve", "", "你好 😀", "x" * 21, 'a "quoted"\\ \x00\n tab\t']
    found = list(connect(max_batch_size=2).translate_lines(lines))
    texts = [line.decode() if isinstance(line, bytes) else line for line in lines]
    assert [translation.text for translation in found] == [
        text.encode().upper().decode() for text in texts
    ]
    scores = [float(np.float32(-0.1 * len(text.encode()))) for text in texts]
    assert [translation.score for translation in found] == scores
    assert [translation.truncated for translation in found] == [False] * 4 + [True, False]
    assert all(type(truncated) is bool for *_, truncated in found)
    assert all(isinstance(translation, Translation) for translation in found)
    assert [len(texts) for texts in behaviour.requests] == [2, 2, 2]
    assert behaviour.metadata_requests == 1


def test_options_go_to_every_row(connect):
    options = {"beam_size": 2, "length_penalty": 0.5}
    found = list(connect(max_batch_size=2).translate_lines([*"abc"], "translate_options", options))
    assert [translation.text for translation in found] == [
        f"{text} beam 2 penalty 0.5" for text in "ABC"
    ]


def test_options_row_by_row(connect):
    inputs = {"text": ["a", "b"], "beam_size": [1, 4], "length_penalty": np.float32([0, 1])}
    outputs = connect().predict(inputs, "translate_options")
    assert outputs["translation"] == ["A beam 1 penalty 0", "B beam 4 penalty 1"]


def test_shows_progress_on_a_terminal(connect, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    list(connect().translate_lines(["a", "b"]))
    assert "2/2" in capsys.readouterr().err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    list(connect().translate_lines(["a", "b"]))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("one_by_one", [True, False])
def test_numbers(connect, behaviour, one_by_one):
    behaviour.one_by_one = one_by_one
    inputs = {
        "ids": [[1, 2, 3], [0, 0, 0], [2**31 - 1, -(2**31) + 1, 7]],
        "large": [2**62 + 1, 0, -5],
        "flag": [True, False, True],
        "exact": [0.1, 2, -1e300],
    }
    outputs = connect(max_batch_size=2).predict(inputs, "numbers")
    assert outputs == {
        "ids": [[-1, -2, -3], [0, 0, 0], [-(2**31) + 1, 2**31 - 1, -7]],
        "large": inputs["large"],
        "flag": [False, True, False],
        "exact": inputs["exact"],
        "best": [["first", "second"]] * 3,
    }
    assert {name: type(values[0]) for name, values in outputs.items()} == {
        "ids": list,
        "large": int,
        "flag": bool,
        "exact": float,
        "best": list,
    }


def test_any_bytes_both_ways(connect):
    texts = [b"\xff\xfe", b"abc", "é", b"\x00"]
    outputs = connect().predict({"text": texts}, "reverse")
    assert outputs == {"reversed_bytes": [b"\xfe\xff", b"cba", b"\xa9\xc3", b"\x00"]}


def test_bytes_in_a_text_are_replaced(connect):
    # TF Serving writes them to its JSON as they are.
    outputs = connect().predict({"text": [b"a\xffb", "é"]}, "mirror")
    assert outputs == {"same": ["a\ufffdb", "é"]}


def test_no_rows_no_request(connect, behaviour):
    assert connect().predict({"text": []}) == {}
    assert list(connect().predict_batches({"text": []})) == []
    assert list(connect().translate_lines([])) == []
    assert behaviour.requests == []
    assert behaviour.metadata_requests == 0


def test_no_values_no_request(connect, behaviour):
    client = connect(max_batch_size=1, concurrency=1)
    with raises(
        ValueError, r"'ids' must have at least one value per row. Received: shape \(1, 0\), in"
    ):
        client.predict({"ids": [[], []]}, "widths")
    assert behaviour.requests == []
    assert client.predict({"ids": [[5, 6]]}, "widths") == {"width": [2]}


def test_rows_that_are_gone_are_not_sent(connect, behaviour):
    texts = ["a", "b", "c"]
    batches = connect(max_batch_size=1, concurrency=1).predict_batches({"text": texts})
    assert next(batches)["translation"] == ["A"]
    texts.clear()
    with raises(ValueError, "input 'text' must have one entry per row. Received: none in row 3"):
        list(batches)
    assert behaviour.requests == [[b"a"], [b"b"]]


@pytest.mark.parametrize("num_rows", [1, 31, 32, 33, 64, 65])
def test_batches(connect, behaviour, num_rows):
    texts = [f"line {row}" for row in range(num_rows)]
    batches = list(connect().predict_batches({"text": texts}))
    assert [len(batch["translation"]) for batch in batches] == (
        [32] * (num_rows // 32) + [num_rows % 32] * (num_rows % 32 > 0)
    )
    found = [text for batch in batches for text in batch["translation"]]
    assert found == [text.upper() for text in texts]
    assert len(behaviour.requests) == len(batches)


@pytest.mark.slow
def test_a_late_answer_keeps_its_place(connect, behaviour):
    behaviour.slow = 0.2
    texts = ["slow", "b", "c", "d", "slow too", "f"]
    outputs = connect(max_batch_size=1, concurrency=3).predict({"text": texts})
    assert outputs["translation"] == [text.upper() for text in texts]


def test_concurrency_is_reached(connect, behaviour):
    behaviour.together = 3
    outputs = connect(max_batch_size=1, concurrency=3).predict({"text": list("abcdefghij")})
    assert outputs["translation"] == list("ABCDEFGHIJ")
    assert behaviour.most_at_once >= 3


@pytest.mark.slow
def test_concurrency_is_not_exceeded(connect, behaviour):
    behaviour.together = 3
    behaviour.patience = 0.2
    connect(max_batch_size=1, concurrency=2).predict({"text": list("abcd")})
    assert len(behaviour.requests) == 4
    assert behaviour.most_at_once <= 2


def test_does_not_run_ahead(connect, behaviour):
    batches = connect(max_batch_size=1, concurrency=2).predict_batches({"text": list("abcdefgh")})
    assert next(batches)["translation"] == ["A"]
    batches.close()
    assert len(behaviour.requests) <= 3


def test_what_came_before_a_failure_is_there(connect, behaviour):
    client = connect(max_batch_size=1, concurrency=2)
    texts = ["a", "b", "refuse", *"defghijkl"]
    found = []
    with raises(ValueError, "refuses the request: cannot refuse"):
        for translation in client.translate_lines(texts):
            found.append(translation.text)
    assert found == ["A", "B"]
    assert len(behaviour.requests) <= 6
    assert client.predict({"text": ["x"]})["translation"] == ["X"]


def test_a_failed_call_retries_nothing_that_is_left(connect, behaviour, monkeypatch):
    monkeypatch.setattr(retries, "_FIRST_PAUSE", 1000.0)
    behaviour.together = 2
    client = connect(max_batch_size=1, concurrency=2, deadline=10000)
    before = set(threading.enumerate())
    with raises(ValueError, "does not have the model"):
        client.predict({"text": ["gone", "busy"]})
    for thread in set(threading.enumerate()) - before:
        if thread.name.endswith("(run)"):
            thread.join(10)
            assert not thread.is_alive()
    assert sorted(behaviour.requests) == [[b"busy"], [b"gone"]]


@pytest.mark.parametrize("code", ["UNAVAILABLE", "RESOURCE_EXHAUSTED", "LOST"])
def test_retries(connect, behaviour, code):
    client = connect(retries=3)
    behaviour.failures = [code] * 3
    assert client.predict({"text": ["a"]})["translation"] == ["A"]
    assert behaviour.requests == [[b"a"]] * 4


@pytest.mark.parametrize("protocol_name", ["rest"], indirect=True)
@pytest.mark.parametrize("status", [502, 504])
def test_retries_behind_a_proxy(connect, behaviour, status):
    behaviour.failures = [status]
    assert connect().predict({"text": ["a"]})["translation"] == ["A"]
    assert len(behaviour.requests) == 2


@pytest.mark.parametrize("retries", [0, 2])
def test_retries_end(connect, behaviour, retries):
    behaviour.failures = ["UNAVAILABLE"] * 9
    message = (
        rf"'translator' at .* is not available: as the script says.*; attempts: {retries + 1}$"
    )
    with raises(ConnectionError, message):
        connect(retries=retries).predict({"text": ["a"]})
    assert len(behaviour.requests) == retries + 1


# What TF Serving fails all requests of a batch with because of one of them.
MERGED = ("INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE", "INTERNAL", "UNKNOWN")


@pytest.mark.parametrize("code", MERGED)
def test_another_callers_fault(connect, behaviour, code):
    behaviour.failures = [code]
    texts = [f"line {row}" for row in range(5)]
    outputs = connect(max_batch_size=3, concurrency=1).predict({"text": texts})
    assert outputs["translation"] == [text.upper() for text in texts]
    assert [len(texts) for texts in behaviour.requests] == [3, 1, 1, 1, 2]


@pytest.mark.parametrize(
    ("code", "kind"), [("INVALID_ARGUMENT", ValueError), ("INTERNAL", OSError)]
)
def test_a_row_at_fault_is_sent_alone_and_in_a_request_that_it_fills(
    connect, behaviour, code, kind
):
    behaviour.failures = [code] * 9
    with raises(kind, r"as the script says.* \(row 1, sent again alone\)$"):
        connect(max_batch_size=3).predict({"text": ["a"]})
    assert behaviour.requests == [[b"a"], [b"a"], [b"a"] * 3]


@pytest.mark.parametrize("bad_row", [0, 4, 6, 9])
@pytest.mark.parametrize("concurrency", [1, 4])
def test_the_row_at_fault_is_named(connect, behaviour, bad_row, concurrency):
    texts = [f"line {row}" for row in range(10)]
    texts[bad_row] = "refuse"
    client = connect(max_batch_size=5, concurrency=concurrency)
    found = []
    with raises(ValueError, rf"cannot refuse \(row {bad_row + 1}, sent again alone\)$"):
        for translation in client.translate_lines(texts):
            found.append(translation.text)
    assert found == [text.upper() for text in texts[: bad_row // 5 * 5]]
    sent = [text for texts in behaviour.requests for text in set(texts)]
    assert all(sent.count(text.encode()) <= 3 for text in texts)


@pytest.mark.slow
def test_rows_of_one_call_are_not_merged_with_those_sent_again(connect, behaviour):
    behaviour.batch_seconds, behaviour.together, behaviour.max_rows = 0.1, 2, 8
    client = connect(max_batch_size=2, concurrency=2)
    with raises(ValueError, r"cannot refuse \(row 4, sent again alone\)$"):
        client.predict({"text": ["a", "b", "c", "refuse"]})
    assert behaviour.requests[2:6] == [[b"a"], [b"b"], [b"c"], [b"refuse"]]
    assert behaviour.requests[6:] == [[b"refuse"] * 2]


# Requests of other callers that no tensors of valid rows can be merged with.
OTHER_TYPE, OTHER_SHAPE = {"text": [1.5]}, {"text": [[b"a", b"b"]]}


@pytest.mark.parametrize("mate", [OTHER_TYPE, OTHER_SHAPE], ids=["type", "shape"])
def test_dense_traffic_of_other_types_or_shapes_costs_no_row(connect, behaviour, mate):
    """Each batch has such a request with a probability of one half."""
    behaviour.batch_seconds = 0.001
    behaviour.batch_mates = random.Random(0).choices([mate, None], k=1000)
    client = connect()
    for number in range(20):
        texts = [f"line {number}"] * (1 + number % 3)
        assert client.predict({"text": texts})["translation"] == [text.upper() for text in texts]
    assert len(behaviour.requests) > 30


@pytest.mark.parametrize("mate", [OTHER_TYPE, OTHER_SHAPE], ids=["type", "shape"])
def test_no_row_is_blamed_for_tensors_of_other_callers(connect, behaviour, mate):
    behaviour.batch_seconds, behaviour.batch_mates = 0.001, itertools.repeat(mate)
    with raises(TimeoutError, "0.3 seconds, because it merged the request each time ") as caught:
        connect(deadline=0.3).predict({"text": ["a", "b"]})
    assert "row" not in str(caught.value)
    assert len(behaviour.requests) > 3
    assert all(texts == [b"a", b"b"] for texts in behaviour.requests)


@pytest.mark.parametrize("max_rows", [4, 32])
def test_invalid_rows_of_other_callers_cost_no_row(connect, behaviour, max_rows):
    """Even if they are in every batch that has room for them."""
    behaviour.batch_seconds, behaviour.max_rows = 0.001, max_rows
    behaviour.batch_mates = itertools.repeat({"text": [b"refuse"]})
    client = connect()
    assert client.predict({"text": ["a", "b", "c"]})["translation"] == ["A", "B", "C"]
    assert behaviour.requests[-1] == [b"c"] * max_rows
    with raises(ValueError, r"cannot refuse \(row 2, sent again alone\)$"):
        client.predict({"text": ["a", "refuse", "c"]})


@pytest.mark.slow
def test_rows_of_one_call_that_cannot_be_merged(connect, behaviour):
    behaviour.batch_seconds, behaviour.together = 0.01, 4
    ids = [[1] * width for width in range(1, 9)]
    outputs = connect(max_batch_size=1, concurrency=4).predict({"ids": ids}, "widths")
    assert outputs == {"width": list(range(1, 9))}
    assert len(behaviour.requests) > 8


@pytest.mark.slow
def test_more_calls_than_the_server_has_threads(connect, behaviour, caplog):
    """What this means is said at once, and once, though the call waits and succeeds."""
    behaviour.max_calls, behaviour.together, behaviour.patience = 1, 2, 0.1
    outputs = connect(max_batch_size=1, concurrency=4, retries=1000).predict({"text": list("abcd")})
    assert outputs["translation"] == list("ABCD")
    assert len(behaviour.requests) > 4
    (record,) = caplog.records
    assert re.fullmatch(
        "the model 'translator' at .* refuses calls because all threads of its gRPC port are busy; "
        r"start TF Serving with --grpc_max_threads=64 \(its default is 4 per processor\), or send "
        "fewer requests at once: Server Threadpool Exhausted; waiting",
        record.getMessage(),
    )


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (("RESOURCE_EXHAUSTED", "Server Threadpool Exhausted"), "--grpc_max_threads=64"),
        (
            ("RESOURCE_EXHAUSTED", "Run() timeout exceeded while waiting in batching queue"),
            "has more requests than it can answer: Run",
        ),
        (
            (
                "UNAVAILABLE",
                "The batch scheduling queue to which this task was submitted is full; currently 9",
            ),
            "has more requests than it can answer: The batch",
        ),
    ],
)
def test_a_server_that_stays_overloaded(connect, behaviour, failure, message):
    behaviour.failures = [failure] * 2
    with raises(OverloadError, rf"{message}.*; attempts: 2$"):
        connect(retries=1).predict({"text": ["a"]})


def test_what_is_sent_again_keeps_its_shape(connect, behaviour):
    behaviour.failures = ["FAILED_PRECONDITION"]
    inputs = {
        "ids": [[1, 2, 3], [4, 5, 6]],
        "large": [1, 2],
        "flag": [True, False],
        "exact": [0.5, 1.5],
    }
    outputs = connect().predict(inputs, "numbers")
    assert outputs["ids"] == [[-1, -2, -3], [-4, -5, -6]]
    assert outputs["flag"] == [False, True]
    assert outputs["best"] == [["first", "second"]] * 2


def test_what_is_sent_again_waits_for_the_server(connect, behaviour):
    behaviour.failures = ["INTERNAL", "UNAVAILABLE"]
    assert connect().predict({"text": ["a", "b"]})["translation"] == ["A", "B"]
    assert behaviour.requests == [[b"a", b"b"], [b"a"], [b"a"], [b"b"]]


@pytest.mark.slow
def test_what_is_sent_again_keeps_the_deadline(connect, behaviour):
    client = connect(deadline=0.5)
    behaviour.failures, behaviour.slow = ["INTERNAL"], 30
    with raises(
        TimeoutError, r"not respond within 0\.5 seconds: .*; its first response was: .*script says"
    ):
        client.predict({"text": ["slow", "b"]})
    assert behaviour.requests == [[b"slow", b"b"], [b"slow"]]


def test_no_row_is_sent_again_while_another_request_is_under_way(connect, behaviour):
    client = connect()
    failed, late = concurrent.futures.Future(), concurrent.futures.Future()
    failed.set_result(client_module._FailedRequest(range(1), {}, ValueError("refused"), 0.01))
    with raises(
        TimeoutError, "not respond within 60 seconds: .*; its first response was: refused$"
    ):
        client._finish(failed, [late], send=None)
    assert behaviour.requests == []


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        ("NOT_FOUND", ValueError),
        ("PERMISSION_DENIED", OSError),
        ("UNIMPLEMENTED", OSError),
        (("FAILED_PRECONDITION", 'Serving signature key "serving_default" not found.'), ValueError),
        (("INVALID_ARGUMENT", "Task size 9 is larger than maximum input batch size 8"), ValueError),
    ],
)
def test_does_not_send_again_what_no_other_row_can_cause(connect, behaviour, failure, kind):
    behaviour.failures = [failure]
    with raises(kind, "model 'translator' at "):
        connect().predict({"text": ["a", "b"]})
    assert behaviour.requests == [[b"a", b"b"]]


def test_deadline(connect, behaviour):
    behaviour.slow = 30
    client = connect(deadline=0.3)
    message = r"within 0\.3 seconds: raise `deadline` \(--deadline\) or lower `max_batch_size`"
    with raises(TimeoutError, message):
        client.predict({"text": ["slow"]})
    assert len(behaviour.requests) == 1


def test_deadline_covers_the_retries(connect, behaviour):
    client = connect(deadline=2, retries=100)
    behaviour.failures = ["UNAVAILABLE"] * 100
    assert client.signatures
    client.deadline = 0.2
    with raises((ConnectionError, TimeoutError), "translator"):
        client.predict({"text": ["a"]})
    assert behaviour.failures


def test_nobody_there(protocol_name, monkeypatch):
    monkeypatch.setattr(retries, "_FIRST_PAUSE", 0.001)
    address = f"127.0.0.1:{free_port()}"
    with Client(address, protocol=protocol_name, retries=2) as client:
        # No name of a class on the way.
        pattern = rf"at {address} is not available: [^_]*[Rr]efused.* 8501 for REST"
        with raises(ConnectionError, pattern):
            client.predict({"text": ["a"]})


def test_waits_for_a_server_that_is_starting(protocol_name, behaviour, monkeypatch):
    monkeypatch.setattr(retries, "_MAX_PAUSE", 0.1)
    port = free_port()
    asked = threading.Event()
    with (
        contextlib.ExitStack() as servers,
        Client(f"127.0.0.1:{port}", protocol=protocol_name, retries=1000) as client,
    ):
        attempt = client._server.read_signatures

        def attempt_and_tell(timeout):
            try:
                return attempt(timeout)
            finally:
                asked.set()

        def start():
            asked.wait()
            servers.enter_context(serve(protocol_name, behaviour, port))

        monkeypatch.setattr(client._server, "read_signatures", attempt_and_tell)
        starter = threading.Thread(target=start)
        starter.start()
        assert client.predict({"text": ["a"]})["translation"] == ["A"]
        starter.join()


def test_the_other_protocols_port(protocol_name, behaviour, monkeypatch):
    monkeypatch.setattr(retries, "_FIRST_PAUSE", 0.001)
    other = {"rest": "grpc", "grpc": "rest"}[protocol_name]
    with serve(other, behaviour) as address:
        client = Client(address, protocol=protocol_name, retries=1, deadline=10)
        with raises(ConnectionError, "8501 for REST and 8500 for gRPC"), client:
            client.predict({"text": ["a"]})


def test_absent_model(connect, behaviour):
    with raises(ValueError, r"does not have the model 'other' at .*Latest\(other\)"):
        connect(model="other").predict({"text": ["a"]})
    assert behaviour.metadata_requests == 1


def test_versions(connect):
    assert connect(version=1).predict({"text": ["a"]})["translation"] == ["A"]
    with raises(ValueError, r"not have the version 7 of model 'translator' at .*translator, 7\)"):
        connect(version=7).predict({"text": ["a"]})


def test_a_model_without_signatures(connect):
    client = connect()
    client.signatures = {}
    with raises(ValueError, r"has no signature 'no'; it has none$"):
        client.predict({"text": ["a"]}, "no")


def test_absent_signature(connect, behaviour):
    message = r"model 'translator' at 127.* has no signature 'no'; it has 'mirror', 'numbers', "
    with raises(ValueError, message):
        connect().predict({"text": ["a"]}, "no")
    with raises(ValueError, message):
        list(connect().translate_lines(["a"], "no"))
    assert behaviour.requests == []


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            {"text": ["a"], "beam_size": [1]},
            "signature 'translate_options' also needs the input 'length_penalty'; its inputs are "
            "'beam_size', 'length_penalty', 'text'",
        ),
        (
            {"text": ["a"], "beam_size": [1], "length_penalty": [1], "beams": [1]},
            "has no input 'beams'; its inputs are 'beam_size', ",
        ),
        ({"text": ["a", "b"], "beam_size": [1]}, "one entry per row. .*'text': 2, 'beam_size': 1"),
        ({}, "every input must have one entry per row"),
        ({"text": "abc"}, "input 'text' must have one entry per row. Received: 'abc'"),
        ({"text": None}, "input 'text' must have one entry per row. Received: None"),
        ({"text": iter("abc")}, "input 'text' must have one entry per row. Received: <str"),
    ],
)
def test_wrong_names(connect, behaviour, inputs, message):
    with raises(ValueError, message):
        connect().predict(inputs, "translate_options")
    assert behaviour.requests == []


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (None, "`lines` must be a list of strings. Received: NoneType"),
        ("abc", "`lines` must be a list of strings. Received: a single string"),
        ([3], "`lines` must be a list of strings. Received: int at index 0"),
        (["\ud800"], r"`lines`, index 0: not Unicode text: a lone surrogate, U\+D800"),
    ],
)
def test_wrong_lines(connect, behaviour, lines, message):
    client = connect()
    for translate in (client.translate_lines, client.translate_batches):
        with raises(ValueError, message):
            list(translate(lines))
    assert behaviour.requests == []


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("text", 3, "input 'text' must contain strings. Received: 3 in row 1"),
        ("text", "\ud800", r"input 'text', row 1: not Unicode text: a lone surrogate, U\+D800"),
        (
            "beam_size",
            1.5,
            r"'beam_size' must be int32, shape \(any\). Received: float64, shape \(1",
        ),
        ("beam_size", "4", r"must be int32, shape \(any\). Received: <U1, .* starting with '4'"),
        ("beam_size", True, r"must be int32, shape \(any\). Received: bool"),
        ("beam_size", 2**31, r"must be int32.* 2147483648"),
        ("beam_size", [1, 2], r"shape \(any\). Received: int64, shape \(1, 2\), in rows 1"),
        ("length_penalty", "0.6", r"must be float, shape \(any\). Received: <U3"),
        ("length_penalty", None, r"must be float, shape \(any\). Received: object"),
    ],
)
def test_wrong_values(connect, behaviour, name, value, message):
    inputs = {"text": ["a"], "beam_size": [4], "length_penalty": [0.6]} | {name: [value]}
    with raises(ValueError, message):
        connect().predict(inputs, "translate_options")
    assert behaviour.requests == []


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (
            [[1, 2, 3], [1, 2]],
            "must have lists of equal length. Received: several lengths in rows 1 to 2",
        ),
        ([[1, 2], [3, 4]], r"must be int32, shape \(any, 3\). Received: int64, shape \(2, 2\)"),
    ],
)
def test_wrong_widths(connect, behaviour, ids, message):
    inputs = {"ids": ids, "large": [1, 2], "flag": [True, True], "exact": [0.0, 0.0]}
    with raises(ValueError, message):
        connect().predict(inputs, "numbers")
    assert behaviour.requests == []


def test_more_rows_than_the_server_takes(connect, behaviour):
    behaviour.max_rows = 8
    message = r"at most 8 rows per request: lower `max_batch_size` \(--max-batch-size\) to 8"
    with raises(ValueError, message):
        connect().predict({"text": ["a"] * 9})
    assert len(behaviour.requests) == 1


def test_an_output_without_rows(connect):
    with raises((ValueError, OSError), "count.* must have one entry per row.* for 2 rows"):
        connect().predict({"text": ["a", "b"]}, "total")


def test_a_signature_that_does_not_translate(connect, behaviour):
    with raises(
        ValueError, "'mirror' of the .* has no output 'score', 'translation', 'truncated'; it"
    ):
        list(connect().translate_lines(["a"], "mirror"))
    assert behaviour.requests == []


@pytest.mark.parametrize("answer", [b"<html>", b"[1]", b"{}", b'{"metadata": {}}'])
def test_an_answer_of_something_else(answer):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def reply():
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(answer)}\r\n\r\n"
                connection.sendall(head.encode() + answer)

        thread = threading.Thread(target=reply)
        thread.start()
        client = Client(f"127.0.0.1:{listener.getsockname()[1]}")
        with raises(OSError, "expected a response of TF Serving. Received: "), client:
            client.predict({"text": ["a"]})
        thread.join()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"protocol": "http"}, "`protocol` must be rest or grpc. Received: protocol='http'"),
        ({"max_batch_size": 0}, "`max_batch_size` must be at least 1"),
        ({"concurrency": 0}, "`concurrency` must be at least 1. Received: concurrency=0"),
        ({"retries": -1}, "`retries` must be at least 0. Received: retries=-1"),
        ({"deadline": 0}, "`deadline` must be above 0"),
        ({"deadline": math.inf}, "above 0 and at most 9223372036 seconds. Received: deadline=inf"),
        ({"address": "0x7f.1:1"}, "an IPv4 address as four decimal numbers. Received: address='0x"),
        ({"address": "127.1:1"}, "an IPv4 address as four decimal numbers"),
        ({"address": "2130706433:1"}, "an IPv4 address as four decimal numbers"),
        ({"address": "0177.0.0.1:1"}, "an IPv4 address as four decimal numbers"),
        ({"address": "localhost"}, "`address` must be HOST:PORT. Received: address='localhost'"),
        ({"address": "http://localhost:1"}, "`address` must be HOST:PORT"),
        ({"address": "localhost:port"}, "`address` must be HOST:PORT"),
        ({"address": "localhost:1/v1"}, "`address` must be HOST:PORT"),
        ({"address": ":8501"}, "`address` must be HOST:PORT"),
        ({"address": ""}, "`address` must be HOST:PORT"),
    ],
)
def test_wrong_arguments(arguments, message):
    with raises(ValueError, message):
        Client(**{"address": "localhost:8501", **arguments})


@pytest.mark.parametrize(
    "address", ["localhost:8501", "Host-1.example:1", "[::1]:8500", "127.0.0.1:1", "a1.b2c:1"]
)
def test_addresses(address, protocol_name):
    Client(address, protocol=protocol_name).close()


def test_signatures_are_requested_again_on_demand(connect, behaviour):
    client = connect()
    former = client.signatures
    behaviour.specs = {"mirror": behaviour.specs["mirror"]}
    assert client.signatures is former  # without a request
    found = client.refresh_signatures()
    assert found == client.signatures == {"mirror": former["mirror"]}
    with raises(ValueError, "has no signature 'serving_default'; it has 'mirror'"):
        client.predict({"text": ["a"]})


@pytest.mark.slow
def test_seven_packages_are_enough():
    """For the class and the command: those that docs/serving.md installs."""
    line = re.search(r"--no-deps tf-transformer && pip install (.*)", SERVING_PAGE.read_text())
    # Names of modules, and what grpcio needs itself.
    packages = [*line[1].split(), "grpc", "google", "re2", "_re2", "typing_extensions"]
    program = (
        "from tf_transformer.predictors.client import Client\n"
        "from tf_transformer.__main__ import main\n"
        "sys.exit(main(['translate', '--server', sys.argv[1]]))"
    )
    with serve("rest", Behaviour()) as address:
        done = run_with_packages(packages, program, address, input=b"a dog\n")
    assert (done.returncode, done.stdout) == (0, b"A DOG\n"), done.stderr.decode()


@pytest.mark.slow
def test_imports_no_tensorflow():
    done = subprocess.run(
        [sys.executable, "-c", "import sys, tf_transformer.predictors.client\nprint(*sys.modules)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    imported = {name.partition(".")[0] for name in done.stdout.split()}
    assert "grpc" in imported
    assert not imported & {"tensorflow", "tensorflow_text", "keras", "training"}


@pytest.mark.slow
def test_abandoned_requests_do_not_keep_the_process(protocol_name, behaviour):
    behaviour.slow = 30
    program = (
        "import sys\nfrom tf_transformer.predictors.client import Client\n"
        "client = Client(sys.argv[1], protocol=sys.argv[2], max_batch_size=1, concurrency=2)\n"
        "list(client.translate_lines(['gone', 'slow']))"
    )
    with serve(protocol_name, behaviour) as address:
        done = subprocess.run(
            [sys.executable, "-c", program, address, protocol_name],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=20,
        )
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("Servable not found for request: Latest(gone)")


def test_few_values_stand_for_all():
    tensor = serving_pb2.TensorProto(dtype="DT_INT32", int_val=[1, 2])
    tensor.tensor_shape.dim.add(size=4)
    assert messages.read_tensor(tensor).tolist() == [1, 2, 2, 2]
    tensor.int_val.clear()
    assert messages.read_tensor(tensor).tolist() == [0, 0, 0, 0]
    strings = serving_pb2.TensorProto(dtype="DT_STRING", tensor_shape=tensor.tensor_shape)
    assert messages.read_tensor(strings).tolist() == [b""] * 4


def test_unknown_data_types():
    with raises(ValueError, "expected one of DT_FLOAT, .* Received: data type 14"):
        messages.read_tensor(serving_pb2.TensorProto(dtype=14))
    with raises(ValueError, "Received: DT_HALF"):
        numpy_type("DT_HALF")


class TestTensorFlowServingsOwnMessages:
    """Ours are theirs, field by field and byte by byte; both are loaded in this process."""

    @pytest.fixture(scope="class")
    def theirs(self):
        pytest.importorskip("tensorflow_serving")
        from tensorflow_serving.apis import get_model_metadata_pb2, predict_pb2

        names = ("GetModelMetadataRequest", "GetModelMetadataResponse", "SignatureDefMap")
        return {
            "PredictRequest": predict_pb2.PredictRequest,
            "PredictResponse": predict_pb2.PredictResponse,
            **{name: getattr(get_model_metadata_pb2, name) for name in names},
        }

    def test_fields(self, theirs):
        compared = set()
        for name, their_class in theirs.items():
            self._compare(getattr(serving_pb2, name).DESCRIPTOR, their_class.DESCRIPTOR, compared)
        assert {"TensorProto", "SignatureDef"} <= compared

    def _compare(self, ours, theirs, compared):
        assert ours.name == theirs.name
        if ours.name in compared:
            return
        compared.add(ours.name)
        for field in ours.fields:
            other = theirs.fields_by_name[field.name]
            assert (field.number, field.type, field.is_repeated) == (
                other.number,
                other.type,
                other.is_repeated,
            )
            if field.message_type:
                self._compare(field.message_type, other.message_type, compared)
            if field.enum_type:
                for value in field.enum_type.values:
                    assert other.enum_type.values_by_name[value.name].number == value.number

    @pytest.mark.parametrize(
        ("data_type", "values"),
        [
            ("DT_STRING", [b"a", b"\xff", b""]),
            ("DT_FLOAT", [0.1, -1e30, float("inf")]),
            ("DT_DOUBLE", [0.1, -1e300, 0.0]),
            ("DT_INT32", [[1, -2], [3, 4], [2**31 - 1, 0]]),
            ("DT_INT64", [2**62, -1, 0]),
            ("DT_UINT8", [0, 255, 1]),
            ("DT_INT16", [-(2**15), 0, 1]),
            ("DT_INT8", [-128, 0, 1]),
            ("DT_BOOL", [True, False, True]),
        ],
    )
    def test_tensors(self, theirs, data_type, values):
        import tensorflow as tf

        array = np.array(values, numpy_type(data_type))
        request = serving_pb2.PredictRequest(
            model_spec={"name": "m", "version": {"value": 3}, "signature_name": "s"}
        )
        request.inputs["x"].CopyFrom(messages.make_tensor(array, data_type))
        read = theirs["PredictRequest"].FromString(request.SerializeToString())
        spec = read.model_spec
        assert (spec.name, spec.version.value, spec.signature_name) == ("m", 3, "s")
        np.testing.assert_array_equal(tf.make_ndarray(read.inputs["x"]), array)

        response = theirs["PredictResponse"]()
        response.model_spec.name = "skipped over"
        # A C++ server sends values one by one unless told otherwise, make_tensor_proto as bytes.
        as_bytes = tf.make_tensor_proto(array, tf.as_dtype(getattr(tf.dtypes, _tf_name(data_type))))
        response.outputs["as_bytes"].CopyFrom(as_bytes)
        one_by_one = response.outputs["one_by_one"]
        one_by_one.CopyFrom(as_bytes)
        one_by_one.tensor_content = b""
        field = getattr(one_by_one, messages._FIELDS[data_type])
        field[:] = array.ravel().tolist()
        ours = serving_pb2.PredictResponse.FromString(response.SerializeToString())
        for tensor in ours.outputs.values():
            found = messages.read_tensor(tensor)
            assert found.dtype == array.dtype
            np.testing.assert_array_equal(found, array)

    def test_signatures(self, theirs):
        signatures = theirs["SignatureDefMap"]()
        info = signatures.signature_def["serving_default"].inputs["text"]
        info.name, info.dtype = "text:0", 7
        info.tensor_shape.dim.add(size=-1)
        metadata = theirs["GetModelMetadataResponse"]()
        metadata.metadata["signature_def"].Pack(signatures)
        answer = serving_pb2.GetModelMetadataResponse.FromString(metadata.SerializeToString())
        found = serving_pb2.SignatureDefMap.FromString(answer.metadata["signature_def"].value)
        info = found.signature_def["serving_default"].inputs["text"]
        assert messages.data_type_name(info.dtype) == "DT_STRING"
        assert [dim.size for dim in info.tensor_shape.dim] == [-1]

        request = serving_pb2.GetModelMetadataRequest(
            model_spec={"name": "m"}, metadata_field=["signature_def"]
        )
        read = theirs["GetModelMetadataRequest"].FromString(request.SerializeToString())
        assert (read.model_spec.name, list(read.metadata_field)) == ("m", ["signature_def"])
        assert not read.model_spec.HasField("version")

    def test_the_method_is_theirs(self, theirs):
        from tensorflow_serving.apis import prediction_service_pb2

        service = prediction_service_pb2.DESCRIPTOR.services_by_name["PredictionService"]
        assert service.full_name == protocol.SERVICE
        assert {"Predict", "GetModelMetadata"} <= set(service.methods_by_name)


def _tf_name(data_type):
    return {"DT_FLOAT": "float32", "DT_DOUBLE": "float64"}.get(
        data_type, data_type.removeprefix("DT_").lower()
    )

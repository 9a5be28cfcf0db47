"""`export --xla`: the search is compiled, and nothing else changes."""

import json
import pathlib
import subprocess
import sys

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from export.saved_model import saved_model, verification
from tests.export.saved_model.in_this_process import answers_of
from tf_transformer.__main__ import main
from tf_transformer.inference.translator import Translator

ROOT = pathlib.Path(__file__).parents[3]
SIGNATURES = ["nbest_options", "serving_default"]
NAME_OF_CALLS = "needs_the_flag_xla_cpu_compilation_enabled"
# What TF Serving calls without `--xla_cpu_compilation_enabled`, then a request as it runs one.
WITHOUT_THE_FLAG = """
import ctypes, pathlib, sys
import numpy as np, tensorflow as tf, tensorflow_text
library = pathlib.Path(tf.__file__).with_name("libtensorflow_cc.so.2")
ctypes.CDLL(library)._ZN10tensorflow21DisableXlaCompilationEv()
session = tf.compat.v1.Session(graph=tf.Graph())
with session.graph.as_default():
    saved = tf.compat.v1.saved_model.load(session, ["serve"], sys.argv[1])
signature = saved.signature_def["serving_default"]
outputs = [tensor.name for tensor in signature.outputs.values()]
session.run(outputs, {signature.inputs["text"].name: np.array([b"a"], object)})
"""


LOADED = {}  # the signatures with which `served` has been verified


@pytest.fixture(scope="module")
def served(talkative, tmp_path_factory):
    """An export with two compiled searches, of which it has verified the first, in this process.

    XLA takes seconds for each, in the model and in the SavedModel; tests only read it.
    """

    def run(version, requests):
        LOADED[directory] = tf.saved_model.load(str(version)).signatures
        return answers_of(LOADED[directory], requests)

    directory = tmp_path_factory.mktemp("compiled") / "translator"
    options = ["--model-dir", str(talkative), "--output", str(directory), "--beam-size", "2"]
    options += ["--signatures", *SIGNATURES, "--xla", "1x8", "2x6"]
    verify = saved_model.verify
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            saved_model, "verify", lambda *given, is_int8: verify(*given[:3], given[3][:1])
        )
        patch.setattr(verification, "run_in_fresh_process", run)
        assert main(["export", *options]) == 0
    yield directory
    del LOADED[directory]


@pytest.mark.slow
def test_the_graph(served):
    """One function for each shape, which all signatures call, and which XLA must compile.

    The name of each call is what a server that lacks the flag reports.
    """
    content = (served / "1" / "saved_model.pb").read_bytes()
    graph = saved_model_pb2.SavedModel.FromString(content).meta_graphs[0].graph_def
    functions = graph.library.function
    compiled = {f.signature.name for f in functions if f.attr["_XlaMustCompile"].b}
    assert len(compiled) == 2
    nodes = [*graph.node, *(node for function in functions for node in function.node_def)]
    calls = [node for node in nodes if node.attr["f"].func.name in compiled]
    assert {node.attr["f"].func.name for node in calls} == compiled
    assert len(calls) == 2 * len(SIGNATURES)
    assert all(NAME_OF_CALLS in node.name for node in calls)
    assert f"`{NAME_OF_CALLS}`" in (ROOT / "docs" / "fast-serving.md").read_text(encoding="utf-8")


@pytest.mark.exhaustive  # by the names in the graph
@pytest.mark.slow
def test_a_server_without_the_flag_reports_its_name(served):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_FLAG, str(served / "1")], capture_output=True, text=True
    )
    assert done.returncode == 1
    error = done.stderr[done.stderr.rindex("XLA compilation disabled") :]
    assert NAME_OF_CALLS in error


@pytest.mark.slow
def test_answers(served, talkative, corpus):
    texts = (corpus.directory / "test.en").read_text(encoding="utf-8").splitlines()[:20]
    signature = LOADED[served]["serving_default"]
    expected = Translator.load(talkative, beam_size=2).n_best(texts)
    for rows in (1, 2, 5):
        for start in range(0, len(texts) - rows, rows):
            found = signature(tf.constant(texts[start : start + rows]))
            wanted = expected[start : start + rows]
            assert [x.decode() for x in found["translation"].numpy()] == [x[0].text for x in wanted]
            scores = [x[0].score for x in wanted]
            assert found["score"].numpy().tolist() == pytest.approx(scores, abs=1e-4)


@pytest.mark.slow
def test_the_folder(served):
    """The server gets its flag, and compiles before the first request."""
    assert "--xla_cpu_compilation_enabled=true" in (served / "README.md").read_text()
    config = (served / "models.config").read_text()
    assert "# Start the server with --xla_cpu_compilation_enabled=true.\n" in config
    card = json.loads((served / "1" / "model.json").read_text())
    assert card["compiled_shapes"] == [[1, 8], [2, 6]]
    protos = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    path = served / "1" / "assets.extra" / "tf_serving_warmup_requests"
    requests = [
        protos.PredictionLog.FromString(record.numpy()).predict_log.request
        for record in tf.data.TFRecordDataset(str(path))
    ]
    texts = [tf.make_ndarray(request.inputs["text"]).tolist() for request in requests[:2]]
    assert [request.model_spec.signature_name for request in requests[:2]] == [
        "serving_default"
    ] * 2
    assert [len(rows) for rows in texts] == [1, 2]
    sent = {
        (request.model_spec.signature_name, *(len(tf.make_ndarray(x)) for x in values[:1]))
        for request in requests[2:]
        for values in [list(request.inputs.values())]
    }
    # The ordinary searches are warmed up, too, by more rows than a compiled search has.
    assert sent == {(name, rows) for name in SIGNATURES for rows in (1, 3)}


@pytest.mark.exhaustive
@pytest.mark.slow
def test_bfloat16(talkative, tmp_path):
    """`export` compares every signature, compiled and not, with the model."""
    options = ["--model-dir", str(talkative), "--output", str(tmp_path / "served")]
    options += ["--dtype", "bfloat16", "--signatures", "tokens_options", "--xla", "1x8"]
    assert main(["export", *options]) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--xla", "8"], "8: expected ROWSxLENGTH, 1 to 6 digits each, such as 1x32"),
        (["--xla", "1x32", "--dtype", "int8"], "--xla: XLA cannot compile a model in int8"),
        (["--xla", "0x32"], "2 to 40. Received: (0, 32)"),
        (["--xla", "1x300"], "--xla must be pairs of a number of rows, 1 to 1024"),
    ],
)
def test_faults(talkative, tmp_path, capsys, options, message):
    command = ["export", "--model-dir", str(talkative), "--output", str(tmp_path / "served")]
    try:
        assert main([*command, *options]) == 2
    except SystemExit as error:
        assert error.code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "served").exists()

"""The SavedModel: equal to the model in a process that knows nothing of this project."""

import io
import json
import logging
import os
import pathlib
import pickle
import shlex
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf import saved_model_pb2

from export.saved_model import saved_model, verification
from export.saved_model.progress import with_progress
from export.saved_model.signature_names import OPTIONAL
from export.saved_model.verification import run_in_fresh_process
from tests.export.saved_model.in_this_process import run_in_this_process
from tests.gpu_kernels import devices_named, nodes_of
from tests.tf_transformer.inference.test_translator import ODD
from tf_transformer.__main__ import main
from tf_transformer.inference.translator import Translator
from tf_transformer.storage.files import locked
from tf_transformer.storage.model_dir import load_model, weights_digest


@pytest.fixture(scope="module")
def translator(talkative):
    return Translator(*load_model(talkative))


@pytest.fixture(scope="module")
def served(translator, tmp_path_factory):
    """A version with one signature, which loads faster than `exported`; tests only read it."""
    directory = tmp_path_factory.mktemp("served")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saved_model, "verify", lambda *_, **__: None)
        return saved_model.export_translator(translator, directory, ["serving_default"])


@pytest.mark.slow
def test_no_operation_names_a_device(exported):
    """It can be served by a CPU and by a GPU."""
    content = (exported / "1" / "saved_model.pb").read_bytes()
    (graph,) = saved_model_pb2.SavedModel.FromString(content).meta_graphs
    assert len(list(nodes_of(graph.graph_def))) > 1000
    assert devices_named(graph.graph_def) == set()


@pytest.mark.slow
def test_equals_the_model_on_200_sentences_and_odd_strings(translator, served, corpus):
    texts = [*ODD, *(corpus.directory / "test.en").read_bytes().splitlines()]
    assert len(texts) == 200 + len(ODD)
    requests = {"serving_default": [{"text": np.array(texts, object)}]}
    (answer,) = run_in_fresh_process(served, requests)["serving_default"]
    expected = translator.translate(tf.constant(texts))
    assert answer["translation"] == expected.text.numpy()[:, 0].tolist()
    assert answer["score"] == pytest.approx(expected.scores.numpy()[:, 0].tolist(), rel=1e-5)
    assert answer["truncated"] == expected.truncated.numpy().tolist()
    assert len(set(answer["translation"])) > 50


@pytest.mark.slow
def test_signature(loaded):
    signature = loaded["serving_default"]
    (_, inputs) = signature.structured_input_signature
    assert inputs == {"text": tf.TensorSpec([None], tf.string, name="text")}
    outputs = {name: (spec.shape.rank, spec.dtype) for name, spec in
               signature.structured_outputs.items()}  # fmt: skip
    assert outputs == {
        "translation": (1, tf.string),
        "score": (1, tf.float32),
        "truncated": (1, tf.bool),
    }


@pytest.mark.slow
def test_no_rows_give_no_rows(loaded):
    assert loaded["serving_default"](text=tf.constant([], tf.string))["translation"].shape == (0,)


@pytest.mark.exhaustive  # each by the tests of its task
@pytest.mark.slow
def test_all_signatures_are_verified(talkative, tmp_path, monkeypatch):
    verified = []
    verify = saved_model.verify

    def watch(served, *arguments, **options):
        verify(served, *arguments, **options)
        verified.append(served)

    monkeypatch.setattr(saved_model, "verify", watch)
    options = ["--signatures", "all", *OPTIONAL]
    command = ["export", "--model-dir", str(talkative), "--output", str(tmp_path / "served")]
    assert main([*command, *options]) == 0
    assert len(verified) == 1


@pytest.mark.exhaustive  # every export moves what it verifies
@pytest.mark.slow
def test_moved_folder_still_loads(exported, tmp_path):
    moved, away = tmp_path / "elsewhere", tmp_path / "away"
    shutil.copytree(exported / "1", moved)
    requests = {"serving_default": [{"text": np.array([b"ten horses"], object)}]}
    here = run_in_fresh_process(exported / "1", requests)["serving_default"]
    (exported / "1").rename(away)
    try:
        there = run_in_fresh_process(moved, requests)["serving_default"]
    finally:
        away.rename(exported / "1")
    assert there == here
    assert here[0]


@pytest.mark.slow
def test_files_of_others_stay(unverified, translator, tmp_path):
    for name in ("README.md", "models.config"):
        (tmp_path / name).write_text("mine")
    saved_model.export_translator(translator, tmp_path, ["tokens"])
    assert (tmp_path / "README.md").read_text() == "mine"
    assert (tmp_path / "models.config").read_text() == "mine"
    (tmp_path / "README.md").unlink()
    saved_model.export_translator(translator, tmp_path, ["tokens"])
    guide = (tmp_path / "README.md").read_text()
    assert '"text"' not in guide  # which `tokens` does not take
    assert "beam_size" not in guide
    assert f"-v {shlex.quote(f'{tmp_path.resolve()}:/models/translator')}" in guide
    assert (tmp_path / "models.config").read_text() == "mine"
    assert 'base_path: "/models/translator"' in (tmp_path / "models.config.new").read_text()


@pytest.mark.exhaustive
@pytest.mark.slow
def test_the_command_names_what_it_kept(unverified, talkative, tmp_path, capsys):
    """An operator's `base_path`, under this command's mark, survives the next export."""
    arguments = ["export", "--model-dir", str(talkative), "--output", str(tmp_path)]
    arguments += ["--signatures", "tokens"]
    assert main(arguments) == 0
    assert "models.config" not in capsys.readouterr().out
    config = tmp_path / "models.config"
    config.write_text(config.read_text().replace("/models/translator", "/srv/translator"))
    assert main(arguments) == 0
    assert 'base_path: "/srv/translator"' in config.read_text()
    assert 'base_path: "/models/translator"' in (tmp_path / "models.config.new").read_text()
    assert f"{config} may have been edited and was kept; models.config.new" in (
        capsys.readouterr().out
    )


@pytest.mark.slow
def test_versions_count_up_and_leave_nothing_beside(unverified, translator, tmp_path):
    (tmp_path / "7").mkdir()
    exported = saved_model.export_translator(translator, tmp_path, ["serving_default"])
    assert exported == tmp_path / "8"
    assert {path.name for path in tmp_path.iterdir()} == {
        *("7", "8", "README.md", "batching_parameters.txt", "models.config", "session_config.txt")
    }


def test_other_numbers_are_no_versions(tmp_path):
    """`str.isdigit` is true of more characters than `int` reads."""
    (tmp_path / "out").mkdir()
    for name in ("\N{SUPERSCRIPT TWO}", "\N{ARABIC-INDIC DIGIT SEVEN}", "5.old", "3"):
        (tmp_path / "out" / name).mkdir()
    (tmp_path / "new").mkdir()
    assert (
        saved_model._rename_to_next_version(tmp_path / "new", tmp_path / "out")
        == tmp_path / "out" / "4"
    )


@pytest.mark.slow
def test_a_version_is_on_the_disk_before_it_has_its_number(
    unverified, translator, tmp_path, monkeypatch
):
    """Power may fail at any moment."""
    synced = set()

    def sync_to_disk(path):
        assert not (tmp_path / "1").exists()
        synced.add(path.relative_to(tmp_path).parts[1:])

    monkeypatch.setattr(saved_model, "sync_to_disk", sync_to_disk)
    version = saved_model.export_translator(translator, tmp_path, ["tokens"])
    files = {path.relative_to(version).parts for path in version.rglob("*") if path.is_file()}
    assert synced == files
    assert {("saved_model.pb",), ("model.json",), ("variables", "variables.index")} < files


@pytest.mark.representatives("score")
@pytest.mark.slow
@pytest.mark.parametrize("key", ["translation", "score", "truncated"])
def test_any_difference_is_an_error_and_nothing_appears(translator, tmp_path, monkeypatch, key):
    def tampered(*arguments):
        answers = run_in_this_process(*arguments)
        wrong = {"translation": b"?", "score": -99.0, "truncated": True}[key]
        answers["serving_default"][2][key][2] = wrong  # after 6 rows and 1
        return answers

    monkeypatch.setattr(verification, "run_in_fresh_process", tampered)
    with pytest.raises(ValueError, match=rf"the SavedModel differs .* in {key} of .*, row 9"):
        saved_model.export_translator(translator, tmp_path, ["serving_default"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_unloadable_saved_model_is_an_error(tmp_path, monkeypatch):
    """The process, here without the seconds in which it imports TensorFlow, says what it is."""
    genuine = subprocess.Popen
    script = "raise OSError('no file ' + __import__('sys').argv[1])"

    def fail(command, **options):
        return genuine([sys.executable, "-c", script, *command[3:]], **options)

    monkeypatch.setattr(subprocess, "Popen", fail)
    expected = f"cannot be loaded in a fresh process: .*OSError: no file {tmp_path}$"
    with pytest.raises(ValueError, match=f"(?s){expected}"):
        run_in_fresh_process(tmp_path, {})


def test_refuses_a_folder_that_tensorflow_does_not_load_from(translator, tmp_path):
    with pytest.raises(ValueError, match=r"models \[1\]: TensorFlow cannot load files"):
        saved_model.export_translator(translator, tmp_path / "models [1]", ["tokens"])
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_folder_is_ready_to_deploy(exported, talkative):
    """Each setting is what TF Serving reads, and names what lies there."""
    version = exported / "1"
    config = (exported / "models.config").read_text()
    assert 'base_path: "/models/translator"' in config
    batching = (exported / "batching_parameters.txt").read_text()
    assert "max_batch_size { value: 32 }" in batching
    session = tf.compat.v1.ConfigProto()
    text_format.Parse((exported / "session_config.txt").read_text(), session)
    assert session.graph_options.rewrite_options.disable_meta_optimizer
    guide = (exported / "README.md").read_text()
    for name in ("models.config", "batching_parameters.txt", "session_config.txt"):
        assert f"_file=/models/translator/{name}" in guide
    assert "$" not in guide + config + batching
    for name in ("serving_default", "nbest_options", "sample"):
        assert f"`{name}`" in guide
    card = json.loads((version / "model.json").read_text())
    assert card["model"]["d_model"] == 32
    assert card["training_steps"] == 300
    assert card["languages"] == "en-de"
    assert card["weights_digest_blake2b"] == weights_digest(talkative)


@pytest.mark.slow
def test_warm_up_requests_fit_their_signatures(exported, loaded):
    """Read with TF Serving's own messages; sent to the model as the server would."""
    prediction_log_pb2 = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    path = exported / "1" / "assets.extra" / "tf_serving_warmup_requests"
    seen = set()
    for record in tf.data.TFRecordDataset(str(path)):
        request = prediction_log_pb2.PredictionLog.FromString(record.numpy()).predict_log.request
        assert request.model_spec.name == "translator"
        name = request.model_spec.signature_name
        inputs = {key: tf.constant(tf.make_ndarray(value)) for key, value in request.inputs.items()}
        rows = {len(value) for value in inputs.values()}
        assert len(rows) == 1
        seen.add((name, *rows))
        loaded[name](**inputs)
    assert seen == {(name, 1) for name in loaded}


@pytest.mark.slow
def test_tokens_alone_need_no_text_ops(translator, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(verification, "run_in_fresh_process", run_in_this_process)
    caplog.set_level(logging.INFO, "export")
    version = saved_model.export_translator(translator, tmp_path, ["tokens_options"])
    graph = saved_model_pb2.SavedModel.FromString((version / "saved_model.pb").read_bytes())
    meta = graph.meta_graphs[0].graph_def
    ops = {node.op for function in meta.library.function for node in function.node_def}
    ops |= {node.op for node in meta.node}
    assert "While" in ops or "StatelessWhile" in ops
    assert not {op for op in ops if "entencepiece" in op}
    assert [message for name, _, message in caplog.record_tuples if "export" in name] == STAGES


# What it is doing, and Ctrl-C

STAGES = [
    "Tracing the signatures",
    "Saving the SavedModel",
    "Running the SavedModel in a fresh process",
    "Comparing its outputs with the model's",
    "Writing the warm-up requests and the settings of the server",
]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("kind", [Terminal, io.StringIO])
def test_counts_signatures_on_a_terminal_alone(monkeypatch, kind):
    shown = kind()
    monkeypatch.setattr(sys, "stderr", shown)
    before = [shown.getvalue() for _ in with_progress(["nbest", "align"], "asking")]
    assert len(before) == 2
    if kind is io.StringIO:
        assert shown.getvalue() == ""
    else:  # while the work on each is under way
        assert "asking" in before[0] and "0/2" in before[0] and "nbest" in before[0]
        assert "1/2" in before[1] and "align" in before[1]


def children_of(pid: int) -> list[int]:
    path = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()]


def is_running(pid: int) -> bool:
    try:  # the state follows the name, which is in parentheses
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "signum"),
    [
        ("Saving", signal.SIGTERM),
        ("Running", signal.SIGTERM),
        ("Running", signal.SIGHUP),
        ("Running", signal.SIGKILL),
    ],
)
def test_a_signal_leaves_nothing(talkative, tmp_path, stage, signum):
    """Neither a file nor the process that verifies; a second signal changes nothing."""
    output = tmp_path / "served"
    command = [sys.executable, "-m", "tf_transformer", "export", "--model-dir", str(talkative)]
    command += ["--output", str(output), "--signatures", "tokens"]
    # Tests that run in the background of a terminal may ignore it, and so would their children.
    hears = partial(signal.signal, signal.SIGHUP, signal.SIG_DFL)
    children = []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=hears) as process:
        lines = []
        for line in process.stderr:
            lines.append(line.rstrip("\n"))
            if line.startswith(stage):
                deadline = time.monotonic() + 60
                while stage == "Running" and not children and time.monotonic() < deadline:
                    children = children_of(process.pid)
                os.kill(process.pid, signum)
                os.kill(process.pid, signum)
    assert "Traceback" not in "".join(lines)
    if signum != signal.SIGKILL:
        assert lines[-1] == f"tf-transformer: interrupted by {signum.name}"
        assert process.returncode == 128 + signum
        assert list(output.iterdir()) == []
    assert len(children) == (stage == "Running")
    deadline = time.monotonic() + 2
    while any(is_running(child) for child in children):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.slow
def test_a_second_export_waits(unverified, translator, tmp_path, monkeypatch, caplog):
    """And no process number distinguishes two exports, as in two containers."""
    caplog.set_level(logging.INFO, "export")
    monkeypatch.setattr(os, "getpid", lambda: 1)
    export = partial(saved_model.export_translator, translator, tmp_path, ["tokens"])
    (tmp_path / ".writing-1").mkdir()  # what killed exports have left
    (tmp_path / ".writing-version-0").mkdir()
    (tmp_path / ".writing-version-0.moved").mkdir()
    with ThreadPoolExecutor() as threads:
        with locked(tmp_path, "exporting"):
            second = threads.submit(export)
            while not any("waiting" in message for message in caplog.messages):
                time.sleep(0.01)
            assert not second.done()
            assert (tmp_path / ".writing-version-0").exists()
        assert second.result(60) == tmp_path / "1"
    expected = f"{tmp_path}: another process is exporting to it; waiting for its end"
    assert expected in caplog.messages
    assert [path.name for path in tmp_path.glob(".*")] == [".writing-1"]
    assert export() == tmp_path / "2"


@pytest.mark.representatives("Running")
@pytest.mark.slow
@pytest.mark.parametrize("stage", ["Saving", "Running"])
def test_ctrl_c_leaves_nothing(talkative, tmp_path, stage):
    """At the command itself, whose log, no terminal, has a line for each stage."""
    output = tmp_path / "served"
    command = [sys.executable, "-m", "tf_transformer", "export", "--model-dir", str(talkative)]
    command += ["--output", str(output), "--signatures", "tokens", "--beam-size", "1"]
    # Tests that run in the background of a shell ignore Ctrl-C, and so would their children.
    hears = partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=hears) as process:
        lines = []
        for line in process.stderr:
            lines.append(line.rstrip("\n"))
            if line.startswith(stage):
                os.kill(process.pid, signal.SIGINT)
    number = [line.split()[0] for line in STAGES].index(stage) + 1
    assert lines == [*STAGES[:number], "tf-transformer: interrupted"]
    assert process.returncode == 130
    assert list(output.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "stage",
    ["tf.saved_model.save", "verify", "write_warm_up", "write_model_card", "write_deployment"],
)
def test_ctrl_c_in_any_stage_leaves_no_version(
    unverified, translator, tmp_path, monkeypatch, stage
):
    """In the middle of it: what it writes is there already."""
    (tmp_path / "1").mkdir()

    def interrupted(*arguments, genuine=None, **options):
        genuine(*arguments, **options)
        raise KeyboardInterrupt

    owner = saved_model
    if stage == "tf.saved_model.save":
        owner = tf.saved_model
    name = stage.rpartition(".")[2]
    monkeypatch.setattr(owner, name, partial(interrupted, genuine=getattr(owner, name)))
    with pytest.raises(KeyboardInterrupt):
        saved_model.export_translator(translator, tmp_path, ["tokens"])
    beside = {"README.md", "batching_parameters.txt", "models.config", "session_config.txt"}
    assert {path.name for path in tmp_path.iterdir()} - beside == {"1"}


@pytest.mark.slow
def test_ctrl_c_ends_the_fresh_process(served, monkeypatch):
    processes = []

    class Popen(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            processes.append(self)

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", Popen)
    monkeypatch.setattr(pickle, "load", interrupt)
    requests = {"serving_default": [{"text": np.array([b"ten horses"], object)}]}
    with pytest.raises(KeyboardInterrupt):
        run_in_fresh_process(served, requests)
    assert [process.wait(60) for process in processes] == [-signal.SIGKILL]


@pytest.mark.slow
def test_a_fresh_process_that_is_killed_is_an_error(served, monkeypatch):
    """As Linux does when memory runs out: nothing is printed."""
    script = pathlib.Path(verification.__file__).with_name("probe.py")
    genuine = subprocess.Popen

    def killed(command, **options):
        assert command[2] == str(script)
        return genuine([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], **options)

    monkeypatch.setattr(subprocess, "Popen", killed)
    requests = {"serving_default": [{"text": np.array([b"ten horses"], object)}]}
    with pytest.raises(ValueError, match=r"was killed by signal 9, perhaps because memory ran out"):
        run_in_fresh_process(served, requests)

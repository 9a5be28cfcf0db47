"""Which lines on standard error are hidden while TensorFlow is imported, and when."""

import os
import subprocess
import sys

import pytest

from tf_transformer import tensorflow_messages
from tf_transformer.tensorflow_messages import LEVEL, hide_messages, messages_filtered

FOUND_NO_GPU = (
    "I0000 00:00:1795753391.548626    6359 cudart_stub.cc:31] Could not find cuda drivers"
)
LINES = {
    "announcement": "WARNING: All log messages before absl::InitializeLog() is called are written",
    "message": FOUND_NO_GPU,
    "old message": "2024-05-01 10:00:00.123456: I tensorflow/core/platform/cpu.cc:21] optimized",
    "lite": "INFO: Created TensorFlow Lite XNNPACK delegate for CPU.",
    "warning": "W0000 00:00:1795753404.334624    6359 local_rendezvous.cc:412] aborting",
    "old warning": "2024-05-01 10:00:00.123456: W tensorflow/core/gpu.cc:7] Cannot dlopen some",
    "error": "E0000 00:00:1795753403.901381    6359 cuda_platform.cc:52] failed call to cuInit",
    "fatal": "F0000 00:00:1795753403.901381    6359 cpu_feature_guard.cc:1] compiled to use AVX",
    "python": "lib.py:3: UserWarning: the version of NumPy is too old",
    "logger": "WARNING:tensorflow:From lib.py:3: is deprecated",
    "text": "I am not a message",
    "bytes": "\udcff\udcfe",
}  # fmt: skip
SHOWN = {
    "0": set(LINES),
    "1": set(LINES) - {"announcement", "message", "old message", "lite"},
    "2": {"error", "fatal", "python", "logger", "text", "bytes"},
    "3": {"fatal", "python", "logger", "text", "bytes"},
}


def write(line):
    os.write(2, line.encode("utf-8", "surrogateescape") + b"\n")


@pytest.mark.parametrize("level", SHOWN)
def test_lines_that_are_shown(level, capfd, monkeypatch):
    """As if TensorFlow had read the level before its first line; all others are kept, in order."""
    monkeypatch.setenv(LEVEL, level)
    with messages_filtered():
        for line in LINES.values():
            write(line)
    expected = [line for name, line in LINES.items() if name in SHOWN[level]]
    found = capfd.readouterr().err.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    shown = [
        line.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for line in expected
    ]
    assert found.splitlines() == shown


@pytest.mark.parametrize("level", ["", "high", "-1", "\u00b2"])
def test_levels_that_tensorflow_does_not_know(level, capfd, monkeypatch):
    monkeypatch.setenv(LEVEL, level)
    with messages_filtered():
        write(FOUND_NO_GPU)
    assert FOUND_NO_GPU in capfd.readouterr().err


def test_a_failed_import_keeps_its_lines(capfd, monkeypatch):
    monkeypatch.setenv(LEVEL, "3")
    with pytest.raises(ImportError, match="no module"), messages_filtered():
        write("loading")
        raise ImportError("no module")
    write("after")
    assert capfd.readouterr().err.split() == ["loading", "after"]


@pytest.fixture
def hooks(monkeypatch):
    """The libraries whose import is wrapped, as if TensorFlow had not been imported."""
    wrapped = []
    monkeypatch.setattr(tensorflow_messages, "_own_level", None)
    monkeypatch.setattr(tensorflow_messages, "wrap_import", lambda name, _: wrapped.append(name))
    monkeypatch.delitem(sys.modules, "tensorflow")
    return wrapped


@pytest.mark.parametrize(("driver", "level"), [("/dev/null", "1"), ("/dev/nowhere", "3")])
def test_the_level_depends_on_the_driver(driver, level, hooks, monkeypatch):
    """With a driver, TensorFlow's warnings say why it does not use the GPU."""
    monkeypatch.setattr(tensorflow_messages, "_DRIVER", ("/dev/nowhere", driver))
    monkeypatch.delenv(LEVEL, raising=False)
    hide_messages()
    assert os.environ[LEVEL] == level
    assert hooks == ["tensorflow", "tensorflow_text"]
    hide_messages("2")  # as a command does after the package
    assert os.environ[LEVEL] == "2"


@pytest.mark.parametrize("level", ["0", "1", "3"])
def test_the_user_decides(level, hooks, monkeypatch):
    monkeypatch.setenv(LEVEL, level)
    hide_messages()
    hide_messages("2")
    assert os.environ[LEVEL] == level


def test_after_tensorflow_nothing_changes(hooks, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    monkeypatch.delenv(LEVEL, raising=False)
    hide_messages()
    assert LEVEL not in os.environ and not hooks


PROGRAM = """
import tf_transformer
import tensorflow as tf
import tensorflow_text
print(int(tf.constant(1)) + len(tf_transformer.causal_mask(2)))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("level", "is_quiet"), [(None, True), pytest.param("0", False, marks=pytest.mark.exhaustive)]
)
def test_a_program_that_imports_this_package_first(level, is_quiet):
    variables = {name: value for name, value in os.environ.items() if name != LEVEL}
    variables |= {} if level is None else {LEVEL: level}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=variables, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout) == (0, "3\n")
    assert (done.stderr == "") == is_quiet

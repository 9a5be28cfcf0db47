"""What the import of TensorFlow shows, and what it leaves to the garbage collector."""

import os
import subprocess
import sys

import pytest

from tf_transformer.command_line import quiet

_GROWTH = "TF_FORCE_GPU_ALLOW_GROWTH"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_shows_that_it_is_loading(is_terminal, capsys, monkeypatch):
    shown = []

    monkeypatch.setattr(quiet, "_import_modules", lambda: shown.append(capsys.readouterr().err))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    quiet.import_tensorflow()
    assert [line.strip() for line in shown] == ["loading TensorFlow ..." if is_terminal else ""]
    cleared = capsys.readouterr().err.rpartition("\r")
    assert cleared[2] == "" and not cleared[0].strip()


@pytest.mark.parametrize("on_cpu", [True, False])
@pytest.mark.parametrize("growth", [None, "false"])
def test_devices(on_cpu, growth, monkeypatch):
    """Memory of a GPU is taken as it is needed, unless the user says otherwise."""
    monkeypatch.setattr(os, "environ", {} if growth is None else {_GROWTH: growth})
    quiet.import_tensorflow(on_cpu=on_cpu)
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == ("-1" if on_cpu else None)
    assert os.environ[_GROWTH] == (growth or "true")


@pytest.mark.slow
def test_an_exit_collects_no_garbage_of_tensorflow():
    program = (
        "import atexit, gc\n"
        "atexit.register(lambda: print(gc.get_freeze_count(), len(gc.get_objects())))\n"
        "from tf_transformer.command_line.quiet import import_tensorflow\n"
        "import_tensorflow()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    frozen, others = map(int, done.stdout.split())
    assert frozen > 100_000 > 10_000 > others

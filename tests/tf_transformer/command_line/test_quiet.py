"""What the import of TensorFlow shows."""

import contextlib
import sys

import pytest

from tf_transformer.command_line import quiet


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_shows_that_it_is_loading(is_terminal, capsys, monkeypatch):
    shown = []

    @contextlib.contextmanager
    def importing():
        shown.append(capsys.readouterr().err)
        yield

    monkeypatch.setattr(quiet, "_standard_error_closed", importing)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    quiet.import_tensorflow()
    assert [line.strip() for line in shown] == ["loading TensorFlow ..." if is_terminal else ""]
    cleared = capsys.readouterr().err.rpartition("\r")
    assert cleared[2] == "" and not cleared[0].strip()

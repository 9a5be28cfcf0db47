"""A task of KerasHub as a SavedModel. `docs/keras_hub.md` exports one, which a test runs."""

import pytest

from export import export_task
from export.saved_model import saved_model


class Task:
    """Records what it is asked for."""

    def translator(self, dtype, **options):
        return dtype, options


def test_the_translator_of_the_task_is_exported(tmp_path, monkeypatch):
    monkeypatch.setattr(saved_model, "export_translator", lambda *arguments: arguments)
    folder = tmp_path / "served"
    found = export_task(Task(), str(folder), signatures=["tokens"], dtype="int8", beam_size=3)
    assert found == (("int8", {"beam_size": 3}), folder, ["tokens"])


def test_the_folder_is_checked_first(tmp_path):
    with pytest.raises(ValueError, match="TensorFlow cannot load files from a folder with"):
        export_task(None, tmp_path / "a[b]")

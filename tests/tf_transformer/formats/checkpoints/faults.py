"""The check that a fault is refused."""

import pathlib
from typing import Any

import pytest

from tf_transformer.formats.import_model import import_model


def check_refused(
    path: pathlib.Path,
    tmp_path: pathlib.Path,
    message: str,
    format_name: str,
    settings: dict[str, Any] | None = None,
) -> None:
    """Checks that an import fails in one line, and leaves no files.

    Args:
        path: the model.
        tmp_path: the folder around it.
        message: what the error's message must match.
        format_name: name of the format.
        settings: those that are given.
    """
    target = tmp_path / "models" / "new"
    before = sorted(file.name for file in tmp_path.iterdir())
    with pytest.raises((ValueError, OSError), match=message) as error:
        import_model(path, target, format_name, settings)
    assert "\n" not in str(error.value) and str(path) in str(error.value)
    leftovers = sorted(file.name for file in tmp_path.iterdir() if file.name != "models")
    assert leftovers == before and not list(tmp_path.glob("models/*"))

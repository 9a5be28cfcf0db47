"""The benchmarks can be imported, and say how to call them; running them takes too long."""

import importlib
import pathlib
import sys

import pytest

FOLDER = pathlib.Path(__file__).parents[1] / "benchmarks"
MODULES = [
    ".".join(path.relative_to(FOLDER.parent).with_suffix("").parts)
    for path in sorted(FOLDER.rglob("*.py"))
]


@pytest.mark.parametrize("name", MODULES)
def test_help(name, monkeypatch, capsys):
    """Of every benchmark; the others are the modules of several."""
    module = importlib.import_module(name)
    if not hasattr(module, "argparse"):
        return
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as exit:
        module.main()
    assert exit.value.code == 0
    assert capsys.readouterr().out.startswith("usage: ")

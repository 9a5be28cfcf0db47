"""The benchmarks can be imported and called as the docs say, and name what a caller did wrong.

Running all of them takes too long.
"""

import argparse
import importlib
import pathlib
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest

import benchmarks
from benchmarks.row_rounding import PADDING, padding_differences
from tf_transformer.errors import InputError
from tf_transformer.text.text_file import TextFile

ROOT = pathlib.Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks"
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in sorted(FOLDER.rglob("*.py"))
    if path.name != "__init__.py"
]
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"python -m (benchmarks\.\w+)((?:\\\n|[^\n#;])*)")
COMMANDS = [
    (name, " ".join(words.replace("\\\n", " ").split()))
    for page in sorted([*ROOT.glob("docs/*.md"), *FOLDER.glob("notebook/*.md")])
    for block in BLOCK.findall(page.read_text(encoding="utf-8"))
    for name, words in COMMAND.findall(block)
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


class Parsed(Exception):
    """Ends a benchmark when its command line has been parsed."""


@pytest.mark.parametrize(("name", "words"), COMMANDS)
def test_a_command_of_the_docs_is_understood(name, words, monkeypatch):
    parse = argparse.ArgumentParser.parse_args

    def parse_only(parser):
        parse(parser)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_only)
    monkeypatch.setattr(TextFile, "parse", str)  # the files do not exist
    monkeypatch.setattr(sys, "argv", [name, *shlex.split(words.replace("$seed", "1"))])
    is_package = (ROOT / name.replace(".", "/")).is_dir()
    module = importlib.import_module(f"{name}.__main__" if is_package else name)
    with pytest.raises(Parsed):
        module.main()


def test_the_commands_of_the_docs_are_found():
    assert len(COMMANDS) > 30
    assert ("benchmarks.decode", "--model-dir multi30k --sentences test_2016_flickr.en") in COMMANDS
    assert ("benchmarks.markup", "") in COMMANDS


@pytest.mark.slow
def test_padding_changes_attention_by_rounding_only():
    differences = padding_differences(np.random.default_rng(0))
    assert len(differences) == len(PADDING)
    assert max(differences) < 1e-5


@pytest.mark.slow
def test_the_size_of_a_report_without_a_browser(monkeypatch, capsys):
    monkeypatch.setattr("shutil.which", lambda name: None)
    words = ["--sentences", "3", "--systems", "2"]
    monkeypatch.setattr(sys, "argv", ["benchmarks.report_page", *words])
    importlib.import_module("benchmarks.report_page").main()
    printed = capsys.readouterr().out
    assert re.fullmatch(r"\| 3 \| 2 \| 0\.\d+ \| [\d.]+ \| Chromium .*", printed.splitlines()[2])


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (InputError("x.spm: expected\na model"), "x.spm: expected a model"),
        (FileNotFoundError(2, "No such file", "x.en"), "x.en: No such file"),
        (
            ModuleNotFoundError("No module named 'pysbd.x'", name="pysbd.x"),
            "needs pysbd, which is not installed",
        ),
        (subprocess.CalledProcessError(2, ["x", "y"]), ""),
        (subprocess.CalledProcessError(-9, ["x", "y"]), "status -9 of x y"),
        (
            subprocess.CalledProcessError(1, ["x"], stderr=b"...\nx: no such file\n"),
            "status 1 of x: x: no such file",
        ),
        # Those of the benchmark itself keep their tracebacks.
        (ModuleNotFoundError("", name="tf_transformer.x"), None),
        (ValueError("x"), None),
        (AttributeError("x"), None),
    ],
)
def test_errors_that_a_caller_can_cause(error, line):
    assert benchmarks.explain(error) == line


@pytest.mark.slow
def test_a_wrong_path_ends_a_benchmark_in_one_line(tmp_path):
    words = ["benchmarks.engines", "--from", str(tmp_path / "x.json")]
    done = subprocess.run([sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [f"error: {tmp_path / 'x.json'}: No such file or directory"]

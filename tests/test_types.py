"""What a type checker makes of the packages, for those who write programs with them."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]

PROGRAM = """\
import export
import tf_transformer
import training
from tf_transformer import Encoder, Translator, beam_search
from training import TrainingConfig, train

translator = Translator.load("model", beam_size=4)
number: int = translator(["A sentence."])
text: str = TrainingConfig().optimization.steps
export.Client(8500)
tf_transformer.Tranformer
training.trian
export.Cleint
tf_transformer.NoamSchedule("512", 4000)
"""
FOUND = [
    'expression has type "list[str]", variable has type "int"',
    'expression has type "int", variable has type "str"',
    '"Client" has incompatible type "int"; expected "str"',
    'Module has no attribute "Tranformer"',
    'Module has no attribute "trian"',
    'Module has no attribute "Cleint"',
    '"NoamSchedule" has incompatible type "str"; expected "int"',
]


@pytest.mark.slow
def test_a_program_is_checked(tmp_path):
    """In another process: mypy's trees would slow this one's garbage collector down."""
    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    # With the cache of `make test`, which has just checked the packages.
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "")
    output = done.stdout
    lines = [line for line in output.splitlines() if "program.py" in line]
    assert len(lines) == len(FOUND), output
    for line, expected in zip(lines, FOUND, strict=True):
        assert expected in line

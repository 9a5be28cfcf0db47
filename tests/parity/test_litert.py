"""The program of docs/other-toolkits.md for LiteRT, run from its own text."""

import pathlib
import re

import pytest

from tf_transformer import Translator
from tf_transformer.__main__ import main

pytest.importorskip("ai_edge_litert")

pytestmark = pytest.mark.slow

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "other-toolkits.md"


@pytest.mark.representatives("float32")
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_program(dtype, talkative, tmp_path, monkeypatch, capsys):
    section = PAGE.read_text(encoding="utf-8").partition("\n### LiteRT\n")[2]
    program = re.search(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)[1]
    monkeypatch.chdir(tmp_path)
    words = f"convert --model-dir {talkative} --to litert --output litert --dtype {dtype}".split()
    assert main(words) == 0
    capsys.readouterr()
    exec(compile(program, "program", "exec"), {})
    translator = Translator.load(talkative, beam_size=1)
    ((best,),) = translator.n_best(["A man sleeps."])
    found = capsys.readouterr().out
    assert found.strip() if dtype == "int8" else found == f"{best.text}\n"

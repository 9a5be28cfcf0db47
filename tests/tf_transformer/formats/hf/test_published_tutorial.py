"""docs/published-model-served.md as its reader runs it, but for the servers."""

import io
import pathlib
import re
import shlex
import sys
import types

import pytest

from tf_transformer.__main__ import main

ROOT = pathlib.Path(__file__).parents[4]
PAGE = (ROOT / "docs/published-model-served.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = "Helsinki-NLP/opus-mt-en-de"
# What needs a server, or serves until it is ended.
SERVERS = ("docker", "curl", "pip", "tf-transformer web", "--server")


def commands():
    """The commands, each with its standard input."""
    for kind, block in BLOCK.findall(PAGE):
        if kind == "python":
            yield block, None
        for line in block.replace("\\\n", "").splitlines() if kind == "sh" else ():
            if any(word in line for word in SERVERS):
                continue
            text, _, command = line.rpartition(" | ")
            yield command.partition("  #")[0], text.removeprefix("echo ").strip('"')


@pytest.mark.exhaustive  # tests/test_docs.py parses the commands, and others here run each
@pytest.mark.slow
def test_the_page(unverified, hub, tmp_path, monkeypatch, capfd):
    hub.repositories[NAME] = hub.repositories["owner/opus-mt"]
    monkeypatch.chdir(tmp_path)
    pathlib.Path("letter.txt").write_text("A man sleeps. Two dogs run.\n\nA woman sings.\n")
    pathlib.Path("page.html").write_text("<p>A <b>man</b> sleeps.</p>")
    run = []
    for command, text in commands():
        if text is None:
            exec(compile(command, "the page", "exec"), {})
            continue
        monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(text.encode())))
        words = shlex.split(command)
        assert words[0] == "tf-transformer"
        if words[1] == "export":  # what it makes is tested elsewhere, for all formats
            words += ["--signatures", "serving_default"]
        assert main(words[1:]) == 0, command
        run.append(words[1])
    assert run == ["import", "translate", "translate", "translate", "export"]
    assert len(pathlib.Path("letter.de").read_text(encoding="utf-8").splitlines()) == 3
    assert re.search("<p>.*</p>", pathlib.Path("page.de.html").read_text(encoding="utf-8"))
    assert pathlib.Path("served/1/saved_model.pb").exists()

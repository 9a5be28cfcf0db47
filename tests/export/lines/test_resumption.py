"""`translate` from file to file: interrupted and resumed, and in parts."""

import fcntl
import gzip
import itertools
import json
import os
import random
import subprocess
import sys

import pytest

from export.lines import line_translations
from export.lines.line_batches import open_lines
from tests.serving_stub import Behaviour, serve
from tf_transformer.__main__ import main

pytestmark = pytest.mark.usefixtures("no_hang")

LINES = [f"sentence {number}" if number % 7 else "" for number in range(1, 2001)]


@pytest.fixture
def server():
    with serve("rest", Behaviour()) as address:
        yield address


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text"
    path.write_text("".join(f"{line}\n" for line in LINES))
    return path


def translate(server, text, output, *options):
    arguments = ["--server", server, "--input", str(text), "--output", str(output)]
    return main(["translate", *arguments, *options])


def expected(lines=LINES):
    return "".join(f"{line.upper()}\n" for line in lines)


class Interruption(Exception):
    pass


def interrupt_after(monkeypatch, num_batches):
    """Lets a run fail after a number of batches; returns the lines of each batch that is begun."""
    begun = []
    original = line_translations._translate_batch

    def translate_batch(batch, *arguments):
        begun.append(batch)
        if len(begun) > num_batches:
            raise Interruption
        return original(batch, *arguments)

    monkeypatch.setattr(line_translations, "_translate_batch", translate_batch)
    return begun


def interrupted(monkeypatch, server, text, output, *options, num_batches=3):
    with monkeypatch.context() as patch:
        interrupt_after(patch, num_batches)
        with pytest.raises(Interruption):
            translate(server, text, output, *options)


def test_a_resumed_run_translates_the_remaining_lines_only(
    server, text, tmp_path, monkeypatch, capsys
):
    output, partial = tmp_path / "output", tmp_path / "output.partial"
    output.write_text("former")
    interrupted(monkeypatch, server, text, output)
    state = json.loads((tmp_path / "output.partial.json").read_text())
    done = state["progress"]["num_lines"]
    assert 0 < done < len(LINES)
    assert partial.read_text() == expected(LINES[:done])
    assert output.read_text() == "former"
    with open(partial, "a") as file:
        file.write("half a li")  # of a batch that was being written
    begun = interrupt_after(monkeypatch, 1000)
    assert translate(server, text, output) == 0
    assert list(itertools.chain(*begun)) == [line.encode() for line in LINES[done:]]
    assert output.read_text() == expected()
    assert sorted(os.listdir(tmp_path)) == ["output", "text"]
    assert f"resuming after {done:,} lines" in capsys.readouterr().err


def test_a_resumed_run_reports_on_all_lines(text, tmp_path, monkeypatch, capsys):
    """How many were truncated, and how many lack terms, before the interruption, too."""
    inputs = {"text": "DT_STRING", "terms": "DT_STRING", "protect": "DT_INT32"}
    outputs = {"translation": "DT_STRING", "score": "DT_FLOAT", "truncated": "DT_BOOL"}
    outputs |= {"terms_unmet": "DT_STRING", "terms_ignored": "DT_INT32"}

    def answer(text, terms, protect):
        number = len(text)
        return {
            **{"translation": text, "score": [0.0] * number, "truncated": [True] * number},
            **{"terms_unmet": [b"x"] * number, "terms_ignored": [0] * number},
        }

    specs = [{name: (dtype, ()) for name, dtype in side.items()} for side in (inputs, outputs)]
    behaviour = Behaviour(specs={"terms": tuple(specs)}, answers={"terms": answer})
    with serve("rest", behaviour) as server:
        interrupted(monkeypatch, server, text, tmp_path / "output", "--protect", "urls")
        capsys.readouterr()
        assert translate(server, text, tmp_path / "output", "--protect", "urls") == 0
    error = capsys.readouterr().err
    number = sum(map(bool, LINES))
    assert "resuming after" in error
    assert f"translations that lack terms or protected spans: {number}\n" in error
    assert f"truncated: {number}\n" in error


@pytest.mark.slow
def test_killed_again_and_again(tmp_path):
    """Every line is there once, in order; a process is killed while it waits for an answer."""
    behaviour = Behaviour()
    answer, process, until_kill = behaviour.answers["serving_default"], None, 0

    def kill_and_answer(**inputs):
        nonlocal until_kill
        until_kill -= 1
        if until_kill == 0:
            process.kill()
        return answer(**inputs)

    behaviour.answers = behaviour.answers | {"serving_default": kill_and_answer}
    lines = [f"line {number}" for number in range(8_000)]
    text, output = tmp_path / "text", tmp_path / "output"
    text.write_text("\n".join(lines))
    draws = random.Random(1)
    with serve("rest", behaviour) as server:
        command = [sys.executable, "-m", "tf_transformer", "translate", "--server", server]
        command += ["--input", str(text), "--output", str(output)]
        for is_last in (False, False, True):
            until_kill = 0 if is_last else draws.randint(10, 100)
            process = subprocess.Popen(command, stderr=subprocess.PIPE)
            _, errors = process.communicate()
            assert process.returncode == (0 if is_last else -9), errors
            assert output.exists() == is_last
    assert b"resuming after" in errors
    assert output.read_text() == expected(lines)


@pytest.mark.parametrize("options", [["--beam-size", "2"], ["--target-language", "de"]])
def test_other_options(server, text, tmp_path, monkeypatch, capsys, options):
    output, partial = tmp_path / "output", tmp_path / "output.partial"
    interrupted(monkeypatch, server, text, output)
    before = partial.read_bytes()
    assert translate(server, text, output, *options) == 2
    name = options[0].removeprefix("--").replace("-", "_")
    value = "2" if options[1] == "2" else repr(options[1])
    message = f"output.partial was begun without {name}, not with {name} {value}"
    assert message in capsys.readouterr().err
    assert partial.read_bytes() == before
    assert translate(server, text, output) == 0
    assert output.read_text() == expected()


@pytest.mark.parametrize("change", [lambda lines: ["new", *lines[1:]], lambda lines: lines[:5]])
def test_another_input(server, text, tmp_path, monkeypatch, capsys, change):
    output, partial = tmp_path / "output", tmp_path / "output.partial"
    interrupted(monkeypatch, server, text, output)
    before = partial.read_bytes()
    text.write_text("\n".join(change(LINES)))
    assert translate(server, text, output) == 2
    assert "output.partial contains results for another input" in capsys.readouterr().err
    assert partial.read_bytes() == before
    partial.unlink()
    assert translate(server, text, output) == 0
    assert output.read_text() == expected(change(LINES))


def test_an_input_that_has_grown(server, text, tmp_path, monkeypatch):
    """The lines with results are the same, and so are their results."""
    output = tmp_path / "output"
    interrupted(monkeypatch, server, text, output)
    text.write_text("\n".join([*LINES, "one more"]))
    assert translate(server, text, output) == 0
    assert output.read_text() == expected([*LINES, "one more"])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[1]",
        b'{"format_version": 1, "request": [], "progress": {}}',
        b'{"format_version": 1, "request": {}, "progress": {"num_lines": -1, "num_bytes": 0, '
        b'"num_truncated": 0, "digest": ""}}',
        b'{"format_version": 1, "request": {}, "progress": {"num_lines": 1, "num_bytes": 999999, '
        b'"num_truncated": 0, "digest": ""}}',
        b'{"format_version": 2, "request": {}, "progress": {"num_lines": 1, "num_bytes": 0, '
        b'"num_truncated": 0, "digest": ""}}',
    ],
)
def test_a_damaged_state(server, text, tmp_path, capsys, content):
    partial, state = tmp_path / "output.partial", tmp_path / "output.partial.json"
    partial.write_text("results\n")
    state.write_bytes(content)
    assert translate(server, text, tmp_path / "output") == 2
    assert "output.partial.json" in capsys.readouterr().err
    assert partial.read_text() == "results\n"


def test_the_state_is_no_link(server, text, tmp_path, capsys):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "output.partial.json").symlink_to(victim)
    assert translate(server, text, tmp_path / "output") == 2
    assert "output.partial.json" in capsys.readouterr().err
    assert victim.read_text() == "mine"


def test_results_without_a_state_are_replaced(server, text, tmp_path):
    """As those of an input that was no file."""
    (tmp_path / "output.partial").write_text("results\n")
    assert translate(server, text, tmp_path / "output") == 0
    assert (tmp_path / "output").read_text() == expected()


def test_two_processes_do_not_write_the_same_output(server, text, tmp_path, capsys):
    with open(tmp_path / "output.partial", "wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert translate(server, text, tmp_path / "output") == 2
    assert "output.partial: another process is writing it" in capsys.readouterr().err


# Shards


@pytest.mark.representatives("text.gz-3", "text-7")
@pytest.mark.slow
@pytest.mark.parametrize("num_shards", [1, 3, 7])
@pytest.mark.parametrize("name", ["text", "text.gz"])
def test_the_shards_are_the_whole(server, text, tmp_path, name, num_shards):
    if name == "text.gz":
        (tmp_path / name).write_bytes(gzip.compress(text.read_bytes()))
    found, sizes = "", []
    for shard in range(1, num_shards + 1):
        output = tmp_path / "output"
        assert translate(server, tmp_path / name, output, "--shard", f"{shard}/{num_shards}") == 0
        found += output.read_text()
        sizes.append(output.read_text().count("\n"))
    assert found == expected()
    assert max(sizes) - min(sizes) <= 1


def test_more_shards_than_lines(server, tmp_path):
    text, output = tmp_path / "text", tmp_path / "output"
    text.write_text("a\nb")
    found = []
    for shard in range(1, 6):
        assert translate(server, text, output, "--shard", f"{shard}/5") == 0
        found.append(output.read_text())
    assert "".join(found) == "A\nB\n"


def test_a_shard_is_resumed(server, text, tmp_path, monkeypatch, capsys):
    output = tmp_path / "output"
    interrupted(monkeypatch, server, text, output, "--shard", "2/2", num_batches=1)
    assert translate(server, text, output, "--shard", "1/2") == 2
    assert "begun with shard '2/2', not '1/2'" in capsys.readouterr().err
    assert translate(server, text, output, "--shard", "2/2") == 0
    assert output.read_text() == expected(LINES[1000:])


def test_a_faulty_line_keeps_its_number(server, tmp_path, capsys):
    text = tmp_path / "text"
    text.write_bytes(b"a\nb\nc\n\xff\n")
    assert translate(server, text, tmp_path / "output", "--shard", "2/2") == 2
    assert f"{text}:4" in capsys.readouterr().err
    assert translate(server, text, tmp_path / "other", "--shard", "1/2") == 0


@pytest.mark.parametrize("shard", ["0/3", "4/3", "1", "a/b", "1/0", "1/-2", "", "1/99999999"])
def test_shards_that_do_not_exist(server, text, tmp_path, capsys, shard):
    with pytest.raises(SystemExit, match="2"):
        translate(server, text, tmp_path / "output", "--shard", shard)
    assert "--shard" in capsys.readouterr().err


def test_a_shard_of_standard_input(server, tmp_path, capsys):
    options = ["--server", server, "--output", str(tmp_path / "output"), "--shard", "1/2"]
    assert main(["translate", *options]) == 2
    assert "--shard: expected a file as --input" in capsys.readouterr().err


def test_lines_of_a_shard(tmp_path):
    path = tmp_path / "text.tsv"
    path.write_text("".join(f"x\t{number}\n" for number in range(10)))
    with open_lines(f"{path}:2", (2, 3)) as lines:
        assert (lines.first, lines.end) == (3, 6)
        assert list(lines.batches(lambda line, where: line, 2)) == [[b"3", b"4"], [b"5"]]

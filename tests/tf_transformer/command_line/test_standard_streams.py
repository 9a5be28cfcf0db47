"""Standard streams that are closed, full or left, and names that are no text."""

import fcntl
import io
import json
import os
import pty
import shutil
import struct
import subprocess
import sys
import termios

import pytest

from tests.serving_stub import Behaviour, serve
from tf_transformer.__main__ import main

COMMAND = f"{sys.executable} -m tf_transformer"
# What does no harm where there is nothing to read.
ELSEWHERE = "translate --server localhost:1"
EXHAUSTIVE = pytest.mark.exhaustive


def run(command, redirection=""):
    """Runs a command with a shell's redirections."""
    return subprocess.run(
        f"{COMMAND} {command} {redirection}", shell=True, capture_output=True, text=True
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "redirection", "message"),
    [
        (ELSEWHERE, "</dev/null >&-", "standard output is closed"),
        (ELSEWHERE, "<&-", "standard input is closed"),
        pytest.param(ELSEWHERE, "<&- >&-", "standard input is closed", marks=EXHAUSTIVE),
        pytest.param(
            "complete --model-dir none",
            "</dev/null >&-",
            "standard output is closed",
            marks=EXHAUSTIVE,
        ),
        pytest.param(
            "complete --model-dir none", "<&-", "standard input is closed", marks=EXHAUSTIVE
        ),
        pytest.param("runs /dev/fd", ">&-", "standard output is closed", marks=EXHAUSTIVE),
        ("evaluate --model-dir none --reference none", ">&-", "standard output is closed"),
        ("--help", ">/dev/full", "standard output: no space left on device"),
        ("runs /dev/fd", ">/dev/full", "standard output: no space left on device"),
    ],
)
def test_a_result_without_a_place_is_an_error(command, redirection, message):
    done = run(command, redirection)
    assert done.returncode == 2
    assert done.stderr.startswith(f"tf-transformer: error: {message}")
    assert done.stderr.count("\n") == 1


def test_output_that_a_program_collects(monkeypatch):
    """It may be any stream of text, which need not be one of the operating system's."""
    collected = io.StringIO()
    monkeypatch.setattr("sys.stdout", collected)
    assert main(["picture", "masks", "--lengths", "0"]) == 2
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert collected.getvalue().startswith("tf-transformer ")


@pytest.mark.slow
@pytest.mark.parametrize("redirection", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_reports_may_be_lost(tmp_path, redirection):
    done = run(f"runs {tmp_path} --json {tmp_path}/runs.json", redirection)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "" if ">&-" in redirection.split() else f"No model directory in {tmp_path}\n"
    )
    assert json.loads((tmp_path / "runs.json").read_text()) == []


@pytest.mark.slow
def test_a_closed_stream_is_no_file_of_the_command(tmp_path):
    """The first file that is opened would get its number, and what is printed."""
    (tmp_path / "in").write_text("a dog\n")
    with serve("rest", Behaviour()) as address:
        files = f"--input {tmp_path}/in --output {tmp_path}/out"
        assert run(f"translate --server {address} {files}", "<&- >&- 2>&-").returncode == 0
    assert (tmp_path / "out").read_text() == "A DOG\n"


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 5000])
def test_a_full_disk_is_named(rows, tmp_path):
    (tmp_path / "in").write_text("a dog\n" * rows)
    with serve("rest", Behaviour()) as address:
        done = run(f"translate --server {address}", f"< {tmp_path}/in > /dev/full")
    assert done.returncode == 2
    assert done.stderr == "tf-transformer: error: standard output: no space left on device\n"


@pytest.mark.slow
def test_a_reader_that_has_gone(tmp_path):
    """Standard output ends without a word, as in `| head`; a pipe that was named is named."""
    (tmp_path / "in").write_text("a dog\n" * 5000)
    with serve("rest", Behaviour()) as address:
        command = f"translate --server {address} --input {tmp_path}/in"

        words = [*COMMAND.split(), *command.split()]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 1

        os.mkfifo(tmp_path / "pipe")
        process = subprocess.Popen(
            [*words, "--output", str(tmp_path / "pipe")], stderr=subprocess.PIPE, text=True
        )
        with (tmp_path / "pipe").open() as reader:
            assert reader.readline() == "A DOG\n"
        assert process.stderr.read() == f"tf-transformer: error: {tmp_path}/pipe: broken pipe\n"
        assert process.wait() == 2


# What Python makes of the bytes of "café" in Latin-1.
NAME = os.fsdecode(b"caf\xe9")


@pytest.mark.slow
def test_text_that_is_not_utf8_is_read_as_in_files(trained, tmp_path, capsys):
    found = []
    for text in (NAME, "caf\ufffd"):
        output = ["--output", str(tmp_path / "attention.html")]
        assert main(["attention", "--model-dir", str(trained), "--text", text, *output]) == 0
        found.append((capsys.readouterr(), (tmp_path / "attention.html").read_bytes()))
    assert found[0] == found[1]


@pytest.mark.parametrize("option", ["--end-piece", "--target-language"])
def test_options_that_are_not_utf8(trained, option, capsys):
    assert main(["translate", "--model-dir", str(trained), option, NAME]) == 2
    assert "'caf\ufffd'" in capsys.readouterr().err


@pytest.mark.slow
def test_names_that_are_not_utf8(trained, tmp_path):
    shutil.copytree(trained, tmp_path / NAME)
    done = run("runs", f"{tmp_path}/caf*")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{tmp_path}/caf\\udce9 " in done.stdout
    done = run("translate --model-dir /none --input", f"{tmp_path}/caf*")
    assert done.returncode == 2 and done.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_corpus_whose_name_is_not_utf8(trained, corpus, tmp_path, capsys):
    """TensorFlow may not open it; scores can be stored with its name."""
    for name, copy in (("validation.en", f"{NAME}.en"), ("validation.de", f"{NAME}.de")):
        shutil.copy(corpus.path(name), tmp_path / copy)
    shutil.copytree(trained, tmp_path / "model")
    sides = ["--source", str(tmp_path / f"{NAME}.en"), "--reference", str(tmp_path / f"{NAME}.de")]
    status = main(["evaluate", "--model-dir", str(tmp_path / "model"), "--beam-size", "1", *sides])
    captured = capsys.readouterr()
    assert status == 0, captured.err
    *_, last = (tmp_path / "model" / "scores.jsonl").read_text().splitlines()
    score = json.loads(last)
    assert score["source"]["file"] == sides[1]


@pytest.mark.parametrize("size", [(0, 0), (0, 80), (24, 0), (30, 70)])
def test_bars_are_drawn_on_a_terminal_of_unknown_size(size, monkeypatch):
    """tqdm alone draws nothing there, so that hours of work look like a program that hangs."""
    for name in ("TQDM_NCOLS", "TQDM_NROWS"):
        monkeypatch.delenv(name, raising=False)
    terminal, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    program = (
        "from tf_transformer.command_line.standard_streams import open_standard_streams\n"
        "open_standard_streams()\n"
        "import tqdm\n"
        "for _ in tqdm.tqdm(range(3), disable=None): pass\n"
    )
    subprocess.run([sys.executable, "-c", program], stderr=inside, check=True, timeout=60)
    os.close(inside)
    shown = os.read(terminal, 1 << 16).decode()
    os.close(terminal)
    assert "| 3/3 [" in shown
    assert max(map(len, shown.split("\r"))) <= (80 if 0 in size else 70)

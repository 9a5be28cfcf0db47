"""Lines in batches as they come, and `translate` that answers each batch before the next."""

import gzip
import io
import itertools
import os
import subprocess
import sys
import threading

import pytest
import zstandard

from export.lines.line_batches import Lines, open_lines
from tests.serving_stub import Behaviour, serve
from tf_transformer.__main__ import main
from tf_transformer.predictors.model_predictor import ModelPredictor
from tf_transformer.text.reading import MAX_LINE_BYTES

pytestmark = pytest.mark.usefixtures("no_hang")

COMMAND = [sys.executable, "-m", "tf_transformer", "translate"]


COMPRESS = {"text": bytes, "text.gz": gzip.compress, "text.zst": zstandard.compress}


def unchanged(line, where):
    return line


def batches(path, prepare=unchanged, **options):
    with open_lines(path) as lines:
        yield from lines.batches(prepare, **options)


def sizes(path):
    return [len(batch) for batch in batches(path)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\r\n\r\nb\rc\n\r", [b"a", b"", b"bc"]),
    ],
)
@pytest.mark.parametrize("name", COMPRESS)
def test_lines_end_at_line_feeds(tmp_path, name, text, expected):
    (tmp_path / name).write_bytes(COMPRESS[name](text))
    assert list(itertools.chain(*batches(tmp_path / name))) == expected


@pytest.mark.parametrize("name", ["text.tsv", "text.tsv.gz", "text.tsv.zst"])
def test_a_column_is_read(tmp_path, name):
    rows = b"a\tb\r\nc\t\xc3\xa9\tf\ng\n"
    (tmp_path / name).write_bytes(COMPRESS[name.replace(".tsv", "")](rows))
    assert list(itertools.chain(*batches(tmp_path / name))) == [b"a", b"c", b"g"]
    found = batches(f"{tmp_path / name}:2")
    assert next(found) == [b"b", "é".encode()]
    with pytest.raises(ValueError, match=rf"{name}:3: expected at least 2 columns separated by"):
        next(found)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"gr\xf6\xdfe", r"text:2: not UTF-8 \(invalid start byte\)$"),
        ("words".encode("utf-16"), r"text:2: not UTF-8 \(UTF-16; save it as UTF-8\)$"),
        (b"a\0b", r"text:2: not text in UTF-8 \(it has a NUL byte\)$"),
        (
            gzip.compress(b"words", mtime=0),
            r"text:2: not UTF-8 \(compressed by gzip; the name of such a ",
        ),
    ],
)
def test_bytes_that_are_no_text_are_named(tmp_path, line, message):
    (tmp_path / "text").write_bytes(b"first\n" + line + b"\nthird\n")
    found = batches(tmp_path / "text")
    assert next(found) == [b"first"]
    with pytest.raises(ValueError, match=message):
        next(found)


@pytest.mark.parametrize("name", ["text.gz", "text.zst"])
def test_a_compressed_pipe_is_read(tmp_path, name):
    os.mkfifo(tmp_path / name)
    data = COMPRESS[name](b"one line\n" * 5000)
    writer = threading.Thread(target=(tmp_path / name).write_bytes, args=[data])
    writer.start()
    assert list(itertools.chain(*batches(tmp_path / name))) == [b"one line"] * 5000
    writer.join()


@pytest.mark.parametrize("length", [0, 10, 1000])
def test_files_and_full_pipes_fill_their_batches(tmp_path, length):
    text = (b"x" * length + b"\n") * 600
    (tmp_path / "text").write_bytes(text)
    (tmp_path / "text.gz").write_bytes(gzip.compress(text))
    assert sizes(tmp_path / "text") == sizes(tmp_path / "text.gz") == [256, 256, 88]
    with subprocess.Popen(["cat", tmp_path / "text"], stdout=subprocess.PIPE) as process:
        lines = Lines(process.stdout, "pipe")
        assert sum(len(batch) for batch in lines.batches(unchanged)) == 600
    read, write = os.pipe()
    os.write(write, b"x\n" * 600)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        assert [len(b) for b in Lines(pipe, "pipe").batches(unchanged)] == [256, 256, 88]


def test_a_line_does_not_wait_for_the_next():
    read, write = os.pipe()
    with os.fdopen(read, "rb") as pipe, os.fdopen(write, "wb", buffering=0) as writer:
        found = Lines(pipe, "pipe").batches(unchanged)
        writer.write(b"one\nha")
        assert next(found) == [b"one"]
        writer.write(b"lf\n\nthree")
        assert next(found) == [b"half", b""]
        writer.close()
        assert list(found) == [[b"three"]]


def test_a_stream_is_not_collected():
    """Of one without end, only what is asked for is read."""

    class Endless(io.BytesIO):
        blocks = 0

        def read1(self, size=-1):
            self.blocks += 1
            return b"a line\n" * 100

    endless = Endless()
    found = Lines(endless, "endless").batches(unchanged)
    assert [len(batch) for batch in itertools.islice(found, 4)] == [256] * 4
    assert endless.blocks <= 11


@pytest.mark.parametrize("end", [b"", b"\n", b"\nthird\n"])
def test_a_line_without_end_is_refused(tmp_path, end):
    (tmp_path / "text").write_bytes(b"first\n" + b"x" * MAX_LINE_BYTES + end)
    assert list(itertools.chain(*batches(tmp_path / "text")))[:2] == [
        b"first",
        b"x" * MAX_LINE_BYTES,
    ]
    (tmp_path / "text").write_bytes(b"first\n" + b"x" * (MAX_LINE_BYTES + 1) + end)
    found = batches(tmp_path / "text")
    assert next(found) == [b"first"]
    with pytest.raises(ValueError, match=r"text:2: expected a sentence, got more than 1,048,576"):
        next(found)


def test_lines_before_a_fault_are_given(tmp_path):
    text = gzip.compress(b"".join(b"%d\n" % number for number in range(100_000)))
    (tmp_path / "text.gz").write_bytes(text[:-8])
    found = []
    with pytest.raises(ValueError, match=r"text\.gz: truncated or damaged gzip file"):
        for batch in batches(tmp_path / "text.gz"):
            found += batch
    assert found[-1] == b"99999"

    def prepare(line, where):
        if line == b"300":
            raise ValueError(where)
        return line + b"!"

    (tmp_path / "text").write_bytes(b"".join(b"%d\n" % number for number in range(1000)))
    found = []
    with pytest.raises(ValueError, match=r"text:301$"):
        for batch in batches(tmp_path / "text", prepare):
            found += batch
    assert found == [b"%d!" % number for number in range(300)]


def test_errors_of_reading_name_the_file(capsys):
    assert main(["translate", "--server", "localhost:1", "--input", "/proc/self/mem"]) == 2
    expected = "tf-transformer: error: /proc/self/mem: input/output error\n"
    assert capsys.readouterr().err == expected


# The command


def start(*options):
    return subprocess.Popen(
        [*COMMAND, *map(str, options)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def ask(process, *lines):
    """Writes lines at once, and reads as many answers."""
    process.stdin.write(b"".join(line + b"\n" for line in lines))
    process.stdin.flush()
    return [process.stdout.readline() for _ in lines]


@pytest.mark.slow
def test_a_server_answers_before_the_next_line_comes():
    behaviour = Behaviour()
    with serve("grpc", behaviour) as address:
        process = start("--server", address, "--protocol", "grpc")
        assert ask(process, b"one") == [b"ONE\n"]
        assert ask(process, b"", b"two") == [b"\n", b"TWO\n"]
        assert ask(process, b"  ") == [b"\n"]
        assert process.communicate() == (b"", b"")
        assert process.returncode == 0
    assert behaviour.requests == [[b"one"], [b"two"]]


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_model_answers_before_the_next_line_comes(trained):
    process = start("--model-dir", trained, "--beam-size", "1")
    for line in (b"ten horses", b"the third of May"):
        (answer,) = ask(process, line)
        assert answer.endswith(b"\n")
    assert process.communicate() == (b"", b"")
    assert process.returncode == 0


@pytest.mark.slow
def test_a_faulty_line_ends_a_stream_after_its_answers(tmp_path):
    with serve("rest", Behaviour()) as address:
        options = ("--server", address, "--target-language", "de")
        process = start(*options)
        output, errors = process.communicate(b"one\n\n<2fr> two\nthree\n")
        assert process.returncode == 2
        assert output == b"<2DE> ONE\n\n"
        assert errors.startswith(b"tf-transformer: error: standard input:3: starts with a language")
        process = start(*options, "--output", tmp_path / "out")
        process.communicate(b"one\n<2fr> two\n")
        assert process.returncode == 2
    assert os.listdir(tmp_path) == ["out.partial"]
    assert (tmp_path / "out.partial").read_bytes() == b"<2DE> ONE\n"


LINES = [
    b"" if number % 32 > 6 else b"  " if number == 3 else b"%d" % number for number in range(256)
]


def test_blank_lines_are_not_sent(tmp_path):
    (tmp_path / "in").write_bytes(b"".join(line + b"\n" for line in LINES))
    behaviour = Behaviour()
    with serve("rest", behaviour) as address:
        options = ["--input", str(tmp_path / "in"), "--output", str(tmp_path / "out")]
        assert main(["translate", "--server", address, *options]) == 0
    assert sum(map(len, behaviour.requests)) == 55
    assert (tmp_path / "out").read_bytes().split(b"\n") == [line.strip() for line in LINES] + [b""]


@pytest.mark.slow
def test_blank_lines_are_not_translated(trained, tmp_path, monkeypatch):
    asked = []
    original = ModelPredictor.call

    def watched(self, signature, tensors):
        asked.append(len(tensors["text"]))
        return original(self, signature, tensors)

    monkeypatch.setattr(ModelPredictor, "call", watched)
    (tmp_path / "in").write_bytes(b"".join(line + b"\n" for line in LINES))
    options = ["--input", str(tmp_path / "in"), "--output", str(tmp_path / "out")]
    assert main(["translate", "--model-dir", str(trained), "--beam-size", "1", *options]) == 0
    assert asked == [55]
    (tmp_path / "in").write_bytes(b"\n \n" * 300)
    assert main(["translate", "--model-dir", str(trained), "--n-best", "2", *options]) == 0
    assert asked == [55]
    rows = (tmp_path / "out").read_text().splitlines()
    assert rows[:3] == ["1\t0.0000\t", "1\t0.0000\t", "2\t0.0000\t"] and len(rows) == 1200


@pytest.mark.parametrize("name", ["in.gz", "in.zst", "in.tsv.gz:2", "in.tsv.zst:2"])
def test_translate_reads_what_train_reads(tmp_path, name):
    file = name.removesuffix(":2")
    text = b"one\n\ntwo\n" if file == name else b"x\tone\nx\t\nx\ttwo\n"
    compress = {".gz": gzip.compress, ".zst": zstandard.compress}.get(
        file[file.rindex(".") :], bytes
    )
    (tmp_path / file).write_bytes(compress(text))
    behaviour = Behaviour()
    with serve("rest", behaviour) as address:
        options = ["--input", str(tmp_path / name), "--output", str(tmp_path / "out")]
        assert main(["translate", "--server", address, *options]) == 0
    assert behaviour.requests == [[b"one", b"two"]]
    assert (tmp_path / "out").read_bytes() == b"ONE\n\nTWO\n"


def test_translate_names_no_such_column(tmp_path, capsys):
    (tmp_path / "in.tsv").write_bytes(b"a\n")
    assert main(["translate", "--server", "localhost:1", "--input", f"{tmp_path}/in.tsv:0"]) == 2
    assert "in.tsv:0: columns are counted from 1" in capsys.readouterr().err


def test_a_line_that_a_server_refuses_is_named_by_its_number(tmp_path, capsys):
    """Not by its place among those that were sent."""
    (tmp_path / "in").write_text("one\n\n" * 200 + "refuse\n")
    with serve("rest", Behaviour()) as address:
        options = ["--input", str(tmp_path / "in"), "--output", str(tmp_path / "out")]
        assert main(["translate", "--server", address, *options]) == 2
    assert "cannot refuse (row 401, sent again alone)" in capsys.readouterr().err


@pytest.mark.slow
def test_a_terminal_gets_no_control_characters(tmp_path):
    """They reach files and pipes as they are."""
    line = b"red\x1b[31m \xc2\x9b2J \x07\t\xc3\x89\xe3\x80\x80\xe2\x80\x8cx\n"
    (tmp_path / "in").write_bytes(line)
    with serve("rest", Behaviour()) as address:
        command = [*COMMAND, "--server", address, "--input", tmp_path / "in"]
        assert subprocess.check_output(command) == line.upper()
        reader, terminal = os.openpty()
        subprocess.run(command, stdout=terminal, check=True)
        os.close(terminal)
        shown = os.read(reader, 1000).replace(b"\r\n", b"\n").expandtabs()
        os.close(reader)
    expected = b"RED\\x1b[31M \\x9b2J \\x07\t\xc3\x89\xe3\x80\x80\xe2\x80\x8cX\n"
    assert shown == expected.expandtabs()


@pytest.mark.slow
def test_who_types_is_told_so(tmp_path):
    """And whoever gives a file or a pipe is not."""
    (tmp_path / "in").write_text("typed\n")
    with serve("rest", Behaviour()) as address:
        command = [*COMMAND, "--server", address]
        keyboard, terminal = os.openpty()
        os.write(keyboard, b"typed\n\x04")
        typed = subprocess.run(command, stdin=terminal, capture_output=True, timeout=60)
        os.close(keyboard)
        os.close(terminal)
        with open(tmp_path / "in") as pipe:
            piped = subprocess.run(command, stdin=pipe, capture_output=True, timeout=60)
    assert typed.stdout == piped.stdout == b"TYPED\n"
    assert typed.stderr == (
        b"tf-transformer: reading lines from the keyboard until Ctrl-D; --input F reads a file\n"
    )
    assert piped.stderr == b""


def test_nothing_to_translate_loads_no_model(trained, tmp_path, monkeypatch):
    def load(*_, **__):
        raise AssertionError("loaded")

    monkeypatch.setattr("export.commands.options.predictors.load_models", load)
    command = ["translate", "--model-dir", str(trained), "--output", str(tmp_path / "out")]
    (tmp_path / "in.gz").write_bytes(gzip.compress(b""))
    for empty in ("/dev/null", tmp_path / "in.gz"):
        assert main([*command, "--input", str(empty)]) == 0
        assert (tmp_path / "out").read_bytes() == b""
        (tmp_path / "out").unlink()
    (tmp_path / "in").write_bytes(b"a\n")
    with pytest.raises(AssertionError, match="loaded"):
        main([*command, "--input", str(tmp_path / "in")])


@pytest.mark.slow
def test_a_dash_stands_for_the_standard_streams(tmp_path):
    with serve("rest", Behaviour()) as address:
        command = [*COMMAND, "--server", address, "--input", "-", "--output", "-"]
        assert subprocess.check_output(command, input=b"one\n", cwd=tmp_path) == b"ONE\n"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "folder"])
def test_what_the_name_of_the_unfinished_output_refers_to(tmp_path, capsys, kind):
    """Nobody has named `F.partial`: another user may have put a link there."""
    partial, victim = tmp_path / "out.partial", tmp_path / "victim"
    (tmp_path / "in").write_text("one\n")
    if kind == "pipe":
        os.mkfifo(partial)
    elif kind == "folder":
        partial.mkdir()
    else:
        partial.symlink_to(victim)
    if kind == "link":
        victim.write_text("precious")
    before = sorted(os.listdir(tmp_path))
    with serve("rest", Behaviour()) as address:
        command = ["translate", "--server", address, "--input", str(tmp_path / "in")]
        assert main([*command, "--output", str(tmp_path / "out")]) == 2
    assert "out.partial: expected a file or nothing" in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == before
    assert kind != "link" or victim.read_text() == "precious"

"""Preparing: what is kept, what is left out and said, and that a kill costs nothing."""

import gzip
import io
import json
import multiprocessing
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import types
from codecs import BOM_UTF8

import numpy as np
import pytest
import zstandard
from sentencepiece import SentencePieceProcessor

import training.preparation.process_runner
from tf_transformer.__main__ import main
from tf_transformer.text.language_tags import languages_of
from tf_transformer.text.line_count import count_lines
from tf_transformer.text.reading import MAX_LINE_BYTES
from tf_transformer.text.text_file import TextFile
from training.commands.prepare_cli import _report
from training.demo.corpus import generate_pairs
from training.preparation.duplicates import mark_first_occurrences
from training.preparation.process_runner import ProcessRunner
from training.preparation.processes import ProcessPool, _initialize, phase_bar
from training.preparation.request import locked_output
from training.preparation.shards import usual_shard_pairs
from training.prepared.prepared_folder import WORK_NAME
from training.prepared.records import encode_pair, read_records, write_record

END = 3
PAIRS = generate_pairs(900, seed=5)
SETTINGS = ["--vocab-size", "400", "--set", "data.max_length=60"]


def write_lines(path, lines):
    path.write_bytes(b"".join(line if isinstance(line, bytes) else line.encode() + b"\n"
                              for line in lines))  # fmt: skip
    return str(path)


def write_pairs(directory, pairs, name="train"):
    sides = zip(*pairs, strict=True)
    return [
        write_lines(directory / f"{name}.{language}", lines)
        for language, lines in zip(("en", "de"), sides, strict=True)
    ]


def prepare(source, target, output, *extra):
    """Runs the command, and returns the description that it writes."""
    sides = [word for side, files in (("--source", source), ("--target", target)) if files
             for word in (side, *files)]  # fmt: skip
    command = ["prepare", *sides, "--output", str(output), "--processes", "1", *extra]
    assert main([*map(str, command)]) == 0
    return json.loads((output / "prepared.json").read_text())


def varint(data, place):
    value = shift = 0
    while True:
        byte, place = data[place], place + 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, place


def decode(record):
    """Reads an `Example` by the rules of protocol buffers alone."""
    sides = {}
    _, place = varint(record, 1)  # features
    while place < len(record):
        size, place = varint(record, place + 1)
        entry, place = record[place : place + size], place + size
        length = entry[1]
        name, value = entry[2 : 2 + length].decode(), entry[2 + length :]
        for _ in range(3):  # feature, list, packed values
            size, begin = varint(value, 1)
            value = value[begin:]
            assert len(value) == size
        ids, at = [], 0
        while at < len(value):
            number, at = varint(value, at)
            ids.append(number)
        sides[name] = ids
    return tuple(sides.get(name) for name in ("source", "target"))


def records_of(output):
    pairs = []
    for shard in json.loads((output / "prepared.json").read_text())["shards"]:
        with open(output / shard["name"], "rb") as file:
            found = [decode(record) for record in read_records(file)]
        assert len(found) == shard["pairs"]
        longest = [max(len(side) for side in pair if side) for pair in found]
        counted = np.bincount(longest).tolist() if longest else []
        assert counted == shard["lengths"]
        pairs += found
    return pairs


def encoded(output, pairs):
    processors = [
        SentencePieceProcessor(model_proto=(output / f"{side}.spm").read_bytes())
        for side in ("source", "target")
    ]
    return [
        tuple(
            [*processor.encode(line), END] for processor, line in zip(processors, pair, strict=True)
        )
        for pair in pairs
    ]


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """`PAIRS`, in shards of 100, and the files they come from."""
    directory = tmp_path_factory.mktemp("prepared")
    source, target = write_pairs(directory, PAIRS)
    prepare([source], [target], directory / "out", *SETTINGS, "--shard-pairs", "100")
    return directory


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([0], 100),
        ([32_000 * 100], 1000),
        ([300_000 * 100, 20_000 * 100], 10_000),
        ([10**9], 50_000),
    ],
)
def test_usual_size_of_shards(tmp_path, sizes, expected):
    """About 32 shards of 100 to 50,000 lines with 100 bytes each, without reading the texts."""
    files = []
    for number, size in enumerate(sizes):
        path = tmp_path / str(number)
        with open(path, "wb") as file:
            file.truncate(size)
        files.append((None, TextFile.parse(str(path))))
    assert usual_shard_pairs(files) == expected


# ---- What is kept ----


def test_every_pair_in_its_order(prepared):
    output = prepared / "out"
    assert records_of(output) == encoded(output, PAIRS)
    names = {f"shard-{number:05}.tfrecord" for number in range(9)}
    assert set(contents(output)) == names | {"prepared.json", "source.spm", "target.spm"}
    description = json.loads((output / "prepared.json").read_text())
    statistics = description["statistics"]
    assert statistics["kept"] == statistics["lines"] == 900
    tokens = [sum(map(len, side)) for side in zip(*encoded(output, PAIRS), strict=True)]
    assert [statistics["source_tokens"], statistics["target_tokens"]] == tokens


@pytest.mark.slow
def test_the_bytes_do_not_depend_on_processes(prepared, tmp_path):
    extra = [*SETTINGS, "--shard-pairs", "100", "--processes", "3"]
    prepare([prepared / "train.en"], [prepared / "train.de"], tmp_path / "out", *extra)
    assert contents(tmp_path / "out") == contents(prepared / "out")


@pytest.mark.slow
def test_files_of_all_kinds(prepared, tmp_path):
    """Each begins with a byte order mark, which is no text."""
    tsv = "".join(f"{target}\t{source}\r\n" for source, target in PAIRS[300:600]).encode()
    parts = [write_pairs(tmp_path, PAIRS[:300], "a"), None, write_pairs(tmp_path, PAIRS[600:], "c")]
    (tmp_path / "b.tsv.zst").write_bytes(
        zstandard.compress(BOM_UTF8 + tsv[:99]) + zstandard.compress(tsv[99:])
    )
    packed = []
    for path in map(pathlib.Path, parts[0]):
        packed.append(f"{path}.gz")
        pathlib.Path(packed[-1]).write_bytes(gzip.compress(BOM_UTF8 + path.read_bytes()))
    for path in map(pathlib.Path, parts[2]):
        path.write_bytes(BOM_UTF8 + path.read_bytes())
    both = str(tmp_path / "b.tsv.zst")
    output = tmp_path / "out"
    prepare(
        [packed[0], f"{both}:2", parts[2][0]], [packed[1], f"{both}:1", parts[2][1]], output,
        "--vocabulary", str(prepared / "out"), "--set", "data.max_length=60",
        "--shard-pairs", "130",
    )  # fmt: skip
    assert records_of(output) == encoded(prepared / "out", PAIRS)
    assert (output / "source.spm").read_bytes() == (prepared / "out/source.spm").read_bytes()


@pytest.mark.slow
def test_a_language_model_has_no_source(prepared, tmp_path):
    description = prepare(None, [prepared / "train.de"], tmp_path / "out", *SETTINGS)
    found = records_of(tmp_path / "out")
    model = SentencePieceProcessor(model_proto=(tmp_path / "out/target.spm").read_bytes())
    lines = list(dict.fromkeys(target for _, target in PAIRS))
    assert found == [(None, [*model.encode(line), END]) for line in lines]
    assert description["tokenizers"][0] is None
    assert not (tmp_path / "out/source.spm").exists()


# ---- What is left out ----


@pytest.mark.slow
def test_faults_and_duplicates(prepared, tmp_path, capsys):
    words = " ".join(["word"] * 100)
    rows = [
        (*PAIRS[0], True), (b"caf\xe9\n", "x", False), (*PAIRS[1], True), ("", "x", False),
        (*PAIRS[0], False), ("x", "   ", False), (words, "x", False),
        (PAIRS[0][0], PAIRS[1][1], True),
        ("x", b"\xff\xfe\n", False), (*PAIRS[2], True), (*PAIRS[1], False), (*PAIRS[0], False),
        ("x", words, False), ("x", "a\0b", False), (PAIRS[3][0] + "\r", PAIRS[3][1], True),
        (*PAIRS[3], False),
    ]  # fmt: skip
    source, target = write_pairs(tmp_path, [row[:2] for row in rows])
    extra = ["--vocabulary", str(prepared / "out"), "--set", "data.max_length=60"]
    output = tmp_path / "out"
    found = prepare([source], [target], output, *extra, "--shard-pairs", "4")["statistics"]
    kept = [tuple(side.rstrip("\r") for side in row[:2]) for row in rows if row[2]]
    assert records_of(output) == encoded(output, kept)
    assert found["faults"] == {
        "not UTF-8": 3, "without the column": 0, "empty on a side": 2, "too long": 2,
        "without a language tag": 0,
    }  # fmt: skip
    assert found["examples"]["not UTF-8"] == [f"{source}:2", f"{target}:9", f"{target}:14"]
    assert found["duplicates"] == 4 and found["kept"] == 5 and found["lines"] == 16
    report = capsys.readouterr().out
    assert "4 dropped as duplicates" in report and f"({target}:4, {target}:6)" in report

    output = tmp_path / "all"
    prepare([source], [target], output, *extra, "--keep-duplicates")
    assert len(records_of(output)) == 9


@pytest.mark.slow
def test_missing_columns(prepared, tmp_path):
    lines = [f"{source}\t{target}" for source, target in PAIRS[:5]]
    lines[3] = "alone"
    file = write_lines(tmp_path / "both.tsv", lines)
    extra = ["--vocabulary", str(prepared / "out")]
    found = prepare([file], [file], tmp_path / "out", *extra)["statistics"]
    assert found["faults"]["without the column"] == 1
    assert found["examples"]["without the column"] == [f"{file}:4"]
    assert records_of(tmp_path / "out") == encoded(tmp_path / "out", PAIRS[:3] + PAIRS[4:5])


@pytest.mark.parametrize("pairs_per_pass", [10, 37, 1000, 10**6])
def test_first_of_equal_digests(tmp_path, pairs_per_pass):
    draw = np.random.default_rng(pairs_per_pass)
    parts = [
        draw.integers(0, 300, size).astype(np.uint64) * np.uint64(2**55 + 12345)
        for size in (0, 200, 50, 333, 0)
    ]
    readers = [lambda part=part: part for part in parts]
    mark_first_occurrences(readers, tmp_path / "k.npy", 583, pairs_per_pass=pairs_per_pass)
    seen, expected = set(), []
    for digest in np.concatenate(parts).tolist():
        expected.append(digest not in seen)
        seen.add(digest)
    assert np.load(tmp_path / "k.npy").tolist() == expected


@pytest.mark.slow
@pytest.mark.representatives("1", "3", "100")
@pytest.mark.parametrize("piece", [1, 2, 3, 7, 100])
def test_counting_agrees_with_reading(tmp_path, monkeypatch, piece):
    monkeypatch.setattr("tf_transformer.text.line_count._CHUNK_BYTES", piece)
    draw = random.Random(piece)
    for _ in range(80):
        text = "".join(draw.choices("ab\r\n\n", k=draw.randrange(30))).encode()
        path, every = tmp_path / "text", draw.choice((1, 2, 3, 5))
        path.write_bytes(text)
        count = count_lines(path, every)
        lines = list(TextFile(path).lines())
        assert count.lines == len(lines)
        assert len(count.offsets) == -(-len(lines) // every) + 1
        for number, begin in enumerate(count.offsets[:-1]):
            path.write_bytes(text[begin : count.offsets[number + 1]])
            assert list(TextFile(path).lines()) == lines[number * every : (number + 1) * every]


@pytest.mark.parametrize("before", [0, 5, MAX_LINE_BYTES - 3])
@pytest.mark.parametrize("end", [b"", b"\n", b"\nlast"])
def test_count_lines_refuses_a_line_without_end(tmp_path, before, end):
    """It would be held in memory as a whole afterwards."""
    path = tmp_path / "text"
    first = b"x" * before + b"\nsecond\n"
    path.write_bytes(first + b"x" * MAX_LINE_BYTES + end)
    assert count_lines(path, 10).lines == 3 + (end == b"\nlast")
    path.write_bytes(first + b"x" * (MAX_LINE_BYTES + 1) + end)
    with pytest.raises(ValueError, match=r"text:3: expected a sentence, got more than 1,048,576"):
        count_lines(path, 10)


def test_records_are_read_back():
    file = io.BytesIO()
    pairs = [([7] * 200, [5, 70_000, END]), (None, [END])]
    for pair in pairs:
        write_record(file, encode_pair(*pair))
    file.seek(0)
    assert [decode(record) for record in read_records(file)] == pairs


# ---- Errors ----


def fails(capsys, source, target, output, *extra):
    command = ["prepare", "--source", *source, "--target", *target, "--output", str(output)]
    assert main([*map(str, command), "--processes", "1", *extra]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


@pytest.mark.slow
def test_files_that_do_not_fit(prepared, tmp_path, capsys):
    source, target = prepared / "train.en", prepared / "train.de"
    short = write_lines(tmp_path / "short", ["x"] * 7)
    error = fails(capsys, [source], [short], tmp_path / "a")
    assert f"{source} has 900 lines, {short} has 7" in error
    error = fails(capsys, [source, source], [target], tmp_path / "b")
    assert "as many files for --source as for --target, got 2 and 1" in error
    blanks = write_lines(tmp_path / "blanks", [" "] * 7)
    error = fails(capsys, [short], [blanks], tmp_path / "c", "--vocabulary", str(prepared / "out"))
    assert "no pair is left of 7: 7 are empty on a side" in error


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_cut_off_files(prepared, tmp_path, capsys, suffix):
    compress = {"gz": gzip.compress, "zst": zstandard.compress}[suffix]
    paths = []
    for language in ("en", "de"):
        paths.append(tmp_path / f"train.{language}.{suffix}")
        paths[-1].write_bytes(compress((prepared / f"train.{language}").read_bytes())[:-200])
    error = fails(capsys, paths[:1], paths[1:], tmp_path / "out")
    assert re.search(rf"train\.en\.{suffix}: truncated or damaged (gzip|zstd) file", error)


@pytest.mark.slow
def test_folders_of_others_are_left_alone(prepared, tmp_path, capsys):
    source, target = prepared / "train.en", prepared / "train.de"
    before = contents(prepared / "out")
    error = fails(capsys, [source], [target], prepared / "out", *SETTINGS, "--shard-pairs", "50")
    assert "was begun with shard pairs 100, not 50; give" in error
    error = fails(capsys, [target], [source], prepared / "out", *SETTINGS, "--shard-pairs", "100")
    assert "was begun with other files" in error
    assert contents(prepared / "out") == before
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "mine").write_text("x")
    assert "holds other files" in fails(capsys, [source], [target], tmp_path)
    assert contents(tmp_path / "work") == {"mine": b"x"}


@pytest.mark.slow
def test_settings_that_cannot_be_met_may_be_changed(prepared, tmp_path, capsys):
    """Nothing follows from them before there is a vocabulary."""
    files = [prepared / "train.en"], [prepared / "train.de"]
    error = fails(capsys, *files, tmp_path / "out", "--vocab-size", "90000")
    assert "set --vocab-size" in error
    prepare(*files, tmp_path / "out", *SETTINGS, "--shard-pairs", "100")
    assert contents(tmp_path / "out") == contents(prepared / "out")
    error = fails(capsys, *files, tmp_path / "out", "--vocab-size", "300", *SETTINGS[2:])
    assert "was begun with vocabulary.size 400, not 300; give" in error


def test_a_second_process_leaves_the_first_alone(prepared, capsys):
    output = prepared / "out"
    before = contents(output)
    with locked_output(output) as work:
        (work / "mine").write_text("x")
        extra = [*SETTINGS, "--shard-pairs", "100"]
        error = fails(capsys, [prepared / "train.en"], [prepared / "train.de"], output, *extra)
        assert "another process is preparing it" in error
        assert (work / "mine").exists()
    assert contents(output) == before


@pytest.mark.slow
def test_a_source_without_its_tag_is_left_out(tmp_path):
    tags = ["<2de> ", "", "<2fr> "] * 100
    pairs = [(tag + source, target) for tag, (source, target) in zip(tags, PAIRS, strict=False)]
    source, target = write_pairs(tmp_path, pairs)
    languages = "vocabulary.languages=[de, fr]"
    found = prepare([source], [target], tmp_path / "out", *SETTINGS, languages)
    assert found["statistics"]["faults"]["without a language tag"] == 100
    first = [f"{source}:{line}" for line in (2, 5, 8)]
    assert found["statistics"]["examples"]["without a language tag"] == first
    tagged = [pair for pair in pairs if pair[0].startswith("<2")]
    assert records_of(tmp_path / "out") == encoded(tmp_path / "out", tagged)
    pieces = SentencePieceProcessor(model_proto=(tmp_path / "out/source.spm").read_bytes())
    assert "<2de>" in pieces.encode("<2de> ten horses", out_type=str)
    assert languages_of(map(pieces.id_to_piece, range(len(pieces)))) == ["de", "fr"]


@pytest.mark.representatives(".gz")
@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["", ".zst", ".gz"])
def test_the_same_files_twice(prepared, tmp_path, suffix):
    files = write_pairs(tmp_path, PAIRS[:200])
    extra = ["--vocabulary", str(prepared / "out"), "--set", "data.max_length=60"]
    extra += ["--shard-pairs", "150"]
    compress = {"": bytes, ".zst": zstandard.compress, ".gz": gzip.compress}[suffix]
    for name in files:
        path = pathlib.Path(name)
        pathlib.Path(name + suffix).write_bytes(compress(path.read_bytes()))
    source, target = ([name + suffix] * 2 for name in files)
    found = prepare(source, target, tmp_path / "all", *extra, "--keep-duplicates")["statistics"]
    assert (found["kept"], found["duplicates"]) == (400, 0)
    assert records_of(tmp_path / "all") == encoded(tmp_path / "all", PAIRS[:200] * 2)
    found = prepare(source, target, tmp_path / "once", *extra)["statistics"]
    assert found["kept"] + found["duplicates"] == 400 and found["kept"] <= 200


@pytest.mark.slow
def test_a_text_that_changes_while_it_is_read(prepared, tmp_path, monkeypatch, capsys):
    """In place, with lines of the same lengths; brought back, the same command goes on."""
    source, target = write_pairs(tmp_path, PAIRS)
    extra = ["--vocabulary", str(prepared / "out"), "--set", "data.max_length=60"]
    extra += ["--shard-pairs", "100"]
    prepare([source], [target], tmp_path / "whole", *extra)
    text = pathlib.Path(target).read_bytes()
    original = training.preparation.process_runner._read_sides

    def read_sides(*arguments):
        for shard, sides in original(*arguments):
            yield shard, sides
            if shard.index == 2:
                pathlib.Path(target).write_bytes(text.swapcase())

    with monkeypatch.context() as patch:
        patch.setattr(training.preparation.process_runner, "_read_sides", read_sides)
        error = fails(capsys, [source], [target], tmp_path / "out", *extra)
    assert "train.de has changed while it was read" in error
    error = fails(capsys, [source], [target], tmp_path / "out", *extra)
    assert "was begun with other files" in error
    pathlib.Path(target).write_bytes(text)
    prepare([source], [target], tmp_path / "out", *extra)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"lines": "many"}, r"statistics\.lines: .* Received: 'many'$"),
        ({"faults": {"empty": -1}}, r"statistics\.faults\.empty: .* Received: -1$"),
        ({"examples": {"\x1b[31m": 3}}, r"statistics\.examples\.\\x1b\[31m: .* Received: 3$"),
    ],
)
def test_statistics_of_a_finished_folder_are_checked(prepared, tmp_path, capsys, changes, reason):
    output = tmp_path / "out"
    shutil.copytree(prepared / "out", output)
    path = output / "prepared.json"
    description = json.loads(path.read_text())
    description["statistics"] |= changes
    path.write_text(json.dumps(description))
    command = ["prepare", "--source", str(prepared / "train.en"), "--target"]
    command += [str(prepared / "train.de"), "--output", str(output), *SETTINGS]
    assert main([*command, "--shard-pairs", "100"]) == 2
    assert re.search(reason, capsys.readouterr().err.rstrip())


def test_places_of_dropped_pairs_are_escaped():
    description = {
        "statistics": {
            "lines": 3, "faults": {"empty": 2}, "examples": {"empty": ["\x1b[31mf:1"]},
            "duplicates": 0, "kept": 1, "source_tokens": 2, "target_tokens": 2,
        },
        "shards": [{}],
    }  # fmt: skip
    assert r"2 dropped as empty (\x1b[31mf:1, ...)" in _report(description)


def test_finished_folders_stay_as_they_are(prepared):
    before = {path: path.stat().st_mtime_ns for path in (prepared / "out").iterdir()}
    extra = [*SETTINGS, "--shard-pairs", "100"]
    prepare([prepared / "train.en"], [prepared / "train.de"], prepared / "out", *extra)
    assert {path: path.stat().st_mtime_ns for path in (prepared / "out").iterdir()} == before


# ---- Kills ----


def blocked_signals(_):
    return signal.pthread_sigmask(signal.SIG_BLOCK, [])


@pytest.mark.slow
def test_ctrl_c_reaches_no_worker_process():
    """Not even one that is about to start, which would print a traceback."""
    with ProcessPool(1) as pool, phase_bar("", 1, "") as progress:
        assert signal.SIGINT in next(pool.run([(blocked_signals, None, 1)], progress))
    assert signal.SIGINT not in blocked_signals(None)


def test_a_worker_whose_parent_was_killed_does_nothing(monkeypatch):
    """It may have been importing modules meanwhile."""
    parent = types.SimpleNamespace(is_alive=lambda: False)
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: parent)
    monkeypatch.setattr(os, "_exit", sys.exit)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit):
        _initialize(pytest.fail, ("must not be called",))


@pytest.mark.slow
def test_what_workers_leave_that_end_late_is_removed(tmp_path, monkeypatch):
    """One may end after the next call of the command has removed what the others left."""
    source, target = write_pairs(tmp_path, PAIRS)
    worker = subprocess.Popen(["sleep", "600"])
    (tmp_path / "out" / WORK_NAME).mkdir(parents=True)
    (tmp_path / "out" / f".writing-{worker.pid}.00001.tfrecord").write_text("")
    genuine = ProcessRunner.finish_shards

    def finish(*arguments):
        worker.kill()
        worker.wait()
        return genuine(*arguments)

    monkeypatch.setattr(ProcessRunner, "finish_shards", finish)
    prepare([source], [target], tmp_path / "out", *SETTINGS)
    assert not list((tmp_path / "out").glob(".writing-*"))


@pytest.mark.slow
def test_killed_between_two_shards_it_ends_with_the_same_bytes(tmp_path):
    pairs = [*PAIRS, *PAIRS[100:300], ("", "x"), *PAIRS[:50]]
    source, target = write_pairs(tmp_path, pairs)
    options = [*SETTINGS, "--shard-pairs", "30"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    prepare([source], [target], whole, *options)
    command = [sys.executable, "-m", "tf_transformer", "prepare", "--source", source]
    command += ["--target", target, "--output", str(killed), "--processes", "2", *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while not any(killed.glob("shard-*")):
            assert process.poll() is None
            time.sleep(0.001)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert not (killed / "prepared.json").exists()
    prepare([source], [target], killed, *options)
    assert contents(killed) == contents(whole)


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("attempts", [4, 12])
def test_killed_at_any_moment_it_ends_with_the_same_bytes(tmp_path, attempts):
    pairs = [*PAIRS, *PAIRS[100:300], ("", "x"), *PAIRS[:50]]
    source, target = write_pairs(tmp_path, pairs)
    pathlib.Path(source + ".zst").write_bytes(zstandard.compress(pathlib.Path(source).read_bytes()))
    command = [
        *(sys.executable, "-m", "tf_transformer", "prepare", "--source", source + ".zst"),
        *("--target", target, "--processes", "2", *SETTINGS, "--shard-pairs", "30"),
    ]
    begin = time.monotonic()
    subprocess.run(
        [*command, "--output", tmp_path / "whole"], check=True, stdout=subprocess.DEVNULL
    )
    duration = time.monotonic() - begin
    draw, kills = random.Random(1), 0
    for attempt in range(attempts):
        output = tmp_path / "killed"
        process = subprocess.Popen(
            [*command, "--output", output], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        try:  # at first before anything is there, then later and later
            _, errors = process.communicate(timeout=duration * draw.uniform(0.3, 1.1))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            kills += 1
            if attempt == 2:  # what a process that was killed while writing leaves
                (output / WORK_NAME).mkdir(parents=True, exist_ok=True)
                (output / ".writing-999999999.prepared.json").write_text("{")
                (output / WORK_NAME / ".writing-999999999.00001.npz").write_text("x")
        else:
            assert process.returncode == 0, errors.decode()
            assert contents(output) == contents(tmp_path / "whole")
            shutil.rmtree(output)
    subprocess.run([*command, "--output", output], check=True, stdout=subprocess.DEVNULL)
    assert contents(output) == contents(tmp_path / "whole")
    assert kills >= attempts // 4

"""`translate --runner`: every row once and in order, whatever the format and the kills."""

import gzip
import itertools
import json
import random
import subprocess
import sys

import pytest
import tensorflow as tf
import zstandard

pytest.importorskip("apache_beam")

import apache_beam
import pyarrow
import pyarrow.parquet
from apache_beam.ml.inference.base import RunInference
from apache_beam.testing.util import assert_that, equal_to

from export.bulk import chunks as chunks_module
from export.bulk import translate_file as driver
from export.bulk.model_handler import SavedModelHandler
from tf_transformer.__main__ import main
from tf_transformer.apache_beam.runner_options import pipeline_options

IN_MEMORY = [
    *("--runner", "direct", "--", "--direct_num_workers=1"),
    "--direct_running_mode=in_memory",
]
LINES = [f"satz {number} {'x' * (number % 11)}" if number % 5 else "" for number in range(1, 61)]
LINES[30] = "satz über Öl\r"


class Stub(tf.Module):
    """Translates to upper case; refuses a text, and truncates long ones."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def serve(self, text):
        refused = tf.strings.regex_full_match(text, ".*refused.*")
        check = tf.debugging.assert_equal(refused, False, "text refused")
        with tf.control_dependencies([check]):
            size = tf.strings.length(text)
        return {
            "translation": tf.strings.upper(text, encoding="utf-8"),
            "score": -tf.cast(size, tf.float32) / 8,
            "truncated": size > 15,
        }

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string, name="text"),
            *(
                tf.TensorSpec([None], dtype, name=name)
                for name, dtype in (
                    ("beam_size", tf.int32), ("length_penalty", tf.float32),
                    ("max_length", tf.int32), ("min_length", tf.int32),
                    ("no_repeat_ngram", tf.int32), ("coverage_penalty", tf.float32),
                )
            ),
        ]
    )  # fmt: skip
    def serve_options(self, text, beam_size, length_penalty, *_):
        found = self.serve(text)
        mark = tf.strings.join([tf.strings.as_string(beam_size), " "])
        return found | {"translation": mark + found["translation"], "score": length_penalty}


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    stub = Stub()
    signatures = {"serving_default": stub.serve, "translate_options": stub.serve_options}
    tf.saved_model.save(stub, str(folder / "2"), signatures)
    (folder / "2" / "model.json").write_text('{"beam_size": 4}')
    return folder


@pytest.fixture
def small_chunks(monkeypatch, inline_beam):
    for module in (chunks_module, driver):
        monkeypatch.setattr(module, "ROWS_PER_CHUNK", 7)


def translate(saved_model, source, output, *extra):
    command = ["translate", "--saved-model", saved_model, "--input", source, "--output", output]
    return main([str(word) for word in (*command, *(extra or ["--runner", "direct"]))])


def result(line):
    size = len(line.encode())
    return [line.upper(), -size / 8, size > 15] if line.strip() else ["", 0.0, False]


def write(path, lines):
    content = "".join(f"{line}\n" for line in lines).encode()
    pack = {".gz": gzip.compress, ".zst": zstandard.compress}.get(path.suffix, bytes)
    path.write_bytes(pack(content))
    return path


def read(path):
    content = path.read_bytes()
    if path.suffix == ".zst":
        content = zstandard.ZstdDecompressor().stream_reader(
            content, read_across_frames=True
        ).read()  # fmt: skip
    elif path.suffix == ".gz":
        content = gzip.decompress(content)
    return content.decode().removesuffix("\n").split("\n")


SENTENCES = [line.removesuffix("\r") for line in LINES]


# ---- Formats ----


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_text(saved_model, tmp_path, capsys, small_chunks, suffix):
    source = write(tmp_path / f"source{suffix}", LINES)
    output = tmp_path / f"output{suffix}"
    assert translate(saved_model, source, output) == 0
    assert read(output) == [line.upper() for line in SENTENCES]
    printed = capsys.readouterr()
    assert "Translated 60 sentences in " in printed.out and printed.err == ""
    num_truncated = sum(result(line)[2] for line in SENTENCES)
    assert f"{num_truncated} exceeded the model's length limit" in printed.out
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([source.name, output.name])


def test_tsv(saved_model, tmp_path, small_chunks):
    lines = [f"{number}\t{line}" for number, line in enumerate(SENTENCES)]
    source = write(tmp_path / "source.tsv.gz", lines)
    assert translate(saved_model, f"{source}:2", tmp_path / "output.tsv") == 0
    expected = [
        f"{line}\t{result(text)[0]}\t{result(text)[1]:.4f}"
        for line, text in zip(lines, SENTENCES, strict=True)
    ]
    assert read(tmp_path / "output.tsv") == expected
    assert translate(saved_model, f"{source}:2", tmp_path / "output") == 0
    assert read(tmp_path / "output") == [line.upper() for line in SENTENCES]


def test_json_lines(saved_model, tmp_path, small_chunks):
    objects = [{"id": n, "sentence": line, "x": [1.5, "é"]} for n, line in enumerate(SENTENCES)]
    source = write(tmp_path / "source.jsonl", map(json.dumps, objects))
    assert translate(saved_model, f"{source}:sentence", tmp_path / "output.jsonl.zst") == 0
    names = ("translation", "score", "truncated")
    assert list(map(json.loads, read(tmp_path / "output.jsonl.zst"))) == [
        found | dict(zip(names, result(found["sentence"]), strict=True)) for found in objects
    ]
    assert translate(saved_model, f"{source}:sentence", tmp_path / "output") == 0
    assert read(tmp_path / "output") == [line.upper() for line in SENTENCES]


def test_parquet(saved_model, tmp_path, small_chunks):
    texts = [None if number == 9 else line for number, line in enumerate(SENTENCES)]
    table = pyarrow.table({"id": list(range(60)), "text": texts})
    source = tmp_path / "source.parquet"
    pyarrow.parquet.write_table(table, source, row_group_size=25)
    assert translate(saved_model, source, tmp_path / "output.parquet") == 0
    found = pyarrow.parquet.read_table(tmp_path / "output.parquet")
    assert found.select(["id", "text"]).equals(table)
    expected = [[None] * 3 if text is None else result(text) for text in texts]
    for index, name in enumerate(("translation", "score", "truncated")):
        assert found[name].to_pylist() == [row[index] for row in expected]
    failed = read(tmp_path / "output.parquet.failed.jsonl")
    assert failed == [json.dumps({"row": 10, "reason": f"{source}:10: has no value of 'text'"})]
    assert translate(saved_model, source, tmp_path / "output") == 0
    assert read(tmp_path / "output") == [(text or "").upper() for text in texts]


@pytest.mark.parametrize("suffix", ["", ".jsonl", ".parquet", ".gz", ".zst"])
def test_no_rows(saved_model, tmp_path, suffix, inline_beam):
    source, output = tmp_path / f"source{suffix}", tmp_path / f"output{suffix}"
    if suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.table({"text": pyarrow.array([], "string")}), source)
    else:
        write(source, [])
    assert translate(saved_model, source, output) == 0
    if suffix == ".parquet":
        names = ["text", "translation", "score", "truncated"]
        assert pyarrow.parquet.read_table(output).column_names == names
    else:
        assert read(output) == [""]


@pytest.mark.slow
@pytest.mark.parametrize("runner", [IN_MEMORY, ["--runner", "direct"], ["--runner", "dask"]])
def test_runners(saved_model, tmp_path, runner):
    lines = [f"{line} {number}" for number, line in enumerate(LINES * 80)]
    source = write(tmp_path / "source.gz", lines)
    assert translate(saved_model, source, tmp_path / "output", *runner) == 0
    assert read(tmp_path / "output") == [line.replace("\r", "").upper() for line in lines]


# ---- Failed rows ----


def test_failed_rows_go_to_a_file_of_their_own(saved_model, tmp_path, capsys, small_chunks):
    rows = [
        b'{"text": "one"}', b'{"text": "caf\xe9"}', b'{"text": 5}', b'{"other": ""}', b"[]", b"{",
        b"[" * 100_000, b'{"text": "\\ud800"}', b'{"text": "refused"}', b'{"text": "nine"}',
        b'{"text": "ten", "score": 1}', b"", b'{"text": "last", "x": "\\ud800"}',
    ]  # fmt: skip
    source, output = tmp_path / "source.jsonl", tmp_path / "output.jsonl"
    source.write_bytes(b"\n".join(rows) + b"\n")
    assert translate(saved_model, source, output) == 0
    found = list(map(json.loads, read(output)))
    assert [row["translation"] for row in found] == (
        ["ONE", *[None] * 8, "NINE", None, None, "LAST"]
    )
    assert found[8]["text"] == "refused" and found[12]["x"] == "\ud800"
    failed = list(map(json.loads, read(tmp_path / "output.jsonl.failed.jsonl")))
    assert [row["row"] for row in failed] == [2, 3, 4, 5, 6, 7, 8, 9, 11, 12]
    for row, reason in zip(
        failed,
        (
            "not UTF-8", "expected a string as 'text', got int", "has no entry 'text'",
            "expected a JSON object, got list", "not JSON", "not JSON", "surrogate",
            "text refused", "has an entry 'score', which the output would replace",
            "not JSON",
        ),
        strict=True,
    ):  # fmt: skip
        assert reason in row["reason"]
    error = capsys.readouterr().err
    assert f"10 of 13 rows failed, see {output}.failed.jsonl" in error

    write(source, ['{"text": "one"}'])
    assert translate(saved_model, source, output) == 0
    assert not (tmp_path / "output.jsonl.failed.jsonl").exists()


def test_rows_that_cannot_be_repeated_fail(saved_model, tmp_path, small_chunks):
    """Nested so deeply that they can be read, but not written again; a number beyond floats."""
    rows = ['{"text": "one"}', '{"text": "two", "x": 1e999}']
    rows += [
        f'{{"text": "x", "deep": {"[" * depth}{"]" * depth}}}' for depth in range(190, 1000, 9)
    ]
    source, output = write(tmp_path / "source.jsonl", rows), tmp_path / "output.jsonl"
    assert translate(saved_model, source, output) == 0
    found = list(map(json.loads, read(output)))
    assert len(found) == len(rows) and found[0]["translation"] == "ONE"
    assert found[1]["translation"] is None and found[-1]["translation"] is None
    failed = list(map(json.loads, read(tmp_path / "output.jsonl.failed.jsonl")))
    assert "a number of 5 characters is too large" in failed[0]["reason"]
    assert "at most 200 levels" in failed[1]["reason"]
    assert [row["row"] for row in failed] == [2, *range(5, len(rows) + 1)]


def test_invalid_text_in_parquet_fails_alone(saved_model, tmp_path, small_chunks):
    texts = pyarrow.array([b"one", b"caf\xe9", b"two"], pyarrow.binary())
    strings = pyarrow.Array.from_buffers(pyarrow.string(), 3, texts.buffers())
    source, output = tmp_path / "source.parquet", tmp_path / "output.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": strings}), source)
    assert translate(saved_model, source, output) == 0
    found = pyarrow.parquet.read_table(output, columns=["translation"])
    assert found["translation"].to_pylist() == ["ONE", None, "TWO"]
    (failed,) = map(json.loads, read(tmp_path / "output.parquet.failed.jsonl"))
    assert failed["row"] == 2 and ":2: expected UTF-8 in 'text'" in failed["reason"]


@pytest.mark.parametrize("content", ["mine\n", "", "{}\n", "[" * 100_000])
def test_a_file_of_others_in_place_of_the_failed_rows(
    saved_model, tmp_path, capsys, inline_beam, content
):
    source = write(tmp_path / "source", ["one"])
    failed = tmp_path / "output.failed.jsonl"
    failed.write_text(content)
    assert translate(saved_model, source, tmp_path / "output") == 2
    assert "expected nothing, or the failed rows of a former run" in capsys.readouterr().err
    assert failed.read_text() == content
    assert not (tmp_path / "output").exists()


@pytest.mark.parametrize("number", ["-3", "100000"])
def test_number_of_workers(saved_model, tmp_path, capsys, number):
    source = write(tmp_path / "source", ["one"])
    extra = ["--runner", "direct", "--", f"--direct_num_workers={number}"]
    assert translate(saved_model, source, tmp_path / "output", *extra) == 2
    assert "expected --direct_num_workers from 0 to 1024" in capsys.readouterr().err


def test_failed_lines_are_blank(saved_model, tmp_path, small_chunks):
    source = tmp_path / "source.tsv"
    source.write_bytes(b"a\tone\nb\nc\trefused\nd\t\xff\ne\tfive\n")
    assert translate(saved_model, f"{source}:2", tmp_path / "output") == 0
    assert read(tmp_path / "output") == ["ONE", "", "", "", "FIVE"]
    assert translate(saved_model, f"{source}:2", tmp_path / "output.tsv") == 0
    assert read(tmp_path / "output.tsv")[1:4] == ["b\t\t", "c\trefused\t\t", "\t\t"]


def test_every_row_fails(saved_model, tmp_path, capsys, inline_beam):
    source = write(tmp_path / "source", ["refused"] * 3)
    assert translate(saved_model, source, tmp_path / "output") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "every row failed: " in error and "text refused" in error
    assert not (tmp_path / "output").exists()


# ---- Resuming ----


def test_a_resumed_run_translates_the_other_chunks_only(
    saved_model, tmp_path, monkeypatch, capsys, small_chunks
):
    source, output = write(tmp_path / "source", LINES), tmp_path / "output"
    output.write_text("former")
    genuine, written = chunks_module.TranslateChunks._write, []

    def fail(self, chunk, *arguments):
        if chunk.index in (2, 5):
            raise OSError("disk is full")
        written.append(chunk.index)
        genuine(self, chunk, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(chunks_module.TranslateChunks, "_write", fail)
        assert translate(saved_model, source, output) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "disk is full" in error
    assert output.read_text() == "former"
    assert translate(saved_model, source, output) == 0
    assert read(output) == [line.upper() for line in SENTENCES]
    assert f"Translated {60 - 7 * len(written)} sentences" in capsys.readouterr().out
    assert not (tmp_path / "output.work").exists()


def test_another_request_is_refused(saved_model, tmp_path, monkeypatch, capsys, small_chunks):
    source, output = write(tmp_path / "source", LINES), tmp_path / "output"
    with monkeypatch.context() as patch:
        patch.setattr(chunks_module.TranslateChunks, "process", lambda *_: [])
        assert translate(saved_model, source, output) == 2
    assert "translating: the pipeline of Apache Beam ended with 0 of 9" in capsys.readouterr().err
    assert translate(saved_model, source, output, "--beam-size", "2", "--runner", "direct") == 2
    assert "output.work was begun with another search; give the" in capsys.readouterr().err
    write(source, reversed(LINES))
    assert translate(saved_model, source, output) == 2
    assert "output.work was begun with another input; give the" in capsys.readouterr().err
    (tmp_path / "output.work" / "request.json").write_text("[")
    assert translate(saved_model, source, output) == 2
    assert "request.json: damaged; remove" in capsys.readouterr().err


@pytest.mark.parametrize("stage", ["count_files", "decompress_files"])
def test_interrupted_before_the_first_chunk(
    saved_model, tmp_path, monkeypatch, capsys, small_chunks, stage
):
    """The same input is resumed; another one is never mixed with what is left of the former."""
    source, output = write(tmp_path / "source.gz", LINES), tmp_path / "output"
    genuine = getattr(driver, stage)

    def interrupted(*arguments):
        genuine(*arguments)
        raise OSError("interrupted")

    with monkeypatch.context() as patch:
        patch.setattr(driver, stage, interrupted)
        assert translate(saved_model, source, output) == 2
    former = source.read_bytes()
    write(source, reversed(LINES))
    status = translate(saved_model, source, output)
    if stage == "count_files":  # nothing depends on the input yet
        assert status == 0
        assert read(output) == [line.upper() for line in reversed(SENTENCES)]
        return
    assert status == 2 and "was begun with another input" in capsys.readouterr().err
    source.write_bytes(former)
    assert translate(saved_model, source, output) == 0
    assert read(output) == [line.upper() for line in SENTENCES]


def test_a_folder_of_others_is_left_alone(saved_model, tmp_path, capsys, inline_beam):
    (tmp_path / "output.work").mkdir()
    (tmp_path / "output.work" / "mine").write_text("x")
    assert translate(saved_model, write(tmp_path / "source", LINES), tmp_path / "output") == 2
    assert "output.work: expected nothing, for intermediate files" in capsys.readouterr().err
    assert (tmp_path / "output.work" / "mine").read_text() == "x"


@pytest.mark.slow
def test_killed_at_random(saved_model, tmp_path):
    lines = [f"{line} {number}" for number, line in enumerate(LINES * 200)]
    source, output = write(tmp_path / "source", lines), tmp_path / "output"
    command = [sys.executable, "-m", "tf_transformer", "translate", "--saved-model", saved_model]
    command += ["--input", source, "--output", output, "--runner", "direct"]
    draw, kills, wait = random.Random(3), 0, 4.0
    while kills < 3:  # the same command again and again, each time for a little longer
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            assert process.wait(wait * draw.uniform(0.5, 1)) == 0
            output.unlink()
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
            wait += 1
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert read(output) == [line.replace("\r", "").upper() for line in lines]


# ---- The handler ----


def test_options_reach_the_model(saved_model, tmp_path, inline_beam):
    source = write(tmp_path / "source.jsonl", ['{"text": "one"}'])
    output = tmp_path / "output.jsonl"
    options = ["--beam-size", "3", "--length-penalty", "0.5", "--target-language", "de"]
    assert translate(saved_model, source, output, *options, "--runner", "direct") == 0
    found = json.loads(output.read_text())
    assert (found["translation"], found["score"]) == ("3 <2DE> ONE", 0.5)


def test_parts_have_similar_lengths(saved_model):
    handler = SavedModelHandler(saved_model / "2", batch_size=4)
    draw = random.Random(0)
    batch = ["x" * draw.randrange(1, 50) for _ in range(30)]
    parts = list(handler.parts(batch))
    assert sorted(index for part in parts for index in part) == list(range(30))
    lengths = [[len(batch[index]) for index in part] for part in parts]
    assert [len(part) for part in parts] == [4] * 7 + [2]
    assert list(itertools.chain(*lengths)) == sorted(map(len, batch))


def test_run_inference(saved_model):
    """The transform of Apache Beam, in a pipeline of the user's own."""
    handler = SavedModelHandler(saved_model / "2", max_batch_size=16)
    direct = ("direct", ["--direct_running_mode=in_memory"], 1)
    with apache_beam.Pipeline(options=pipeline_options(*direct)) as pipeline:
        found = pipeline | apache_beam.Create(SENTENCES) | RunInference(handler)
        texts = found | apache_beam.Map(lambda result: result.text)
        assert_that(texts, equal_to([line.upper() for line in SENTENCES]))


@pytest.mark.slow
def test_an_exported_model_translates_as_its_model_directory(talkative, corpus, tmp_path):
    served = tmp_path / "served"
    command = ["export", "--model-dir", str(talkative), "--output", str(served)]
    assert main([*command, "--signatures", "serving_default", "translate_options"]) == 0
    source = write(
        tmp_path / "source", LINES + (corpus.directory / "test.en").read_text().split("\n")
    )
    assert translate(served, source, tmp_path / "output") == 0
    command = ["translate", "--model-dir", str(talkative), "--input", str(source)]
    assert main([*command, "--output", str(tmp_path / "expected")]) == 0
    assert (tmp_path / "output").read_bytes() == (tmp_path / "expected").read_bytes()


# ---- Errors ----


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model-dir", "m", "--input", "{s}", "--output", "o", *IN_MEMORY],
         "--runner is valid only with --saved-model"),
        (["--saved-model", "{m}", "--output", "o", *IN_MEMORY], "expected files as --input"),
        (["--saved-model", "{m}", "--input", "{s}", *IN_MEMORY], "expected files as --input"),
        (["--saved-model", "{s}", "--input", "{s}", "--output", "o", *IN_MEMORY], "such as ser"),
        (["--saved-model", "{m}", "--input", "{s}", "--output", "{s}", *IN_MEMORY], "is an input"),
        (["--saved-model", "{m}", "--input", "{s}", "--output", "{m}/2/saved_model.pb",
          *IN_MEMORY], "is an input"),
        (["--saved-model", "{m}", "--input", "no", "--output", "o", *IN_MEMORY], "no: expected a"),
        (["--saved-model", "{m}", "--input", "{s}", "--output", "o.jsonl", *IN_MEMORY], "text, as"),
        (["--saved-model", "{m}", "--input", "{s}", "--output", "o", "--beam-size", "9",
          *IN_MEMORY], "--beam-size 9: expected at most that of the exported model, 4"),
        (["--saved-model", "{m}", "--input", "{s}", "--output", "o", "--n-best", "2", *IN_MEMORY],
         "--n-best is not valid with --runner"),
        (["--saved-model", "{m}", "--input", "{s}", "--output", "no/o", *IN_MEMORY], "no folder"),
        (["--saved-model", "{m}", "--input", "{s}", "--output", "o.parquet.gz", *IN_MEMORY],
         "expected Parquet without .gz"),
    ],
)  # fmt: skip
def test_invalid_arguments(saved_model, tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    names = {"m": str(saved_model), "s": str(write(tmp_path / "source", LINES))}
    assert main(["translate", *(word.format(**names) for word in words)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"other": ["x"]}, "expected one column 'text', got other"),
        ({"text": [1]}, "expected strings in 'text', got int64"),
        ({"text": ["x"], "score": [1]}, "has a column 'score', which the output would replace"),
        (None, "expected a Parquet file"),
    ],
)
def test_invalid_parquet(saved_model, tmp_path, capsys, columns, message, inline_beam):
    source = tmp_path / "source.parquet"
    if columns is None:
        source.write_bytes(b"PAR1" * 20)
    else:
        pyarrow.parquet.write_table(pyarrow.table(columns), source)
    assert translate(saved_model, source, tmp_path / "output") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error


def test_damaged_parquet(saved_model, tmp_path, capsys, inline_beam):
    """Bits that are changed give an error or another text, and never a traceback."""
    source = tmp_path / "source.parquet"
    texts = [f"{line} {number}" for number, line in enumerate(LINES * 5)]
    pyarrow.parquet.write_table(pyarrow.table({"text": texts}), source, use_dictionary=False)
    content = source.read_bytes()
    draw = random.Random(4)
    for _ in range(12):
        damaged = bytearray(content)
        for _ in range(5):
            damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
        source.write_bytes(damaged)
        status = translate(saved_model, source, tmp_path / "output")
        error = capsys.readouterr().err
        assert status in (0, 2) and "Traceback" not in error
        if status == 2:
            assert error.count("\n") == 1
            subprocess.run(["rm", "-r", tmp_path / "output.work"], check=False)

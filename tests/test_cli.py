"""The command: what users type, and one line with status 2 for what they mistype."""

import io
import json
import re
import shutil

import pytest

from tests.serving_stub import Behaviour, serve
from tf_transformer.__main__ import main
from tf_transformer.predictors.answers import answer


def fails(capsys, *arguments):
    """Runs a command that must fail, and returns its one line on standard error."""
    try:
        status = main([str(argument) for argument in arguments])
    except SystemExit as exit:  # argparse
        status = exit.code
    captured = capsys.readouterr()
    assert status == 2
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def train_options(corpus, model_dir, **changes):
    options = dict(zip(corpus.options[::2], corpus.options[1::2], strict=True))
    options |= {f"--{name.replace('_', '-')}": value for name, value in changes.items()}
    return ["train", *(word for pair in options.items() for word in pair), "--model-dir", model_dir]


def test_unknown_command_and_option(capsys):
    assert "invalid choice: 'trian'" in fails(capsys, "trian")
    assert "unrecognized arguments: --beam" in fails(capsys, "average", "--model-dir", "x",
                                                     "--last", "1", "--beam")  # fmt: skip
    assert "--last --best --models is required" in fails(capsys, "average", "--model-dir", "x")


def test_missing_corpus(capsys, corpus, tmp_path):
    line = fails(capsys, *train_options(corpus, tmp_path / "m", source=tmp_path / "none.en"))
    assert line == f"tf-transformer: error: {tmp_path}/none.en: no such file\n"
    assert not (tmp_path / "m").exists()


def test_source_and_target_of_different_length(capsys, corpus, tmp_path):
    line = fails(capsys, *train_options(corpus, tmp_path / "m", target=corpus.path("test.de")))
    assert "train.en has 600 lines" in line and "test.de has 200" in line
    assert not (tmp_path / "m").exists()


def test_corpus_that_is_not_utf8(capsys, corpus, tmp_path):
    lines = (corpus.directory / "train.en").read_bytes().splitlines()
    lines[16] = b"caf\xe9"
    (tmp_path / "bad.en").write_bytes(b"\n".join(lines) + b"\n")
    line = fails(capsys, *train_options(corpus, tmp_path / "m", source=tmp_path / "bad.en"))
    assert "bad.en:17: not UTF-8" in line


def test_unknown_preset_and_settings(capsys, corpus, tmp_path):
    command = train_options(corpus, tmp_path / "m")
    assert "did you mean 'tiny'?" in fails(capsys, *command, "--preset", "tinny")
    assert "did you mean 'd_model'?" in fails(capsys, *command, "--set", "model.d_modle=8")
    line = fails(capsys, *command, "--set", "optimization.warmup=8")
    assert (
        "unknown setting 'optimization.warmup'; did you mean 'optimization.warmup_steps'?" in line
    )
    assert "expected NAME=VALUE" in fails(capsys, *command, "--set", "steps")
    assert "num_heads" in fails(capsys, *command, "--set", "model.num_heads=3")
    assert "greater than 0" in fails(capsys, *command, "--steps", "0")
    (tmp_path / "c.yaml").write_text("data:\n  batch_token: 12\n")
    line = fails(capsys, *command, "--config", tmp_path / "c.yaml")
    assert "'data.batch_token'; did you mean 'data.batch_tokens'?" in line


def test_vocabulary_larger_than_the_corpus_fills(capsys, corpus, tmp_path):
    line = fails(capsys, *train_options(corpus, tmp_path / "m", vocab_size="30000"))
    assert "the corpus is too small for a vocabulary of 30000 bpe pieces" in line
    assert re.search(r"it fills at most (\d+); set --vocab-size \1 or less", line)
    assert not (tmp_path / "m").exists()


def test_model_directory_that_is_none(capsys, corpus, tmp_path):
    (tmp_path / "in").write_text("x\n")
    command = ("translate", "--input", tmp_path / "in", "--model-dir")
    assert "is not a model directory" in fails(capsys, *command, tmp_path)


def test_model_directory_of_another_version(capsys, trained, tmp_path):
    shutil.copytree(trained, tmp_path / "model")
    config = json.loads((trained / "config.json").read_text())
    (tmp_path / "model" / "config.json").write_text(json.dumps(config | {"format_version": 99}))
    line = fails(capsys, "export", "--model-dir", tmp_path / "model", "--output", tmp_path / "out")
    assert "reads model directories of format 2, got format 99" in line
    assert not (tmp_path / "out").exists()


def test_truncated_weights(capsys, trained, tmp_path):
    shutil.copytree(trained, tmp_path / "model")
    weights = tmp_path / "model" / "model.weights.h5"
    weights.write_bytes(weights.read_bytes()[:5000])
    (tmp_path / "in").write_text("x\n")
    line = fails(capsys, "translate", "--model-dir", tmp_path / "model", "--input", tmp_path / "in")
    assert "model.weights.h5: damaged, or of another model" in line


@pytest.mark.slow
def test_full_disk(capsys, trained, tmp_path):
    (tmp_path / "in").write_text("ten horses\n")
    line = fails(capsys, "translate", "--model-dir", trained, "--input", tmp_path / "in",
                 "--output", "/dev/full")  # fmt: skip
    assert line == "tf-transformer: error: /dev/full: no space left on device\n"


def test_beam_size_out_of_range(capsys, trained, tmp_path):
    (tmp_path / "in").write_text("x\n")
    command = ("translate", "--model-dir", trained, "--input", tmp_path / "in")
    assert "--beam-size 0: expected 1 to 1000" in fails(capsys, *command, "--beam-size", "0")
    for penalty in ("inf", "nan", "-1", "10.5"):
        line = fails(capsys, *command, "--length-penalty", penalty)
        assert f"--length-penalty {penalty}: expected 0 to 10" in line


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--beam-size", "-3", "--beam-size -3: expected 1 to 1000"),
        ("--length-penalty", "inf", "--length-penalty inf: expected 0 to 10"),
        ("--max-batch-size", "0", "`max_batch_size` must be at least 1"),
        (
            "--deadline",
            "inf",
            "`deadline` must be above 0 and at most 9223372036 seconds. Received",
        ),
    ],
)
def test_options_of_a_server_out_of_range(capsys, tmp_path, option, value, message):
    (tmp_path / "in").write_text("x\n")
    command = ("translate", "--server", "localhost:1", "--input", tmp_path / "in")
    assert message in fails(capsys, *command, option, value)


@pytest.mark.parametrize(
    ("option", "value"),
    [("--deadline", "3"), ("--max-batch-size", "2"), ("--protocol", "rest"), ("--model", "x")],
)
def test_limits_of_requests_are_of_a_server(capsys, trained, tmp_path, option, value):
    command = ("translate", "--model-dir", trained, "--input", tmp_path / "in")
    assert f"{option} is valid only with --server" in fails(capsys, *command, option, value)


@pytest.mark.parametrize("error", [KeyError("bug"), ValueError("from elsewhere")])
def test_programming_errors_keep_their_traceback(monkeypatch, error):
    """Only the project's own `ValueError`s are for users; this one is raised in a test file."""

    def broken(model_dir):
        raise error

    monkeypatch.setattr("tf_transformer.storage.model_dir.read_config", broken)
    with pytest.raises(type(error)):
        main(["average", "--model-dir", "x", "--last", "1"])


@pytest.mark.slow
def test_translate_keeps_order_and_empty_lines(trained, tmp_path, capsys):
    (tmp_path / "in").write_bytes(b"ten horses\n\n   \r\nthe third of May\r\nlast line")
    output = tmp_path / "out"
    command = ["translate", "--model-dir", str(trained), "--input", str(tmp_path / "in")]
    assert main([*command, "--output", str(output)]) == 0
    lines = output.read_text(encoding="utf-8").split("\n")
    assert len(lines) == 6 and lines[5] == ""
    assert lines[1] == lines[2] == ""

    assert main([*command, "--n-best", "2", "--output", str(output)]) == 0
    rows = [line.split("\t") for line in output.read_text(encoding="utf-8").splitlines()]
    assert [row[0] for row in rows] == [str(number) for number in (1, 1, 2, 2, 3, 3, 4, 4, 5, 5)]
    assert [row[2] for row in rows[::2]] == lines[:5]
    assert capsys.readouterr().err == ""

    (tmp_path / "in").write_text("word " * 300 + "\nTen horses. Two horses.\n")
    assert main(command) == 0
    notice = capsys.readouterr().err
    assert notice.endswith(
        "sentences that exceeded the model's length limit and were truncated: 1\n"
        "tf-transformer: lines that look like several sentences, of which the end may be missing: "
        "1; use --split-sentences\n"
    )


@pytest.mark.parametrize("protocol", ["rest", "grpc"])
def test_translate_by_a_server(protocol, tmp_path, capsys):
    (tmp_path / "in").write_text("ten horses\n\na dog\n")
    output = tmp_path / "out"
    with serve(protocol, Behaviour()) as address:
        command = ["translate", "--server", address, "--protocol", protocol]
        command += ["--input", str(tmp_path / "in"), "--output", str(output)]
        assert main([*command, "--beam-size", "3", "--length-penalty", "1"]) == 0
        suffix = " beam 3 penalty 1"
        assert output.read_text() == f"TEN HORSES{suffix}\n\nA DOG{suffix}\n"
        assert main(command) == 0  # what is not asked for is the server's own
        assert output.read_text() == "TEN HORSES\n\nA DOG\n"
        assert main([*command, "--dtype", "int8"]) == 2
        assert "--dtype is valid only with --model-dir" in capsys.readouterr().err
        assert main([*command, "--model", "other"]) == 2
        assert "other" in capsys.readouterr().err
        assert main([*command, "--n-best", "2"]) == 2
        error = capsys.readouterr().err
        assert "no signature 'nbest' or 'nbest_options', which --n-best needs; export" in error
    assert output.read_text().startswith("TEN HORSES")
    with pytest.raises(SystemExit):
        main(["translate", "--input", str(tmp_path / "in")])
    error = capsys.readouterr().err
    assert "one of the arguments --model-dir --saved-model --server is required" in error


@pytest.mark.slow
def test_translate_standard_input_and_output(trained, monkeypatch, capfdbinary):
    stream = io.TextIOWrapper(io.BytesIO(b"ten horses\n"))
    monkeypatch.setattr("sys.stdin", stream)
    assert main(["translate", "--model-dir", str(trained), "--beam-size", "1"]) == 0
    assert capfdbinary.readouterr().out.count(b"\n") == 1


@pytest.mark.slow
def test_evaluate_writes_scores_with_signatures(trained, corpus, tmp_path, capsys):
    output, scores_file = tmp_path / "out", tmp_path / "scores.json"
    command = [
        *("evaluate", "--model-dir", str(trained), "--beam-size", "2"),
        *("--source", corpus.path("validation.en"), "--reference", corpus.path("validation.de")),
        *("--output", str(output), "--json", str(scores_file)),
        *("--report", str(tmp_path / "report.html"), "--training-text", corpus.path("train.de")),
    ]
    assert main(command) == 0
    scores = json.loads(scores_file.read_text())
    page = (tmp_path / "report.html").read_text()
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    assert data["systems"][0]["lines"] == output.read_text().splitlines()
    assert data["systems"][0]["name"] == trained.name
    assert f"{scores['bleu']:.2f}" in page and "F1 of words" in page
    assert "tok:13a" in scores["bleu_signature"] and "nc:6" in scores["chrf_signature"]
    assert scores["sentences"] == 40 and scores["beam_size"] == 2
    assert scores["perplexity"] > 1
    assert len(output.read_text().splitlines()) == 40
    assert scores["bleu_signature"] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (("--output", "source"), "--output source is an input file"),
        (("--json", "reference"), "--json reference is an input file"),
        (("--output", "link"), "--output link is an input file"),
        (("--output", "x", "--json", "x"), "--json x is also --output"),
        (("--report", "reference.html"), "--report reference.html is an input file"),
        (("--json", "x.html", "--report", "x.html"), "--report x.html is also --json"),
        (("--languages", "en", "de"), "--languages is for the report; give --report"),
        (("--output", "model/model.weights.h5"), "model.weights.h5 is a file of the model"),
    ],
)
def test_evaluate_replaces_nothing_that_it_reads(
    trained, corpus, tmp_path, monkeypatch, capsys, outputs, message
):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trained, "model")
    shutil.copy(corpus.path("validation.en"), "source")
    shutil.copy(corpus.path("validation.de"), "reference")
    (tmp_path / "link").symlink_to("reference")
    (tmp_path / "reference.html").symlink_to("reference")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    command = ("evaluate", "--model-dir", "model", "--source", "source", "--reference", "reference")
    assert message in fails(capsys, *command, *outputs)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.slow
def test_evaluate_writes_a_translation_a_line(trained, corpus, tmp_path, monkeypatch, capsys):
    """A vocabulary with bytes can spell line ends."""

    def with_line_ends(predictor, task, inputs, *options):
        if task == "translate":
            yield {"translation": ["zehn\nPferde"] * len(inputs["text"])}
        else:
            yield from answer(predictor, task, inputs, *options)

    monkeypatch.setattr("training.evaluation.evaluation.answer", with_line_ends)
    output = tmp_path / "out"
    command = [
        *("evaluate", "--model-dir", str(trained), "--output", str(output)),
        *("--source", corpus.path("validation.en"), "--reference", corpus.path("validation.de")),
    ]
    assert main(command) == 0
    assert output.read_text() == "zehn Pferde\n" * 40
    other = output.rename(tmp_path / "other")
    assert main([*command, "--compare", str(other)]) == 0
    assert re.search(rf"{other}.*\+0\.00", capsys.readouterr().out)

"""Stored scores: nothing is lost by crashes or two processes; where they come from; `runs`."""

import json
import multiprocessing
import os
import shutil

import h5py
import numpy as np
import pytest

from tests.conftest import small_config
from tests.serving_stub import Behaviour, serve
from tf_transformer.__main__ import main
from tf_transformer.storage.model_dir import weights_digest
from tf_transformer.storage.score_log import append_score, read_scores
from tf_transformer.text.parallel_text import digest
from tf_transformer.text.text_file import TextFile
from training.commands.runs_cli import _format_table


def test_scores_come_back_in_order(tmp_path):
    assert read_scores(tmp_path) == []
    scores = [{"bleu": 1.5, "file": "zwölf\n"}, {"bleu": 2.5}]
    for score in scores:
        append_score(tmp_path, score)
    assert read_scores(tmp_path) == scores
    with pytest.raises(ValueError, match="JSON"):  # and is not half written
        append_score(tmp_path, {"bleu": float("nan")})
    assert read_scores(tmp_path) == scores


def test_a_perplexity_that_cannot_be_had_is_an_error_if_it_is_asked_for(tmp_path, capsys):
    (tmp_path / "text").write_text("ein Hund\n")
    with serve("rest", Behaviour()) as address:
        command = ["evaluate", "--server", address, "--source", str(tmp_path / "text")]
        command += ["--reference", str(tmp_path / "text"), "--metrics"]
        assert main([*command, "bleu", "perplexity"]) == 2
        expected = "no signature 'score', which --metrics perplexity needs; export it with"
        assert expected in capsys.readouterr().err
        assert main([*command, "bleu"]) == 0


@pytest.mark.parametrize("kept", range(1, 18))
def test_half_a_line_is_replaced_and_no_other_is_lost(tmp_path, kept):
    """Of a process that was killed after any number of bytes."""
    append_score(tmp_path, {"bleu": 1.0})
    path = tmp_path / "scores.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"bleu": 22.125}\n'[:kept])
    survived = [{"bleu": 22.125}] if kept >= 16 else []
    assert read_scores(tmp_path) == [{"bleu": 1.0}, *survived]
    append_score(tmp_path, {"bleu": 3.0})
    assert read_scores(tmp_path) == [{"bleu": 1.0}, *survived, {"bleu": 3.0}]
    assert path.read_bytes().count(b"\n") == 2 + len(survived)


def test_a_full_disk_takes_the_line_back(tmp_path, monkeypatch):
    append_score(tmp_path, {"bleu": 1.0})
    before = (tmp_path / "scores.jsonl").read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: .*scores.jsonl"):
        append_score(tmp_path, {"bleu": 2.0})
    assert (tmp_path / "scores.jsonl").read_bytes() == before


def _append_many(model_dir, number):
    for count in range(50):
        append_score(model_dir, {"process": number, "count": count, "text": "x" * 5000})


@pytest.mark.slow
def test_two_processes_at_once(tmp_path):
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_append_many, args=(tmp_path, n)) for n in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    scores = read_scores(tmp_path)
    for number in range(3):
        counts = [score["count"] for score in scores if score["process"] == number]
        assert counts == list(range(50))


def test_a_damaged_line_is_named(tmp_path):
    (tmp_path / "scores.jsonl").write_bytes(b'{"bleu": 1}\n[2]\n{"bleu": 3}\n')
    with pytest.raises(ValueError, match=r"scores.jsonl:2: damaged; expected a JSON object"):
        read_scores(tmp_path)


def test_digest_of_weights_is_of_numbers_and_not_of_the_file(trained, tmp_path):
    before = weights_digest(trained)
    shutil.copy(trained / "config.json", tmp_path)
    path = shutil.copy(trained / "model.weights.h5", tmp_path / "model.weights.h5")
    arrays = {}
    with h5py.File(path, "r+") as file:
        file.visititems(
            lambda name, item: arrays.update({name: item[()]} if hasattr(item, "shape") else {})
        )
    stored = path.read_bytes()
    with h5py.File(path, "w", libver="latest") as file:
        for name in reversed(sorted(arrays)):
            file.create_dataset(name, data=arrays[name])
    assert path.read_bytes() != stored
    assert weights_digest(tmp_path) == before
    with h5py.File(path, "r+") as file:
        data = file[name]
        data[...] = np.nextafter(data[()], np.float32(9))
    assert weights_digest(tmp_path) != before
    (tmp_path / "none").mkdir()
    shutil.copy(trained / "config.json", tmp_path / "none")
    with pytest.raises(ValueError, match=r"no model.weights.h5 yet"):
        weights_digest(tmp_path / "none")


@pytest.fixture(scope="module")
def judged(trained, corpus, tmp_path_factory):
    """A copy of the trained model that `evaluate` has stored scores in."""
    model_dir = tmp_path_factory.mktemp("judged") / "model"
    shutil.copytree(trained, model_dir, ignore=shutil.ignore_patterns("scores.jsonl"))
    other = tmp_path_factory.mktemp("other") / "other.de"
    shutil.copy(corpus.path("validation.de"), other)
    command = [
        *("evaluate", "--model-dir", str(model_dir), "--beam-size", "2"),
        *("--source", corpus.path("validation.en"), "--reference", corpus.path("validation.de")),
    ]
    assert main([*command, "--compare", str(other), "--json", str(other) + ".json"]) == 0
    scores = read_scores(model_dir)
    assert json.loads(other.with_name("other.de.json").read_text()) == scores[-1]
    return model_dir, scores, other


@pytest.mark.slow
def test_a_score_says_where_it_comes_from(judged, corpus):
    model_dir, (score,), other = judged
    assert score["weights_digest_blake2b"] == weights_digest(model_dir)
    source, reference = (TextFile.parse(corpus.path(f"validation.{side}")) for side in ("en", "de"))
    assert score["source"] == {"file": str(source), "digest_blake2b": digest(source)}
    assert score["reference"]["digest_blake2b"] == digest(reference)
    assert score["systems"][0]["file"] == str(other)
    assert (score["beam_size"], score["length_penalty"], score["dtype"]) == (2, 0.6, "float32")
    assert {"tensorflow", "keras", "sacrebleu", "tf_transformer"} <= set(score["versions"])
    assert score["date"].endswith("+00:00")
    bleu, chrf = score["comparisons"]
    assert bleu["system_score"] == pytest.approx(100)  # it is the reference
    assert bleu["difference"] == pytest.approx(score["bleu"] - 100)
    assert bleu["bootstrap_p"] < 0.01 and "ar:10000" in bleu["randomization_signature"]
    assert chrf["model_score"] == pytest.approx(score["chrf"])


def test_a_comparison_needs_as_many_lines_and_a_source(trained, corpus, capsys):
    command = ["evaluate", "--model-dir", str(trained), "--reference", corpus.path("test.de")]
    assert main([*command, "--compare", corpus.path("test.de")]) == 2
    assert "--compare is for translations; give a --source" in capsys.readouterr().err
    command += ["--source", corpus.path("test.en"), "--compare", corpus.path("validation.de")]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert "validation.de must have one line for each of the 200" in error and "40 lines" in error


@pytest.mark.slow
def test_the_model_card_takes_the_stored_scores(unverified, judged, tmp_path, capsys):
    model_dir, (score,), _ = judged
    command = ["export", "--model-dir", str(model_dir), "--signatures", "tokens"]
    assert main([*command, "--output", str(tmp_path / "a"), "--beam-size", "2"]) == 0
    assert json.loads((tmp_path / "a" / "1" / "model.json").read_text())["scores"] == score
    assert main([*command, "--output", str(tmp_path / "b"), "--beam-size", "1"]) == 0
    assert "scores" not in json.loads((tmp_path / "b" / "1" / "model.json").read_text())
    assert "none of the 1 stored scores belongs to these weights" in capsys.readouterr().err


def test_runs(judged, tmp_path, capsys):
    model_dir, (score,), _ = judged
    shutil.copytree(model_dir, tmp_path / "below" / "good")
    shutil.copytree(model_dir, tmp_path / "below" / "later")
    with h5py.File(tmp_path / "below" / "later" / "model.weights.h5", "r+") as file:
        names = []
        file.visititems(lambda name, item: names.append(name) if hasattr(item, "shape") else None)
        file[names[0]][...] = 0.0
    shutil.copytree(model_dir, tmp_path / "bad")
    weights = tmp_path / "bad" / "model.weights.h5"
    weights.write_bytes(weights.read_bytes()[:5000])
    (tmp_path / "bad" / "training.json").write_text("{}")
    (tmp_path / "bad" / "validation_scores.json").write_text("{}")
    (tmp_path / "prepared").mkdir()
    for name in ("prepared.json", "target.spm"):  # a corpus of `prepare`, which is no model
        (tmp_path / "prepared" / name).write_text("x")
    capsys.readouterr()

    folders = [str(tmp_path), str(tmp_path / "below")]  # each model once all the same
    assert main(["runs", *folders, "--json", str(tmp_path / "runs.json")]) == 0
    bad, good, later = json.loads((tmp_path / "runs.json").read_text())
    assert [run["path"] for run in (bad, good, later)] == [
        str(tmp_path / name) for name in ("bad", "below/good", "below/later")
    ]
    assert "model.weights.h5: damaged" in bad["fault"] and "training.json: damaged" in bad["fault"]
    assert "validation_scores.json: damaged" in bad["fault"]
    assert bad["layers"] == "1+1" and bad["num_weights"] is None
    assert good["fault"] is None and (good["step"], good["steps"]) == (30, 30)
    config = small_config().transformer_config(400, 400)
    assert (good["d_model"], good["d_ff"], good["vocab_size"]) == (32, 64, 400)
    assert good["preset"] == "tiny" and config.d_ff == 64
    assert good["validation"]["step"] == 30 and good["validation"]["perplexity"] > 1
    assert good["scores"] == [score | {"current": True}]
    assert later["scores"] == [score | {"current": False}]
    printed = capsys.readouterr().out
    assert score["bleu_signature"] in printed
    assert f"{tmp_path}/below/later *" in printed
    assert f"damaged: {tmp_path}/bad/model.weights.h5" in printed

    (tmp_path / "empty").mkdir()
    assert main(["runs", str(tmp_path / "empty")]) == 0
    assert capsys.readouterr().out == f"No model directory in {tmp_path}/empty\n"
    report = tmp_path / "report.html"
    assert main(["runs", str(tmp_path / "empty"), "--report", str(report)]) == 2
    assert f"so {report} is not written" in capsys.readouterr().err and not report.exists()
    assert main(["runs", str(tmp_path / "nowhere")]) == 2
    assert "nowhere: no such folder" in capsys.readouterr().err


def test_a_table_of_runs():
    """Text left, numbers right, dashes for missing values, and nothing that a terminal obeys."""
    table = _format_table(
        [
            ["model", "step", "state"],
            ["a b", 12, None],
            ["\x1b[31mlonger", None, "ok"],
            ["", 7, "x"],
        ]
    )
    assert table.splitlines() == [
        "model             step  state",
        "a b                 12  -",
        r"\x1b[31mlonger       -  ok",
        "                     7  x",
    ]


def test_names_of_folders_do_not_control_the_terminal(tmp_path, capsys):
    folder = tmp_path / "a\033[2Jb"
    folder.mkdir()
    assert main(["runs", str(folder)]) == 0
    (folder / "c\033]0;d\007").mkdir()
    (folder / "c\033]0;d\007" / "target.spm").write_text("x")
    assert main(["runs", str(folder)]) == 0
    none, *table, damaged = capsys.readouterr().out.splitlines()
    assert none == f"No model directory in {tmp_path}/a\\x1b[2Jb"
    assert all(line.isprintable() for line in table)
    assert damaged.startswith(f"damaged: {tmp_path}/a\\x1b[2Jb/c\\x1b]0;d\\x07 is not a model")


def test_a_score_without_a_date(trained, tmp_path, capsys):
    model_dir = shutil.copytree(trained, tmp_path / "model")
    (model_dir / "scores.jsonl").write_text('{"date": "", "bleu": 1.5, "bleu_signature": ""}\n')
    assert main(["runs", str(model_dir)]) == 0
    assert " 1.50 " in capsys.readouterr().out

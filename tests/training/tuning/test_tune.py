"""The command `tune` with small models."""

import json
import os
import shutil
import signal
import sys

import pytest

from tests.conftest import SMALL_SETTINGS
from tf_transformer.__main__ import main
from tf_transformer.storage.model_dir import weights_digest
from tf_transformer.text import sentencepiece_model_pb2
from training.checkpointing.checkpoint_files import checkpoint_directory, checkpoint_paths, step_of

pytestmark = pytest.mark.usefixtures("untraced_training")

SPACE = """
settings:
  model.dropout_rate: [0.0, 0.1, 0.3]
  optimization.learning_rate_factor: {from: 0.05, to: 2.0, log: true}
search:
  length_penalty: [0.0, 1.0]
"""
SETTINGS = SMALL_SETTINGS | {
    "optimization.steps": 4,
    "optimization.checkpoint_every": 2,
    "data.batch_tokens": 4096,
    "optimization.warmup_steps": 10,
    "validation.sentences": 10,
}


def options(corpus, space, output, *more):
    settings = [f"{name}={value}" for name, value in SETTINGS.items()]
    command = ["tune", *corpus.options, "--space", str(space), "--output", str(output)]
    return [*command, *more, "--set", *settings]


def target_options(corpus, space, output):
    """Of a grid of language models, the smallest models."""
    command = options(corpus, space, output, "--sampler", "grid", "--steps", "2")
    start = command.index("--source")
    return [
        *command[:start],
        *corpus.target_options,
        *command[start + len(corpus.options) :],
        "model.decoder_only=true",
    ]


@pytest.fixture
def space(tmp_path):
    path = tmp_path / "space.yaml"
    path.write_text(SPACE)
    return path


def rows_of(output, name):
    return json.loads((output / f"{name}.json").read_text())


MORE = ["--trials", "2", "--sampler", "random", "--pruner", "none", "--deterministic"]


@pytest.mark.slow
def test_tune(corpus, space, tmp_path, monkeypatch, capsys):
    """The search options are tried with the best model."""
    pytest.importorskip("optuna")
    output = tmp_path / "tuned"
    assert main(options(corpus, space, output, *MORE)) == 0
    printed = capsys.readouterr().out
    _check_results(output, printed, tmp_path)
    capsys.readouterr()
    # The finished tuning is printed again, without another training.
    monkeypatch.setattr("training.tuning.training_trials.train_run", None)
    assert main(options(corpus, space, output, *MORE)) == 0
    assert capsys.readouterr().out == printed
    assert main(options(corpus, space, output, *MORE, "--seed", "2")) == 2
    assert "was begun " in capsys.readouterr().err


@pytest.mark.exhaustive
@pytest.mark.slow
def test_interrupted_in_the_second_training(corpus, space, tmp_path, monkeypatch, capsys):
    """It resumes there, with the results of a whole one."""
    pytest.importorskip("optuna")
    from training.tuning.training_trials import PruneTrial

    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert main(options(corpus, space, whole, *MORE)) == 0
    original = PruneTrial.on_scores

    def stop_in_the_second(self, scores):
        if self._trial.number == 1 and scores[-1]["step"] == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return original(self, scores)

    with monkeypatch.context() as patch:
        patch.setattr(PruneTrial, "on_scores", stop_in_the_second)
        assert main(options(corpus, space, parts, *MORE)) == 128 + signal.SIGTERM
    assert "Stopped and saved. To resume, run again:" in capsys.readouterr().out
    assert len(rows_of(parts, "settings")) == 1
    done = [step_of(path) for path in checkpoint_paths(checkpoint_directory(parts / "trials/0001"))]
    assert max(done) < 4
    assert main(options(corpus, space, parts, *MORE)) == 0
    for name in ("settings", "search-0000", "search-0001"):
        if (whole / f"{name}.json").exists():
            assert rows_of(parts, name) == rows_of(whole, name)


def _check_results(output, printed, tmp_path):
    rows = rows_of(output, "settings")
    assert [row["state"] for row in rows] == ["complete"] * 2
    losses = [row["loss"] for row in rows]
    assert losses == sorted(losses) and len(set(losses)) == 2
    assert (output / "settings.csv").read_text().count("\n") == 3
    best = rows[0]
    values = " ".join(f"{name}={value}" for name, value in best["params"].items())
    assert f"(loss {best['loss']:.4g}): --set {values}" in printed
    # The model directory has the weights of the best checkpoint.
    scores = json.loads((output / "trials/0000/validation_scores.json").read_text())["scores"]
    first = next(row for row in rows if row["trial"] == 0)
    assert first["loss"] == min(score["loss"] for score in scores)
    copy = tmp_path / "copy"
    shutil.copytree(output / best["model_dir"], copy)
    assert main(["average", "--model-dir", str(copy), "--best", "1"]) == 0
    assert weights_digest(copy) == weights_digest(output / "trials" / f"{best['trial']:04}")
    searches = rows_of(output, f"search-{best['trial']:04}")
    assert len(searches) == 2 and searches[0]["bleu"] == max(row["bleu"] for row in searches)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_search_options_of_a_model(corpus, talkative, tmp_path, capsys):
    """The scores of each combination are those of `evaluate`."""
    pytest.importorskip("optuna")
    (tmp_path / "space.yaml").write_text("search: {beam_size: [1, 3], length_penalty: [0.2, 2.0]}")
    model, output = tmp_path / "model", tmp_path / "tuned"
    shutil.copytree(talkative, model)
    texts = corpus.options[4:]
    command = ["tune", "--model-dir", str(model), *texts, "--output", str(output)]
    assert main([*command, "--space", str(tmp_path / "space.yaml")]) == 0
    rows = rows_of(output, "search")
    assert len(rows) == 4
    for row in rows:
        command = ["evaluate", "--model-dir", str(model), "--source", texts[1]]
        command += ["--reference", texts[3], "--json", str(tmp_path / "scores.json")]
        for name, value in row["params"].items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        assert main(command) == 0
        scores = json.loads((tmp_path / "scores.json").read_text())
        assert [row["bleu"], row["chrf"]] == [scores["bleu"], scores["chrf"]]
    best = rows[0]["params"]
    expected = f"best: --beam-size {best['beam_size']} --length-penalty {best['length_penalty']}"
    assert expected in capsys.readouterr().out


@pytest.mark.slow
def test_impossible_settings_fail_alone(corpus, tmp_path, capsys):
    """They contradict each other, or do not fit the corpus."""
    pytest.importorskip("optuna")
    space = tmp_path / "space.yaml"
    space.write_text("settings: {model.num_heads: [3, 2], vocabulary.size: [100000, 400]}")
    command = target_options(corpus, space, tmp_path / "out")
    assert main(command) == 0
    complete, *failed = rows_of(tmp_path / "out", "settings")
    assert complete["params"] == {"model.num_heads": 2, "vocabulary.size": 400}
    assert complete["state"] == "complete"
    assert [row["state"] for row in failed] == ["failed"] * 3
    reasons = [row["failure"] for row in failed]
    assert "must divide `d_model`" in reasons[0] and "must divide `d_model`" in reasons[1]
    assert "100000" in reasons[2]
    space.write_text("settings: {model.num_heads: [3]}")
    command = target_options(corpus, space, tmp_path / "none")
    assert main(command) == 2
    assert "no trial has completed" in capsys.readouterr().err


@pytest.mark.slow
def test_a_vocabulary_that_changes_is_another_tuning(corpus, talkative, tmp_path, capsys):
    """Whatever its path: losses of different vocabularies cannot be compared."""
    pytest.importorskip("optuna")
    for name in ("source.spm", "target.spm"):
        shutil.copyfile(talkative / name, tmp_path / name)
    space = tmp_path / "space.yaml"
    space.write_text("settings: {model.num_heads: [3]}")  # fails before anything is trained
    more = ("--sampler", "random", "--trials", "1", "--vocabulary", str(tmp_path))
    changes = [name for name in SETTINGS if not name.startswith("vocabulary.")]
    command = ["tune", *corpus.options, "--space", str(space), "--output", str(tmp_path / "out")]
    command += [*more, "--set", *(f"{name}={SETTINGS[name]}" for name in changes)]
    for _ in range(2):
        assert main(command) == 2
        assert "no trial has completed" in capsys.readouterr().err
    model = sentencepiece_model_pb2.ModelProto.FromString((tmp_path / "target.spm").read_bytes())
    model.pieces[-1].piece += "x"
    for name in ("source.spm", "target.spm"):
        (tmp_path / name).write_bytes(model.SerializeToString())
    assert main(command) == 2
    assert "out was begun with different vocabulary; give the same" in capsys.readouterr().err


def test_without_optuna(corpus, space, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert main(options(corpus, space, tmp_path / "out", "--trials", "1")) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "Optuna is not installed" in line
    assert line.endswith("pip install 'tf-transformer[tune]'")
    assert not (tmp_path / "out").exists()

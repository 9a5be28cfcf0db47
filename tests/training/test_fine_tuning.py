"""Training that starts from another model."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import small_config
from tf_transformer.__main__ import main
from tf_transformer.storage.model_dir import load_model, read_config, weights_digest
from tf_transformer.text.text_file import TextFile
from training.checkpointing.checkpoint_files import checkpoint_paths
from training.data.pipeline import ParallelText
from training.demo.corpus import write_demonstration
from training.fine_tuning import INITIAL_NAME, config_like, describe_coverage
from training.run import Start
from training.settings import config_to_dict
from training.trainer import train

pytestmark = pytest.mark.usefixtures("models_built_once", "untraced_training")


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """Another corpus: its options of `train`."""
    directory = tmp_path_factory.mktemp("other")
    write_demonstration(directory, num_train=200, num_validation=20, num_test=20, seed=9)
    options = ["train"]
    for option, name in (("", "train"), ("validation-", "validation")):
        for side, language in (("source", "en"), ("target", "de")):
            options += [f"--{option}{side}", str(directory / f"{name}.{language}")]
    settings = ["data.batch_tokens=512", "optimization.checkpoint_every=2", "optimization.steps=4"]
    settings += ["validation.translate_every=0"]
    return [*options, "--set", *settings]


@pytest.fixture(scope="module")
def base(trained, tmp_path_factory):
    """A copy of the trained model that tests may change."""
    directory = tmp_path_factory.mktemp("base") / "model"
    shutil.copytree(trained, directory)
    return directory


@pytest.mark.slow
def test_training_starts_from_the_weights(other, base, tmp_path, capsys):
    model_dir = tmp_path / "tuned"
    command = [*other, "--model-dir", str(model_dir), "--init-from", str(base)]
    rates = "optimization.learning_rate_factor=1e-12"
    assert main([*command, "--set", rates, "model.dropout_rate=0.0"]) == 0
    for name in ("source.spm", "target.spm"):
        assert (model_dir / name).read_bytes() == (base / name).read_bytes()
    ours, theirs = read_config(model_dir), read_config(base)
    assert ours.dropout_rate == 0.0
    assert ours.d_model == theirs.d_model and ours.target_vocab_size == theirs.target_vocab_size
    # With next to no learning rate, the weights are still those of the first model.
    readers = [
        tf.train.load_checkpoint(checkpoint_paths(d / "checkpoints")[-1]) for d in (model_dir, base)
    ]
    for number in range(10):
        name = f"weights/{number}/.ATTRIBUTES/VARIABLE_VALUE"
        np.testing.assert_allclose(*(reader.get_tensor(name) for reader in readers), atol=1e-6)
    # The same command resumes even without the initial model; another initial model is refused.
    run = json.loads((model_dir / "training.json").read_text())
    assert run["init_from"] == str(base.resolve())
    moved = base.rename(base.with_name("moved"))
    assert main([*command, "--set", rates, "model.dropout_rate=0.0", "optimization.steps=6"]) == 0
    moved.rename(base)
    capsys.readouterr()
    assert main([*other, "--model-dir", str(model_dir), "--init-from", str(model_dir),
                 "--set", rates, "model.dropout_rate=0.0"]) == 2  # fmt: skip
    assert "is the --model-dir" in capsys.readouterr().err


@pytest.mark.exhaustive
@pytest.mark.slow
def test_the_average_starts_from_the_weights(base, corpus, tmp_path):
    """With next to no learning rate every validation is that of the first model."""
    settings = {"steps": 4, "checkpoint_every": 2, "learning_rate_factor": 1e-12}
    losses = []
    for number, average in enumerate(({}, {"average_decay": 0.999})):
        model_dir = tmp_path / str(number)
        given = {"optimization": settings | average, "validation": {"translate_every": 0}}
        config = config_like(base, given)
        train(config, model_dir=model_dir, start=Start(base), **corpus.arguments)
        scores = json.loads((model_dir / "validation_scores.json").read_text())["scores"]
        losses.append([score["loss"] for score in scores])
        assert not (model_dir / INITIAL_NAME).exists()
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_on_two_devices(other, base, tmp_path):
    """A process of its own: nothing may use TensorFlow's devices before they are chosen."""
    command = [*other, "--model-dir", str(tmp_path / "tuned"), "--init-from", str(base)]
    finished = subprocess.run(
        [sys.executable, "-m", "tf_transformer", *command, "--devices", "2"],
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr[-2000:]
    assert "Trained for 4 steps" in finished.stdout


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_stop_before_the_first_checkpoint(other, base, corpus, tmp_path, monkeypatch):
    """The start is kept, whatever becomes of the first model."""
    first, model_dir = tmp_path / "first", tmp_path / "tuned"
    shutil.copytree(base, first)
    config = config_like(first, {"optimization": {"steps": 2, "checkpoint_every": 2}})
    started = weights_digest(first)

    def stop(*_):
        raise KeyboardInterrupt

    arguments = {"model_dir": model_dir, "start": Start(first), **corpus.arguments}
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("training.trainer.TrainingLoop.run", stop)
        train(config, **arguments)
    assert weights_digest(model_dir / INITIAL_NAME, read_config(first)) == started
    shutil.rmtree(first)
    assert train(config, **arguments).step == 2
    assert weights_digest(model_dir) != started


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_signal_before_the_first_step(other, base, tmp_path, monkeypatch, capsys):
    first, model_dir = tmp_path / "first", tmp_path / "tuned"
    shutil.copytree(base, first)
    command = [*other, "--model-dir", str(model_dir), "--init-from", str(first)]
    with monkeypatch.context() as patch:
        patch.setattr(
            "training.callbacks.validation.Validation.begin",
            lambda *_: os.kill(os.getpid(), signal.SIGTERM),
        )
        assert main(command) == 128 + signal.SIGTERM
    assert "Stopped at step 0." in capsys.readouterr().out
    shutil.rmtree(first)
    assert main(command) == 0
    assert not (model_dir / INITIAL_NAME).exists()


@pytest.mark.exhaustive
@pytest.mark.slow
def test_takes_the_place_of_a_run_that_never_trained(other, base, tmp_path, monkeypatch):
    command = [*other, "--model-dir", str(tmp_path / "tuned")]

    def stop(*_):
        raise KeyboardInterrupt

    settings = ["model.d_model=16", "model.num_heads=2", "vocabulary.size=400"]
    with monkeypatch.context() as patch:
        patch.setattr("training.trainer.TrainingLoop.run", stop)
        assert main([*command, "--set", *settings]) == 130
    assert main([*command, "--init-from", str(base)]) == 0
    assert read_config(tmp_path / "tuned").d_model == read_config(base).d_model


def test_what_does_not_fit_is_refused_in_one_line(other, base, tmp_path, capsys):
    command = [*other, "--model-dir", str(tmp_path / "m"), "--init-from", str(base)]
    for options, message in (
        (["--vocab-size", "500"], "has a vocabulary with size=400, which cannot change; leave"),
        (["--set", "vocabulary.kind=unigram"], "leave out vocabulary.kind='unigram'"),
        (["--set", "vocabulary.target_vectors=x"], "leave out vocabulary.target_vectors"),
        (["--set", "vocabulary.knd=bpe"], "unknown setting 'vocabulary.knd'; did you mean"),
        (["--set", "model.dropuot_rate=0.2"], "'dropuot_rate'; did you mean 'dropout_rate'?"),
        (["--set", "model.encoder={dropout_rate: 0.2}"], "dropout_rate"),
        (
            ["--set", "model.encoder={d_ff: 8}"],
            "cannot change; leave out model.encoder={'d_ff': 8}",
        ),
        (["--set", "model.target_vocab_size=7"], "is derived from the vocabulary"),
        (["--preset", "base"], "cannot change; leave out the preset's"),
        (["--set", "model.d_ff=128"], "has d_ff=64, which cannot change; leave out model.d_ff=128"),
    ):
        assert main([*command, *options]) == 2
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1
    assert not (tmp_path / "m").exists()
    command[-1] = str(tmp_path)
    assert main(command) == 2
    assert "is not a model directory" in capsys.readouterr().err


def test_settings_that_repeat_the_model(base):
    small = small_config()
    config = config_like(base, {"vocabulary": {"size": 400}, "model": {"d_ff": 64}})
    assert config.transformer_config(400, 400) == read_config(base)
    assert config.vocabulary.size == small.vocabulary.size and config.vocabulary.joint
    # All that the first run was given: a preset with other sizes, and what replaces them.
    given = config_to_dict(small)
    config = config_like(base, given)
    assert dataclasses.replace(config, model=small.model) == small
    assert config.transformer_config(400, 400) == read_config(base)
    rate = {"model": given["model"] | {"dropout_rate": 0.7, "encoder": {"d_ff": None}}}
    assert config_like(base, given | rate).transformer_config(400, 400).dropout_rate == 0.7


def test_dropout_rates_that_follow_the_main_one_follow_a_new_one(base, tmp_path):
    model_dir = shutil.copytree(base, tmp_path / "model")
    description = json.loads((model_dir / "config.json").read_text())
    rates = {"dropout_rate": 0.1, "attention_dropout_rate": None, "feed_forward_dropout_rate": 0.2}
    description["model"] |= rates
    (model_dir / "config.json").write_text(json.dumps(description))
    changed = config_like(model_dir, {"model": {"dropout_rate": 0.7}}).transformer_config(400, 400)
    assert changed.dropout_rate == changed.dropout_rate_of("attention") == 0.7
    assert changed.dropout_rate_of("feed_forward") == 0.2


def test_what_the_first_model_says_of_itself_stays(base, tmp_path):
    """Where nothing is given; a model from elsewhere says less."""
    path = tmp_path / "first"
    shutil.copytree(base, path)
    run = json.loads((path / "training.json").read_text())
    vocabulary = {"kind": "unigram", "normalization": "identity", "target_vectors": "gone"}
    run["settings"]["vocabulary"] |= vocabulary
    run["settings"]["preset"] = "annotated"
    (path / "training.json").write_text(json.dumps(run))
    config = config_like(path, {})
    assert config.preset == "annotated" and config.transformer_config(400, 400) == read_config(base)
    assert vocabulary.items() <= dataclasses.asdict(config.vocabulary).items()
    (path / "training.json").unlink()
    config = config_like(path, {})
    assert config.transformer_config(400, 400) == read_config(base)
    assert (config.vocabulary.size, config.vocabulary.joint) == (400, True)
    (path / "training.json").write_text("{}")
    with pytest.raises(ValueError, match=r"training.json: damaged"):
        config_like(path, {})


@pytest.mark.exhaustive
@pytest.mark.slow
def test_embeddings_that_started_from_vectors(other, base, tmp_path, capsys):
    """They are the first model's, trained or not; the file may be gone."""
    first = tmp_path / "first"
    shutil.copytree(base, first)
    run = json.loads((first / "training.json").read_text())
    run["settings"]["vocabulary"]["target_vectors"] = str(tmp_path / "gone")
    run["settings"]["model"]["trainable_embeddings"] = False
    (first / "training.json").write_text(json.dumps(run))
    description = json.loads((first / "config.json").read_text())
    description["model"]["trainable_embeddings"] = False
    (first / "config.json").write_text(json.dumps(description))
    assert main([*other, "--model-dir", str(tmp_path / "m"), "--init-from", str(first)]) == 0
    ours, theirs = (load_model(path)[0].weights for path in (tmp_path / "m", first))
    same = [np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True)]
    names = [weight.path for weight, is_same in zip(ours, same, strict=True) if is_same]
    assert len(names) == 1 and "embedding" in names[0]


def test_share_of_unknown_and_byte_pieces(base, tmp_path):
    from tf_transformer.storage.model_dir import read_tokenizers

    (tmp_path / "source").write_text("我\nten horses\n", encoding="utf-8")
    (tmp_path / "target").write_text("zehn\nPferde\n", encoding="utf-8")
    tokenizers = read_tokenizers(base)
    files = (TextFile(tmp_path / "source"), TextFile(tmp_path / "target"))
    line = describe_coverage(ParallelText(*files, *tokenizers, small_config().data))
    ids = tokenizers[0].tokenize(tf.constant(["我", "ten horses"])).flat_values
    # 我 is three bytes; nothing is unknown to a vocabulary with bytes.
    share = 100 * 3 / len(ids)
    assert line.startswith(f"source 0.00 % unknown and {share:.2f} % bytes of {len(ids)} tokens; ")
    assert "target 0.00 % unknown and 0.00 % bytes" in line

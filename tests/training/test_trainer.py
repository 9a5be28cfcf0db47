"""Training as a whole: learning, going on after a stop, refusing to mix runs up."""

import fcntl
import logging
import os
import pty
import random
import select
import signal
import subprocess
import sys
import termios
import time

import numpy as np
import pytest

from tests.conftest import SMALL_SETTINGS, small_config
from tf_transformer.__main__ import main
from tf_transformer.storage.model_dir import load_model, read_tokenizers
from tf_transformer.storage.trained_models import TrainedModels
from tf_transformer.text.text_file import TextFile
from training.checkpointing.checkpoints import Checkpoints
from training.data.text_pair import TextPair
from training.evaluation.evaluation import evaluate
from training.evaluation.settings import EvaluationTexts, SearchSettings
from training.model import build_model
from training.plots.training_curves import plot_training, read_scalars
from training.trainer import train

pytestmark = pytest.mark.usefixtures("models_built_once")


def weights_of(model_dir):
    return [weight.numpy() for weight in load_model(model_dir)[0].weights]


@pytest.mark.slow
def test_learns_to_copy(tmp_path):
    draw = random.Random(0)
    words = ("red", "green", "blue", "round", "square", "small", "large", "old", "new", "fast")
    for name, count in (("train", 3000), ("test", 100)):
        lines = [" ".join(draw.choices(words, k=draw.randint(2, 5))) for _ in range(count)]
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    train_file, test_file = (
        TextFile.parse(str(tmp_path / "train")),
        TextFile.parse(str(tmp_path / "test")),
    )
    config = small_config(
        model__d_model=64,
        model__norm_position="pre",
        model__dropout_rate=0.0,
        vocabulary__size=340,  # in which each word is a piece
        optimization__learning_rate_factor=1.0,
        optimization__steps=320,
        optimization__checkpoint_every=320,
    )
    train(
        config,
        corpus=TextPair(train_file, train_file),
        validation=TextPair(test_file, test_file),
        model_dir=tmp_path / "model",
    )
    evaluation, translations = evaluate(
        TrainedModels((tmp_path / "model",)),
        EvaluationTexts(source=test_file, references=[test_file]),
        SearchSettings(beam_size=1, length_penalty=0.6),
    )
    scores = {name: score.value for name, score in evaluation.scores.items()}
    assert scores["exact"] >= 0.95
    assert scores["bleu"] >= 95
    assert scores["perplexity"] < 1.5
    assert len(translations) == 100


@pytest.mark.slow
def test_stopped_and_continued_equals_uninterrupted(corpus, trained, tmp_path, caplog):
    """10 steps, then up to 15 (off the checkpoints' rhythm), then up to 30."""
    caplog.set_level(logging.INFO, "training")
    for steps in (10, 15, 30):
        result = train(
            small_config(optimization__steps=steps), model_dir=tmp_path, **corpus.arguments
        )
        assert result.step == steps
    for ours, theirs in zip(weights_of(tmp_path), weights_of(trained), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    resumed = [text for text in caplog.messages if text.startswith("Resuming")]
    assert resumed == ["Resuming from step 10", "Resuming from step 15"]
    again = "building the graph, and passing over the batches of"
    assert [text for text in caplog.messages if "building the graph" in text] == [
        "step 0 of 10: building the graph",
        f"step 10 of 15: {again} 10 steps",
        f"step 15 of 30: {again} 15 steps",
        f"step 20 of 30: {again} 20 steps",
    ]
    # Catching up brings the checkpoints back to their rhythm; step 15 leaves nothing behind.
    names = {path.stem for path in (tmp_path / "checkpoints").glob("*.index")}
    assert names == {"step-10", "step-20", "step-30"}


@pytest.mark.slow
def test_finished_run_trains_no_further(corpus, trained):
    before = weights_of(trained)
    assert train(small_config(), model_dir=trained, **corpus.arguments).step == 30
    for ours, theirs in zip(before, weights_of(trained), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_refuses_other_settings_in_the_same_directory(corpus, trained):
    with pytest.raises(ValueError, match=r"trained with model\.d_ff=64; received 128"):
        train(small_config(model__d_ff=128), model_dir=trained, **corpus.arguments)


def test_refuses_what_is_no_folder(corpus, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("file", "dangling"):
        with pytest.raises(NotADirectoryError, match=rf"{name}: expected a folder$"):
            train(small_config(), model_dir=tmp_path / name, **corpus.arguments)


def test_refuses_another_corpus_in_the_same_directory(corpus, trained):
    arguments = corpus.arguments | {"corpus": corpus.pair("test")}
    with pytest.raises(ValueError, match="trained on another corpus"):
        train(small_config(), model_dir=trained, **arguments)


def test_refuses_a_corpus_of_which_nothing_is_left(corpus, tmp_path):
    with pytest.raises(ValueError, match=r"no pair of the training corpus .* longer than"):
        train(small_config(data__max_length=1), model_dir=tmp_path, **corpus.arguments)


def test_writes_what_tensorboard_reads(trained):
    figure = plot_training(trained / "logs")
    titles = [axes.get_title() for axes in figure.axes]
    assert titles[0].startswith("label-smoothed loss")
    validation = {axes.get_title(): axes.lines[-1] for axes in figure.axes[:3]}
    for line in validation.values():
        assert list(line.get_xdata()) == [10, 20, 30]
    assert np.all(np.isfinite(validation["perplexity"].get_ydata()))


def _validation_losses(model_dir):
    return plot_training(model_dir / "logs").axes[0].lines[-1].get_ydata()


@pytest.mark.slow
def test_the_average_is_validated_and_becomes_the_model(corpus, tmp_path):
    """Of the smallest model, a language model: an average does not depend on its kind."""
    config = small_config(
        model__decoder_only=True,
        optimization__average_decay=0.8,
        optimization__steps=6,
        optimization__checkpoint_every=2,
        optimization__warmup_steps=10,
    )
    train(config, model_dir=tmp_path, **corpus.target_arguments)
    model = build_model(config, None, 400)
    assert Checkpoints(tmp_path, model, keep=3, every=2).restore()
    variables = model.trainable_variables
    trained = [variable.numpy() for variable in variables]
    pair = corpus.target_arguments["validation"]
    validation = pair.tokenized(read_tokenizers(tmp_path), config.data)
    with model.optimizer.averaged_weights(variables):
        averages = [variable.numpy() for variable in variables]
        loss = model.evaluate(validation.batches(), verbose=0, return_dict=True)["loss"]
    assert loss == pytest.approx(_validation_losses(tmp_path)[-1], rel=1e-5)
    assert any(np.abs(a - b).max() > 1e-3 for a, b in zip(averages, trained, strict=True))
    for _ in range(2):
        for ours, theirs in zip(weights_of(tmp_path), averages, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        # What was validated is what the command averages.
        assert main(["average", "--model-dir", str(tmp_path), "--best", "1"]) == 0


@pytest.mark.exhaustive
@pytest.mark.slow
def test_float16_trains_like_float32(corpus, trained, tmp_path):
    config = small_config(optimization__dtype="mixed_float16")
    train(config, model_dir=tmp_path, **corpus.arguments)
    np.testing.assert_allclose(_validation_losses(tmp_path), _validation_losses(trained), rtol=0.01)


def _command(corpus, model_dir, *extra, **changes):
    settings = SMALL_SETTINGS | {key.replace("__", "."): value for key, value in changes.items()}
    return [
        *(sys.executable, "-m", "tf_transformer", "train", *corpus.options),
        *("--model-dir", str(model_dir)),
        *("--set", *(f"{name}={value}" for name, value in settings.items())),
        *extra,
    ]


@pytest.mark.exhaustive
@pytest.mark.slow
def test_ctrl_c_saves_and_the_same_command_goes_on(corpus, tmp_path):
    command = _command(
        corpus, tmp_path, optimization__steps=100_000, optimization__checkpoint_every=50_000
    )
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    log = tmp_path / "logs" / "training"
    deadline = time.monotonic() + 120
    while not read_scalars(log):  # before training has begun, Ctrl-C has nothing to save
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Stopped and saved at step" in output
    assert "tf-transformer train --source" in output
    assert "Traceback" not in errors
    step = int(output.partition("at step ")[2].partition(".")[0])
    assert (tmp_path / "checkpoints" / f"step-{step}.index").exists()
    assert load_model(tmp_path)

    command = _command(
        corpus, tmp_path, "--steps", str(step + 5), optimization__checkpoint_every=50_000
    )
    finished = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert finished.returncode == 0, finished.stderr
    assert f"Trained for {step + 5} steps" in finished.stdout


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_closed_terminal_saves(corpus, tmp_path):
    """As when an ssh session breaks: SIGHUP, and then nothing more can be written."""
    command = _command(
        corpus, tmp_path, optimization__steps=100_000, optimization__checkpoint_every=50_000
    )
    terminal, inside = pty.openpty()

    def attach():
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

    process = subprocess.Popen(
        command, stdin=inside, stdout=inside, stderr=inside,
        start_new_session=True, preexec_fn=attach,
    )  # fmt: skip
    os.close(inside)
    shown = b""
    deadline = time.monotonic() + 120
    while b"building the graph" not in shown or not read_scalars(tmp_path / "logs" / "training"):
        assert process.poll() is None and time.monotonic() < deadline, shown.decode()
        if select.select([terminal], [], [], 0.2)[0]:
            shown += os.read(terminal, 1 << 16)
    os.close(terminal)
    assert b"\rstep 0 of 100,000 |" in shown
    assert process.wait(timeout=60) == 128 + signal.SIGHUP
    assert list((tmp_path / "checkpoints").glob("step-*.index"))
    assert load_model(tmp_path)
    assert (tmp_path / "training.png").exists()


@pytest.mark.exhaustive
@pytest.mark.slow
def test_two_devices_train_like_one(corpus, tmp_path):
    """The whole command, without dropout: equal validation losses, hence equal updates."""
    losses = []
    for devices in ("1", "2"):
        model_dir = tmp_path / devices
        changes = {"model__dropout_rate": 0.0, "optimization__steps": 10}
        subprocess.run(
            _command(corpus, model_dir, "--devices", devices, **changes),
            check=True,
            capture_output=True,
            env=os.environ | {"PYTHONWARNINGS": "ignore"},
        )
        axes = plot_training(model_dir / "logs").axes[0]
        losses.append(axes.lines[-1].get_ydata()[-1])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)

"""`training.train` as a program of one's own calls it: names of files, callbacks.

What is trained is the smallest model, a language model: the calls do not depend on its kind.
"""

import subprocess
import sys

import keras
import numpy as np
import pytest

import training
from tests.conftest import small_config
from tf_transformer import Perplexity, TokenAccuracy, TransformerConfig
from tf_transformer.storage.model_dir import load_model, read_tokenizers
from training.callbacks.callbacks import AGREE_EVERY, StopOnCallback, current_step
from training.callbacks.user_callbacks import ScoreCallback, set_modes
from training.checkpointing.validation_history import read_validation_scores
from training.distributed.workers import Workers
from training.step import TrainableTransformer

pytestmark = pytest.mark.usefixtures("models_built_once")

SETTINGS = {
    "model__decoder_only": True,
    "optimization__steps": 10,
    "optimization__checkpoint_every": 5,
}


@pytest.fixture(scope="module")
def names(corpus):
    return corpus.target_arguments


@pytest.fixture(scope="module")
def whole(names, tmp_path_factory):
    """A model directory after 10 steps without a stop."""
    model_dir = tmp_path_factory.mktemp("whole") / "model"
    training.train(small_config(**SETTINGS), model_dir=str(model_dir), **names)
    return model_dir


def assert_equal_models(*folders):
    ours, theirs = ([weight.numpy() for weight in load_model(d)[0].weights] for d in folders)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


class Recorder(keras.callbacks.Callback):
    """Notes when it is called, with the newest checkpoint at that moment."""

    def __init__(self, model_dir):
        super().__init__()
        self.model_dir = model_dir
        self.calls = []

    def note(self, name, logs):
        files = (self.model_dir / "checkpoints").glob("step-*.index")
        newest = max((int(path.stem.partition("-")[2]) for path in files), default=0)
        self.calls.append((name, current_step(self.model), newest, sorted(logs or {})))

    def on_train_batch_end(self, batch, logs=None):
        self.note("batch", logs)

    def on_epoch_end(self, epoch, logs=None):
        self.note(f"epoch {epoch}", logs)


class Stop(keras.callbacks.Callback):
    """Stops training once, in the hook of that name, at a step."""

    def __init__(self, hook, step):
        super().__init__()

        def stop(*_, **__):
            if current_step(self.model) == step:
                self.model.stop_training = True

        setattr(self, hook, stop)


@pytest.mark.slow
def test_callbacks_are_called_as_fit_calls_them(names, whole, tmp_path):
    """And a stop at the last step is none."""
    recorder = Recorder(tmp_path)
    stopping = keras.callbacks.EarlyStopping("val_perplexity", patience=9)
    callbacks = [recorder, stopping, Stop("on_train_batch_end", 10)]
    result = training.train(
        small_config(**SETTINGS), model_dir=tmp_path, callbacks=callbacks, **names
    )
    assert result == training.TrainingResult(10, None, True)
    assert [call[:3] for call in recorder.calls] == [
        *(("batch", step, 0) for step in range(1, 6)),
        ("epoch 0", 5, 5),
        *(("batch", step, 5) for step in range(6, 11)),
        ("epoch 1", 10, 10),
    ]
    for name, *_, logs in recorder.calls:
        assert "loss" in logs and ("val_loss" in logs) == name.startswith("epoch")
    assert_equal_models(tmp_path, whole)


@pytest.mark.representatives(every=4)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("hook", "step", "judged"),
    [
        ("on_train_batch_end", 3, []),
        ("on_train_batch_end", 5, [5]),
        ("on_epoch_end", 5, [5]),
        ("on_test_end", 5, [5]),
    ],
)
def test_a_callback_that_stops_saves_and_the_same_call_goes_on(
    names, whole, tmp_path, hook, step, judged
):
    config = small_config(**SETTINGS)
    result = training.train(config, model_dir=tmp_path, callbacks=[Stop(hook, step)], **names)
    assert (result.step, result.stopped_by) == (step, None)
    assert result.early_stop == "a callback has stopped it"
    assert (tmp_path / f"checkpoints/step-{step}.index").exists()
    assert [score["step"] for score in read_validation_scores(tmp_path)] == judged
    again = training.train(config, model_dir=tmp_path, callbacks=[Stop(hook, step)], **names)
    assert again == training.TrainingResult(10, None, True)
    assert_equal_models(tmp_path, whole)


class StopByScores(ScoreCallback):
    """Stops training at a step, once, and notes the steps of all scores."""

    def __init__(self, step=None):
        super().__init__()
        self.step, self.calls = step, []

    def on_scores(self, scores):
        self.calls.append([score["step"] for score in scores])
        assert all(score["bleu"] >= 0 and score["loss"] > 0 for score in scores)
        return "bad scores" if scores[-1]["step"] == self.step else None


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_callback_that_stops_by_all_scores(corpus, tmp_path):
    """It sees BLEU of the newest checkpoint, too, and the former scores when a run resumes."""
    changes = dict(validation__translate_every=1, validation__sentences=3)
    config = small_config(**SETTINGS | changes | {"model__decoder_only": False})
    arguments = dict(config=config, model_dir=tmp_path, **corpus.arguments)
    stop = StopByScores(5)
    result = training.train(**arguments, callbacks=[stop])
    assert (result.step, result.early_stop) == (5, "bad scores")
    assert stop.calls == [[5]]
    # Decided as before, without another step.
    assert training.train(**arguments, callbacks=[StopByScores(5)]).step == 5
    watch = StopByScores()
    result = training.train(**arguments, callbacks=[watch])
    assert (result.step, result.early_stop) == (10, None)
    assert watch.calls == [[5], [5, 10]]


class TwoWorkers(Workers):
    """This one, and another whose callbacks ask for nothing."""

    def __init__(self):
        self.num_workers = 2

    def any(self, value):
        return value


def test_workers_stop_only_when_all_have_agreed():
    stop = StopOnCallback(TwoWorkers())
    stop.set_model(keras.Model())
    stop.step = 3
    stop.model.stop_training = True
    seen = []
    for _ in range(AGREE_EVERY):
        stop.on_train_batch_end(0)
        seen.append((stop.step, stop.model.stop_training))
    assert [step for step, stops in seen if stops] == [AGREE_EVERY]


@pytest.mark.slow
def test_columns_of_a_table(corpus, trained, tmp_path):
    """The source is the first one, the target the second; the batches are those of two files."""
    for name in ("train", "validation"):
        pair = corpus.pair(name)
        sides = (side.lines() for side in (pair.source, pair.target))
        rows = (f"{source}\t{target}\n" for source, target in zip(*sides, strict=True))
        (tmp_path / f"{name}.tsv").write_text("".join(rows))
    tokenizers, data = read_tokenizers(trained), small_config().data
    for name in ("train", "validation"):
        table = tmp_path / f"{name}.tsv"
        found, expected = (
            [
                [inputs["source"].tolist(), inputs["target"].tolist(), labels.tolist()]
                for inputs, labels in pair.tokenized(tokenizers, data).batches().as_numpy_iterator()
            ]
            for pair in (training.TextPair(table, table), corpus.pair(name))
        )
        assert found == expected != []


def test_what_cannot_be_is_refused_before_anything_is_written(names, tmp_path):
    model_dir = tmp_path / "model"
    with pytest.raises(ValueError, match=r"`callbacks` must be .* Received: 'x'$"):
        training.train(small_config(**SETTINGS), model_dir=model_dir, callbacks=["x"], **names)
    config = training.TrainingConfig(optimization=training.OptimizationConfig(steps="many"))
    with pytest.raises(ValueError, match=r"^setting 'optimization.steps': .* Received: 'many'$"):
        training.train(config, model_dir=model_dir, **names)
    with pytest.raises(ValueError, match=r"nowhere: no such file$"):
        training.TextPair("nowhere", "nowhere")
    with pytest.raises(ValueError, match=r"^expected a file of the target. Received: None"):
        training.TextPair(None, None)
    with pytest.raises(ValueError, match=r"^--profile 3:99: expected FIRST:LAST"):
        training.train(small_config(**SETTINGS), model_dir=model_dir, profile=(3, 99), **names)
    assert not model_dir.exists()


@pytest.mark.parametrize(
    ("callbacks", "message"),
    [
        (None, "`callbacks` must be a list of .* Received: NoneType$"),
        (7, "`callbacks` must be a list of .* Received: int$"),
        ("abc", "`callbacks` must be a list of .* Received: str$"),
        (keras.callbacks.TerminateOnNaN(), "`callbacks` must be a list of .*: TerminateOnNaN$"),
        ([keras.callbacks.TerminateOnNaN], "`callbacks` must be objects of .* Received: <class "),
        (
            [keras.callbacks.BackupAndRestore("x")],
            "resumes from its newest checkpoint.*AndRestore$",
        ),
        (
            [keras.callbacks.LearningRateScheduler(lambda epoch: 1.0)],
            "optimization.learning_rate_factor.* Received: LearningRateScheduler$",
        ),
        ([keras.callbacks.ReduceLROnPlateau()], "`validation.patience`.*: ReduceLROnPlateau$"),
        ([keras.callbacks.SwapEMAWeights()], "set `optimization.average_decay`.*: SwapEMAWeights$"),
        (
            [keras.callbacks.EarlyStopping(restore_best_weights=True)],
            "average --best`. Received: EarlyStopping with restore_best_weights=True$",
        ),
    ],
)
def test_callbacks_that_cannot_be(names, tmp_path, callbacks, message):
    with pytest.raises(ValueError, match=message):
        training.train(
            small_config(**SETTINGS), model_dir=tmp_path / "m", callbacks=callbacks, **names
        )
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("monitor", "mode"),
    [
        ("val_perplexity", "min"),
        ("accuracy", "max"),
        ("val_accuracy", "max"),
        ("alignment_loss", "min"),
        ("entries", "auto"),  # Keras asks for a mode
        ("val_bleu", "auto"),
    ],
)
def test_callbacks_know_what_is_better(monitor, mode):
    """Of the metrics that the training step updates, which Keras does not look at."""
    config = TransformerConfig(
        source_vocab_size=9, target_vocab_size=9, d_model=8, d_ff=8, num_heads=2,
        num_encoder_layers=1, num_decoder_layers=1, alignment_head=0,
    )  # fmt: skip
    model = TrainableTransformer(config)
    model.compile(metrics=[Perplexity(), TokenAccuracy()])
    chosen = keras.callbacks.EarlyStopping(monitor, mode="max")
    callbacks = [keras.callbacks.EarlyStopping(monitor), chosen, keras.callbacks.CSVLogger("x")]
    set_modes(callbacks, model.metrics)
    assert (callbacks[0].mode, chosen.mode) == (mode, "max")


LOAD = """\
import sys, keras, tf_transformer
assert "training" not in sys.modules
model = keras.models.load_model(sys.argv[1])
model.save_weights(sys.argv[2])
print(type(model).__name__)
"""


@pytest.mark.exhaustive
@pytest.mark.slow
def test_models_of_keras_own_checkpoints_can_be_loaded(names, whole, tmp_path):
    callbacks = [
        keras.callbacks.ModelCheckpoint(tmp_path / "{epoch}.keras"),
        keras.callbacks.ModelCheckpoint(tmp_path / "best.keras", "val_loss", save_best_only=True),
        keras.callbacks.ModelCheckpoint(tmp_path / "last.weights.h5", save_weights_only=True),
        keras.callbacks.EarlyStopping("val_perplexity", patience=9),
        keras.callbacks.EarlyStopping("val_accuracy", patience=9),
        keras.callbacks.CSVLogger(tmp_path / "log.csv"),
    ]
    training.train(
        small_config(**SETTINGS), model_dir=tmp_path / "model", callbacks=callbacks, **names
    )
    assert_equal_models(tmp_path / "model", whole)
    expected, *_ = load_model(tmp_path / "model")
    done = subprocess.run(
        [sys.executable, "-c", LOAD, tmp_path / "2.keras", tmp_path / "copy.weights.h5"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "LanguageModel\n"), done.stderr
    for name in ("copy.weights.h5", "last.weights.h5"):
        model = type(expected)(expected.config)
        model.load_weights(tmp_path / name)
        for a, b in zip(model.weights, expected.weights, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert len((tmp_path / "log.csv").read_text().splitlines()) == 3
    best = keras.models.load_model(tmp_path / "best.keras")
    assert best.config == expected.config

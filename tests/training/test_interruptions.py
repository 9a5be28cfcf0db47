"""What comes between: kills at bad moments, signals outside the steps, lost files.

What is trained is the smallest model, a language model: none of this depends on its kind.
"""

import concurrent.futures
import contextlib
import os
import shutil
import signal

import pytest
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

from tests.conftest import Corpus, small_config
from tf_transformer.inference.translator import Translator
from tf_transformer.storage.model_dir import weights_digest
from tf_transformer.text.text_file import TextFile
from training.callbacks.callbacks import StopAtStep, StopOnSignal, ValidateAverage
from training.callbacks.profiling import Profile
from training.checkpointing.checkpoints import Checkpoints
from training.checkpointing.validation_history import read_validation_scores
from training.data.change_detection import ChangeDetector
from training.distributed.workers import Workers
from training.trainer import train

pytestmark = pytest.mark.usefixtures("models_built_once")

SETTINGS = {
    "model__decoder_only": True,
    "optimization__steps": 10,
    "optimization__checkpoint_every": 5,
    "validation__report_every": 2,
}


class Killed(BaseException):
    """In place of SIGKILL: nothing in training catches it."""


def go_on(corpus, model_dir, **changes):
    config = small_config(**SETTINGS | changes)
    return train(config, model_dir=model_dir, **corpus.target_arguments)


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory):
    """A model directory after 10 steps, trained in another thread.

    Python takes signals in the main thread alone.
    """
    model_dir = tmp_path_factory.mktemp("whole") / "model"
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        result = threads.submit(go_on, corpus, model_dir).result()
    assert (result.step, result.stopped_by) == (10, None)
    return model_dir


def kill_at(monkeypatch, name, step, after=False):
    """Training that is killed before, or after, a method or function is called at a step."""
    import pkgutil

    owner_name, _, last = name.rpartition(".")
    owner = pkgutil.resolve_name(owner_name)
    original = getattr(owner, last)
    calls = []

    def wrapper(*arguments):
        calls.append(1)
        if len(calls) == step // 5 and not after:
            raise Killed
        result = original(*arguments)
        if len(calls) == step // 5:
            raise Killed
        return result

    monkeypatch.setattr(owner, last, wrapper)


def steps_shown(model_dir, run, tag):
    """As TensorBoard itself reads them."""
    accumulator = EventAccumulator(
        str(model_dir / "logs" / run), tensor_size_guidance={"scalars": 0}
    )
    accumulator.Reload()
    return [event.step for event in accumulator.Tensors(tag)]


@pytest.mark.representatives("training.callbacks.callbacks.write_trained_weights-False")
@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        "training.callbacks.callbacks.write_trained_weights",
        "training.checkpointing.checkpoints.Checkpoints.save",
    ],
)
def test_the_last_weights_are_written_whatever_comes_between(
    corpus, whole, tmp_path, monkeypatch, name, after
):
    """Weights and checkpoint are two files; the last checkpoint is never without its weights."""
    model_dir = tmp_path / "model"
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_at(patch, name, 10, after)
        go_on(corpus, model_dir)
    assert go_on(corpus, model_dir).step == 10
    expected, found = ((d / "model.weights.h5").read_bytes() for d in (whole, model_dir))
    assert expected == found


@pytest.mark.exhaustive
@pytest.mark.slow
def test_every_step_is_shown_once(corpus, whole, tmp_path, monkeypatch):
    """Killed before the validation of step 10, after reports that come again."""
    model_dir = tmp_path / "model"
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_at(patch, "training.callbacks.callbacks.SaveCheckpoints._save", 10)
        go_on(corpus, model_dir)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_at(patch, "training.callbacks.validation.Validation._record", 5)
        go_on(corpus, model_dir)
    go_on(corpus, model_dir)
    for tag in ("loss", "speed/padding"):
        assert steps_shown(model_dir, "training", tag) == steps_shown(whole, "training", tag)
    for tag in ("loss", "perplexity", "accuracy", "loss/without_smoothing"):
        assert steps_shown(model_dir, "validation", tag) == [5, 10]


@pytest.mark.slow
def test_a_kill_during_validation_loses_no_step(corpus, tmp_path, monkeypatch):
    model_dir = tmp_path / "model"
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_at(patch, "training.callbacks.callbacks.ValidateAverage.on_test_begin", 5)
        go_on(corpus, model_dir)
    assert (model_dir / "checkpoints/step-5.index").exists()


def broken_off(corpus, model_dir, **changes):
    """Goes on after a signal during the validation of step 5; returns all scores."""
    assert read_validation_scores(model_dir) == []
    assert go_on(corpus, model_dir, **changes).stopped_by is None
    scores = read_validation_scores(model_dir)
    assert [score["step"] for score in scores] == [5, 10]
    assert steps_shown(model_dir, "validation", "loss") == [5, 10]
    return scores


@pytest.mark.slow
def test_a_signal_breaks_validation_off(corpus, whole, tmp_path, monkeypatch):
    """While the loss is computed; the next call makes up for it."""
    model_dir = tmp_path / "model"
    original = ValidateAverage.on_test_begin

    def tell_before(*arguments):
        os.kill(os.getpid(), signal.SIGTERM)
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(ValidateAverage, "on_test_begin", tell_before)
        result = go_on(corpus, model_dir)
    assert (result.step, result.stopped_by) == (5, signal.SIGTERM)
    scores = broken_off(corpus, model_dir)
    for ours, theirs in zip(scores, read_validation_scores(whole), strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-5)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_signal_breaks_translations_off(corpus, tmp_path, monkeypatch):
    """While sentences are translated, by a model that can."""
    changes = {"validation__translate_every": 1, "validation__sentences": 2}
    changes |= {"model__decoder_only": False}
    monkeypatch.setattr(Corpus, "target_arguments", Corpus.arguments)
    go_on(corpus, tmp_path / "whole", **changes)
    original, model_dir = Translator.translate_lines, tmp_path / "model"

    def tell(lines):
        for line in lines:
            os.kill(os.getpid(), signal.SIGTERM)
            yield line

    with monkeypatch.context() as patch:
        patch.setattr(Translator, "translate_lines", lambda *x, **y: tell(original(*x, **y)))
        result = go_on(corpus, model_dir, **changes)
    assert (result.step, result.stopped_by) == (5, signal.SIGTERM)
    scores = broken_off(corpus, model_dir, **changes)
    assert steps_shown(model_dir, "validation", "quality/BLEU") == [5, 10]
    expected = read_validation_scores(tmp_path / "whole")
    for ours, theirs in zip(scores, expected, strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-5)
        assert ours["bleu"] == theirs["bleu"]


@pytest.mark.slow
def test_lost_checkpoints_are_not_begun_over(corpus, whole, tmp_path):
    model_dir = tmp_path / "model"
    shutil.copytree(whole, model_dir)
    shutil.rmtree(model_dir / "checkpoints")
    weights = (model_dir / "model.weights.h5").read_bytes()
    with pytest.raises(
        ValueError, match=r"the checkpoints are missing although training reached step 10"
    ):
        go_on(corpus, model_dir)
    assert (model_dir / "model.weights.h5").read_bytes() == weights


@pytest.mark.slow
def test_a_signal_before_the_first_step(corpus, tmp_path, monkeypatch):
    """It is kept until training can stop in order, and training does not begin."""

    def begin(*_):
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("training.callbacks.validation.Validation.begin", begin)
    result = go_on(corpus, tmp_path / "model")
    assert (result.step, result.stopped_by) == (0, signal.SIGTERM)


class TwoWorkers(Workers):
    """This one, and another that got no signal."""

    def __init__(self):
        self.num_workers = 2
        self.asked = 0

    def any(self, value):
        self.asked += 1
        return value


def test_workers_stop_only_when_all_have_agreed():
    workers = TwoWorkers()
    former = signal.getsignal(signal.SIGTERM)
    with StopOnSignal(workers) as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        stop.step = 10
        stop.on_train_batch_end(0)  # between two agreements
        assert workers.asked == 0 and stop.stopped_by is None
        assert stop.any_worker_requests_stop() and stop.stopped_by == signal.SIGTERM
    assert workers.asked == 1
    assert signal.getsignal(signal.SIGTERM) == former


@pytest.fixture
def hangup():
    """A function that sets what SIGHUP does, and gives back what it did."""
    former = signal.getsignal(signal.SIGHUP)
    yield lambda handler: signal.signal(signal.SIGHUP, handler)
    signal.signal(signal.SIGHUP, former)


@pytest.mark.slow
def test_a_closed_terminal_stops_training_in_order(corpus, tmp_path, monkeypatch, hangup):
    """It sends SIGHUP more than once."""
    hangup(signal.SIG_DFL)
    original = StopAtStep.on_train_batch_end

    def close(self, batch, logs=None):
        original(self, batch, logs)
        if self.step == 7:
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGHUP)

    monkeypatch.setattr(StopAtStep, "on_train_batch_end", close)
    result = go_on(corpus, tmp_path / "model")
    assert (result.step, result.stopped_by) == (7, signal.SIGHUP)
    assert (tmp_path / "model/checkpoints/step-7.index").exists()
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda *_: None])
def test_hangups_that_are_ignored_or_handled_stay_so(hangup, handler):
    """As under `nohup`."""
    hangup(handler)
    with StopOnSignal(TwoWorkers()) as stop:
        os.kill(os.getpid(), signal.SIGHUP)
        assert not stop.has_received
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.has_received and signal.getsignal(signal.SIGHUP) == handler
    assert signal.getsignal(signal.SIGHUP) == handler


def test_a_profile_of_steps_in_two_calls_of_fit(tmp_path, monkeypatch, caplog):
    calls = []
    monkeypatch.setattr("tensorflow.profiler.experimental.start", lambda _: calls.append("start"))
    monkeypatch.setattr("tensorflow.profiler.experimental.stop", lambda: calls.append("stop"))

    class Model:
        def __getattr__(self, name):
            return self

        def numpy(self):
            return self.steps

    model = Model()
    model.steps = 6
    with contextlib.closing(Profile(tmp_path, 8, 12)) as profile:
        profile.set_model(model)
        for last in (10, 13):
            profile.on_train_begin()
            while model.steps < last:
                profile.on_train_batch_begin(0)
                model.steps += 1
                profile.on_train_batch_end(0)
                calls.append(model.steps)
            profile.on_train_end()
    assert calls == [7, "start", 8, 9, 10, 11, "stop", 12, 13]
    assert not caplog.records


@pytest.mark.representatives("False")
@pytest.mark.slow
@pytest.mark.parametrize("told", [False, True])
def test_nothing_learnt_from_a_changed_text_is_kept(corpus, whole, tmp_path, monkeypatch, told):
    """Of the same size; whether the next checkpoint comes by itself or by a signal."""
    directory, model_dir = shutil.copytree(corpus.directory, tmp_path / "c"), tmp_path / "model"
    text = (directory / "train.de").read_bytes()

    def change(step):
        if step == 7:
            (directory / "train.de").write_bytes(text.swapcase())
            if told:
                os.kill(os.getpid(), signal.SIGTERM)

    original = StopAtStep.on_train_batch_end
    with monkeypatch.context() as patch, pytest.raises(ValueError, match=r"train.de has changed"):
        patch.setattr(
            StopAtStep,
            "on_train_batch_end",
            lambda self, batch, logs: (original(self, batch), change(self.step)),
        )
        go_on(Corpus(directory), model_dir)
    (directory / "train.de").write_bytes(text)
    assert go_on(Corpus(directory), model_dir).step == 10
    assert weights_digest(model_dir) == weights_digest(whole)


def test_a_text_that_is_written_anew_is_the_same(corpus, tmp_path):
    directory = shutil.copytree(corpus.directory, tmp_path / "c")
    path = directory / "train.de"
    detector = ChangeDetector(TextFile(directory / "train.en"), TextFile(path))
    text = path.read_bytes()
    os.utime(path, (1, 1))
    detector.check()
    for change in (text[:-5], text.swapcase(), b"\xff" + text[1:]):
        path.write_bytes(change)
        with pytest.raises(ValueError, match=r"train.de has changed"):
            detector.check()
    path.write_bytes(text)
    detector.check()
    path.unlink()
    with pytest.raises(ValueError, match=r"train.de has changed"):
        detector.check()


@pytest.mark.representatives("shorter-train.de", "gone-validation.de")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["train.de", "validation.de"])
@pytest.mark.parametrize(
    "change", [lambda path: path.write_text("x\n"), os.remove], ids=["shorter", "gone"]
)
def test_a_text_that_changes_is_named(corpus, tmp_path, monkeypatch, change, name):
    """Training ends at the next checkpoint, or where reading fails."""
    directory, original = tmp_path / "texts", Checkpoints.save
    shutil.copytree(corpus.directory, directory)

    def save(self, step):
        original(self, step)
        if step == 5:
            change(directory / name)

    monkeypatch.setattr(Checkpoints, "save", save)
    with pytest.raises(ValueError) as raised:
        go_on(Corpus(directory), directory / "model")
    assert str(raised.value).startswith(f"{directory / name} has changed during training")
    assert (directory / "model/checkpoints/step-5.index").exists()

"""What a user sees of a training while it runs: a bar on a terminal, lines in a log."""

import contextlib
import io
import itertools
import logging
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
import tqdm

from training.callbacks import progress as progress_module
from training.callbacks.monitoring import Report
from training.callbacks.progress import StepProgress, ValidationProgress
from training.callbacks.tensorboard_log import TensorBoardLog


class Clock:
    """A clock that only the test moves."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


class Terminal(io.StringIO):
    """Standard error; what a bar has overwritten is kept."""

    def __init__(self, is_terminal):
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self):
        return self._is_terminal

    def states(self):
        """The states of the bar, one after the other."""
        return [state for state in self.getvalue().split("\r") if state.strip()]


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress_module, "time", clock)
    return clock


@pytest.fixture(params=[False, True], ids=["log", "terminal"])
def is_terminal(request):
    return request.param


@pytest.fixture
def errors(monkeypatch, is_terminal):
    """A standard error, where tqdm draws a bar for every step."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("LINES", "50")
    original = tqdm.tqdm.__init__

    def initialize(self, *arguments, **options):
        original(self, *arguments, **options | {"mininterval": 0})

    monkeypatch.setattr(tqdm.tqdm, "__init__", initialize)
    return Terminal(is_terminal)


class Model:
    """As much of a model as a report reads; counts how often it does."""

    alignment_weight = 0.0
    stop_training = stop_evaluating = False

    def __init__(self, step):
        self.readings = 0
        self.steps = 0
        self.optimizer = types.SimpleNamespace(
            iterations=tf.Variable(step),
            skipped=tf.Variable(0),
            learning_rate=0.1,
            gradient_norm=tf.Variable(1.0),
        )

    def get_metrics_result(self):
        self.readings += 1
        return {
            "loss": self.steps / 8,
            "perplexity": 2.0,
            "accuracy": 0.5,
            "target_tokens": 100.0 * self.steps,
            "source_tokens": 90.0 * self.steps,
            "entries": 200.0 * self.steps,
        }

    def reset_metrics(self):
        self.steps = 0


def run(clock, errors, *, steps, first=0, every=5, checkpoint=10, workers=1, seconds=2.0):
    """Steps of `seconds` each, the first of which takes a minute more.

    Returns:
        The numbers of readings before each step, and in the end.
    """
    with contextlib.redirect_stderr(errors):
        return run_steps(clock, steps, first, every, checkpoint, workers, seconds)


def run_steps(clock, steps, first, every, checkpoint, workers, seconds):
    model = Model(first)
    progress = StepProgress(steps, workers, is_silent=False)
    report = Report(TensorBoardLog(None), every, progress)
    report.set_model(model)
    report.set_params({})
    report.on_train_begin()
    clock.now += 60
    readings = []
    for step in range(first, steps):
        if step == first or step % checkpoint == 0:
            epoch, first_of_epoch = step // checkpoint, step
            model.reset_metrics()
            report.params["steps"] = (epoch + 1) * checkpoint - step
            report.on_epoch_begin(epoch)
        readings.append(model.readings)
        report.on_train_batch_begin(step - first_of_epoch)
        clock.now += seconds
        model.steps += 1
        report.on_train_batch_end(step - first_of_epoch)
        if (step + 1) % checkpoint == 0:
            report.on_epoch_end(epoch, {"val_loss": 3.0, "val_perplexity": 4.0})
    progress.close()
    return [*readings, model.readings]


@pytest.mark.parametrize("is_terminal", [False], indirect=True)
def test_a_log_has_a_line_for_each_report(clock, errors, caplog):
    caplog.set_level(logging.INFO, "training")
    run(clock, errors, steps=20)
    texts = [text.split(", perplexity")[0] for text in caplog.messages]
    assert texts == [
        "step 0 of 20: building the graph",
        "step 5 of 20: loss 0.6250",
        "step 10 of 20: loss 0.6250",
        "step 10: validation: loss 3.0000",
        "step 15 of 20: loss 0.6250",
        "step 20 of 20: loss 0.6250",
        "step 20: validation: loss 3.0000",
    ]
    left = [text.rpartition(", ")[2] for text in caplog.messages if " left" in text]
    assert left == ["00:30 left", "00:20 left", "00:10 left"]
    assert all("target tokens/s" in text for text in caplog.messages if " of 20: loss" in text)
    assert errors.getvalue() == ""


@pytest.mark.parametrize("is_terminal", [False], indirect=True)
def test_a_resumed_run_starts_where_it_was(clock, errors, caplog):
    """Not at a checkpoint; the time left is that of the remaining steps."""
    caplog.set_level(logging.INFO, "training")
    run(clock, errors, steps=4000, first=3994, seconds=7)
    assert caplog.messages[0] == (
        "step 3,994 of 4,000: building the graph, and passing over the batches of 3,994 steps"
    )
    assert caplog.messages[1].startswith("step 3,995 of 4,000: loss")
    assert "left" not in caplog.messages[1]  # of one step that built the graph nothing is known
    assert caplog.messages[2].startswith("step 4,000 of 4,000: loss")


def test_seconds_before_the_first_step_ends_are_not_extrapolated(clock):
    shown = StepProgress(1000, 1, is_silent=False)
    shown.open(400)
    clock.now += 500
    shown.start_clock(401)
    assert shown._time_left(401) == []
    clock.now += 30
    assert shown._time_left(411) == ["29:27 left"]
    assert shown._time_left(1000) == []


def test_the_first_validation_is_not_extrapolated(clock):
    """It builds the graph of the search, which takes many times as long as the search."""
    shown = StepProgress(1000, 1, is_silent=False)
    shown.open(0)
    shown.start_clock(0)
    left = []
    for step, validation in ((100, 600), (200, 50), (300, 50)):
        clock.now += 100
        left += shown._time_left(step)
        shown.close()
        clock.now += validation
        shown.open(step)
    left += shown._time_left(300)
    assert left == ["15:00 left", "13:20 left", "13:36 left", "15:33 left"]


@pytest.mark.parametrize("is_terminal", [True], indirect=True)
def test_a_terminal_shows_each_step(clock, errors, caplog):
    caplog.set_level(logging.INFO, "training")
    run(clock, errors, steps=12, checkpoint=6, every=4)
    states = errors.states()
    assert "step 0 of 12 |" in states[0] and "building the graph" in states[1]
    for step in range(1, 13):
        assert any(state.startswith(f"step {step} of 12 |") for state in states), step
    (fifth,) = [state for state in states if state.startswith("step 5 of 12")]
    assert "00:14 left, loss 0.5000, " in fifth and "tokens/s" in fifth
    # Lines of what stays on the screen: at checkpoints only.
    assert [text.partition(":")[0] for text in caplog.messages] == [
        *("step 6 of 12", "step 6", "step 12 of 12", "step 12"),
    ]
    assert errors.getvalue().split("\r")[-1].strip() == ""  # nothing is left of the bar


def test_steps_wait_for_no_reading(clock, errors, is_terminal):
    """The metrics are read after the first step and in reports, on a terminal every 5 s, too."""
    readings = run(clock, errors, steps=40, every=20, checkpoint=20, seconds=1.0)
    steps = [step for step, (old, new) in enumerate(itertools.pairwise(readings), 1) if old < new]
    if is_terminal:
        assert steps == [1, 6, 11, 16, 20, 25, 30, 35, 40]
    else:
        assert steps == [1, 20, 40]


@pytest.mark.parametrize("is_terminal", [True], indirect=True)
def test_several_workers_read_only_together(clock, errors):
    """A reading adds up the metrics of all workers, which no worker can do alone."""
    readings = run(clock, errors, steps=40, every=20, checkpoint=20, seconds=9.0, workers=2)
    steps = [step for step, (old, new) in enumerate(itertools.pairwise(readings), 1) if old < new]
    assert steps == [1, 20, 40]


def test_other_workers_show_nothing(clock, errors, is_terminal):
    with contextlib.redirect_stderr(errors):
        shown = StepProgress(10, 2, is_silent=True)
        shown.open(0)
        shown.announce(0, "building the graph")
        shown.advance(1)
        shown.close()
        validation = ValidationProgress(3, is_silent=True)
        validation.on_test_begin()
        validation.on_test_batch_end(0)
        validation.on_test_end()
    assert errors.getvalue() == ""


def test_a_validation_shows_its_batches(errors, is_terminal):
    """The bar does not outlive the validation, whoever calls it."""
    inputs = keras.Input((1,))
    model = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    model.compile(loss="mse", jit_compile=False)
    batches = tf.data.Dataset.from_tensors((np.ones((2, 1)), np.ones((2, 1)))).repeat(3)
    shown = ValidationProgress(3, is_silent=False)
    with contextlib.redirect_stderr(errors):
        model.evaluate(batches, verbose=0, callbacks=[shown])
    states = errors.states()
    if is_terminal:
        for count in range(4):
            assert any(f" {count}/3 " in state for state in states)
        assert errors.getvalue().split("\r")[-1].strip() == ""
    else:
        assert states == []

"""Showing how far training is: a bar on a terminal, lines in a log."""

import logging
import sys
import time
from collections.abc import Mapping

import keras
import tqdm

_log = logging.getLogger(__name__)

# Seconds between two readings of the metrics on a terminal, which wait for the running step.
_SECONDS_BETWEEN_READINGS = 5.0
_BAR = "step {n:,} of {total:,} |{bar}| {desc}"


def summary(scalars: Mapping[str, float]) -> str:
    """Returns the most important scalars as one line of text."""
    parts = [
        f"{name} {scalars[name]:.{digits}f}"
        for name, digits in (("loss", 4), ("perplexity", 2), ("accuracy", 4))
        if name in scalars
    ]
    return ", ".join(parts + _speed(scalars, "target tokens/s"))


def _speed(scalars, unit):
    speed = scalars.get("speed/target_tokens_per_second")
    return [] if speed is None else [f"{speed:,.0f} {unit}"]


class StepProgress:
    """Shows the steps of a run: as a bar where standard error is a terminal, else in the log.

    The time left is that of all remaining steps at the mean speed since `start_clock`, with
    checkpoints and validations, except the first, which builds graphs. A run that stops early needs
    less.

    Args:
        steps: total number of steps of the run.
        num_workers: number of worker processes. Only all together can read the metrics, so several
            workers have no readings between two reports.
        is_silent: whether to show nothing, in workers other than the chief.
    """

    def __init__(self, steps: int, num_workers: int, is_silent: bool):
        self._steps = steps
        self._on_terminal = not is_silent and sys.stderr.isatty()
        self._can_read_alone = num_workers == 1
        self._figures: list[str] = []
        self._start: tuple[float, int] | None = None
        self._closed_at: float | None = None
        self._has_paused = False
        self._read_at = 0.0
        self._bar = tqdm.tqdm(disable=True)

    def open(self, step: int) -> None:
        """Shows the bar at a step, the number of updates done."""
        if self._start and self._closed_at and not self._has_paused:
            started, first = self._start
            self._start = started + time.monotonic() - self._closed_at, first
            self._has_paused = True
        self._bar = tqdm.tqdm(
            total=self._steps,
            initial=step,
            desc=self._description(step),
            bar_format=_BAR,
            leave=False,
            mininterval=0.5,
            miniters=1,
            disable=not self._on_terminal,
        )

    def announce(self, step: int, what: str) -> None:
        """Shows what happens before the next step."""
        if self._on_terminal:
            self._bar.set_description_str(what)
        else:
            _log.info("step %s of %s: %s", f"{step:,}", f"{self._steps:,}", what)

    def start_clock(self, step: int) -> None:
        """Starts measuring the speed from which the time left is estimated."""
        self._start = time.monotonic(), step

    def needs_reading(self) -> bool:
        """Returns whether a terminal should show new metrics between two reports."""
        return (
            self._on_terminal
            and self._can_read_alone
            and time.monotonic() - self._read_at >= _SECONDS_BETWEEN_READINGS
        )

    def show(self, step: int, scalars: Mapping[str, float]) -> None:
        """Shows metrics and speed in the bar, if there is one."""
        self._read_at = time.monotonic()
        self._figures = [f"loss {scalars['loss']:.4f}", *_speed(scalars, "tokens/s")]
        self.advance(step)

    def advance(self, step: int) -> None:
        """Moves the bar to a step."""
        if self._on_terminal:
            self._bar.set_description_str(self._description(step), refresh=False)
            self._bar.update(step - self._bar.n)

    def report(self, step: int, scalars: Mapping[str, float], *, is_last: bool) -> None:
        """Shows a report: in the log, and in the bar, which ends with the last step of an epoch."""
        self.show(step, scalars)
        if is_last:
            self.close()
        if is_last or not self._on_terminal:
            line = ", ".join([summary(scalars), *self._time_left(step)])
            _log.info("step %s of %s: %s", f"{step:,}", f"{self._steps:,}", line)

    def close(self) -> None:
        """Removes the bar."""
        self._bar.close()
        self._closed_at = time.monotonic()

    def _description(self, step):
        return ", ".join([*self._time_left(step), *self._figures])

    def _time_left(self, step):
        if self._start is None or step == self._start[1] or step >= self._steps:
            return []
        started, first = self._start
        seconds = (time.monotonic() - started) / (step - first) * (self._steps - step)
        return [f"{tqdm.tqdm.format_interval(seconds)} left"]


class ValidationProgress(keras.callbacks.Callback):
    """Shows the batches of a validation as a bar, where standard error is a terminal.

    Args:
        num_batches: number of batches of the validation set.
        is_silent: whether to show nothing, in workers other than the chief.
    """

    def __init__(self, num_batches: int, is_silent: bool):
        super().__init__()
        self._settings = dict(
            total=num_batches,
            desc="validation",
            unit=" batches",
            leave=False,
            disable=True if is_silent else None,
        )
        self._bar = tqdm.tqdm(disable=True)

    def on_test_begin(self, logs=None):
        self._bar = tqdm.tqdm(**self._settings)

    def on_test_batch_end(self, batch, logs=None):
        self._bar.update()

    def on_test_end(self, logs=None):
        self._bar.close()

"""Reports of training: scalars for TensorBoard, the log and the bar on a terminal."""

import logging
import math
import resource
import sys
import time

import tensorflow as tf

from tf_transformer.errors import InputError
from training.callbacks.callbacks import StepCallback
from training.callbacks.progress import StepProgress, summary
from training.callbacks.tensorboard_log import TensorBoardLog

_messages = logging.getLogger(__name__)

# Training is aborted after this many updates in a row without a finite gradient.
_MAX_SKIPPED = 50

_QUALITY = ("loss", "perplexity", "accuracy")


def quality_scalars(results: dict[str, float]) -> dict[str, float]:
    """Returns loss, perplexity and accuracy from the metrics, and the loss without smoothing."""
    scalars = {name: value for name, value in results.items() if name in _QUALITY}
    if "perplexity" in scalars:
        # `Perplexity` is exp(loss without smoothing).
        scalars["loss/without_smoothing"] = _log(scalars["perplexity"])
    return scalars


def _log(value):
    return math.log(value) if value > 0 else math.nan


class DivergedError(InputError):
    """Training has diverged: no update has a finite gradient any more."""


class Report(StepCallback):
    """Reports the means of the metrics since the last report.

    A report is written every `every` steps and at the end of an epoch. Between two reports nothing
    is read from the device, so that the host can run ahead of it; but a terminal shows the metrics
    every few seconds. Speeds exclude the first step of a call of `fit`, which builds the graph.

    Args:
        log: the TensorBoard files to write.
        every: steps between two reports.
        progress: what shows the reports to the user.

    Raises:
        DivergedError: no update between two reports, at least 50 updates apart, had a finite
            gradient.
    """

    def __init__(self, log: TensorBoardLog, every: int, progress: StepProgress):
        super().__init__()
        self._log = log
        self._every = every
        self._progress = progress
        self._must_reset = False
        self._has_traced = False

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        self._skipped = self._checked_skipped = self._count_skipped()
        self._checked_step = self.step
        self._has_traced = False

    def _count_skipped(self):
        return int(self.model.optimizer.skipped.numpy())

    def on_epoch_begin(self, epoch, logs=None):
        self._start_clock({})
        self._must_reset = False
        self._progress.open(self.step)
        if not self._has_traced:
            skipped = f", and passing over the batches of {self.step:,} steps" if self.step else ""
            self._progress.announce(self.step, f"building the graph{skipped}")

    def _start_clock(self, results):
        """Starts measuring speed; `results` holds the counts of the metrics so far."""
        self._since = time.perf_counter()
        self._first_step = self.step
        self._counted = results

    def on_train_batch_begin(self, batch, logs=None):
        if self._must_reset:
            self.model.reset_metrics()
            self._start_clock({})
            self._must_reset = False

    def on_train_batch_end(self, batch, logs=None):
        super().on_train_batch_end(batch, logs)
        if not self._has_traced:
            self._progress.start_clock(self.step)
        is_last = batch + 1 == self.params["steps"] or self.model.stop_training
        if self.step % self._every == 0 or is_last:
            self._report(self._results(), is_last)
            self._must_reset = True
        elif not self._has_traced:
            self._show(results := self._results())
            self._start_clock(results)
        elif self._progress.needs_reading():
            self._show(self._results())
        else:
            self._progress.advance(self.step)
        self._has_traced = True

    def _results(self):
        """Returns the metrics over all replicas; waits for the running step."""
        return {name: float(value) for name, value in self.model.get_metrics_result().items()}

    def _show(self, results):
        self._progress.show(self.step, quality_scalars(results) | self._speed(results))

    def _report(self, results, is_last):
        scalars = quality_scalars(results) | self._speed(results) | memory_scalars()
        if self.model.alignment_weight:
            scalars["loss/alignment"] = results["alignment_loss"]
        tokens = results["target_tokens"] + results.get("source_tokens", 0.0)
        scalars["speed/padding"] = 1.0 - tokens / results["entries"]
        optimizer = self.model.optimizer
        self._skipped = self._count_skipped()
        scalars["optimizer/learning_rate"] = float(optimizer.learning_rate)
        scalars["optimizer/gradient_norm"] = float(optimizer.gradient_norm.numpy())
        scalars["optimizer/skipped_updates"] = self._skipped
        self._log.scalars("training", scalars, self.step)
        self._check_health()
        self._progress.report(self.step, scalars, is_last=is_last)

    def _speed(self, results):
        """Returns the speeds since the clock started; empty if there was no step."""
        steps = self.step - self._first_step
        if not self._has_traced or not steps:
            return {}
        seconds = time.perf_counter() - self._since
        scalars = {"speed/step_seconds": seconds / steps}
        for name in ("source_tokens", "target_tokens"):
            if name in results:
                tokens = results[name] - self._counted.get(name, 0.0)
                scalars[f"speed/{name}_per_second"] = tokens / seconds
        return scalars

    def _check_health(self):
        updates = self.step - self._checked_step
        if updates < _MAX_SKIPPED:
            return
        if self._skipped - self._checked_skipped == updates:
            raise DivergedError(
                f"none of the updates from {self._checked_step + 1} to {self.step} had a finite "
                "gradient; lower optimization.learning_rate_factor or set optimization.clip_norm, "
                "and give another --model-dir"
            )
        self._checked_step, self._checked_skipped = self.step, self._skipped

    def on_epoch_end(self, epoch, logs=None):
        if self.model.stop_evaluating:
            return
        results = {
            name.removeprefix("val_"): float(value)
            for name, value in logs.items()
            if name.startswith("val_")
        }
        _messages.info("step %s: validation: %s", f"{self.step:,}", summary(results))


def memory_scalars() -> dict[str, float]:
    """Returns peak memory in GiB, of this process and of the tensors on each GPU."""
    unit = 1 if sys.platform == "darwin" else 1024  # bytes per unit of `ru_maxrss`
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    scalars = {"memory/process_peak_GiB": peak / 2**30}
    for index, _ in enumerate(tf.config.list_logical_devices("GPU")):
        used = tf.config.experimental.get_memory_info(f"GPU:{index}")
        scalars[f"memory/GPU_{index}_peak_GiB"] = used["peak"] / 2**30
    return scalars

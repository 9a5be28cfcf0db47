"""Profiling a range of training steps for TensorBoard's profile page."""

import logging
import pathlib

import tensorflow as tf

from training.callbacks.callbacks import StepCallback

_log = logging.getLogger(__name__)


class Profile(StepCallback):
    """Captures a profile of host and devices for a range of steps.

    The steps may belong to several calls of `fit`; call `close` after the last call.

    Args:
        log_dir: directory of TensorBoard's files.
        first: first step to profile, counted from 1.
        last: last step to profile.
    """

    def __init__(self, log_dir: pathlib.Path, first: int, last: int):
        super().__init__()
        self._log_dir = log_dir
        self._first = first
        self._last = last
        self._is_running = self._has_begun = False

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        if self.step >= self._first and not self._has_begun:
            _log.warning("No profile: step %s is already done.", self._first)

    def on_train_batch_begin(self, batch, logs=None):
        if not self._is_running and self.step + 1 == self._first:
            tf.profiler.experimental.start(str(self._log_dir))
            self._is_running = self._has_begun = True

    def on_train_batch_end(self, batch, logs=None):
        super().on_train_batch_end(batch, logs)
        if self.step >= self._last:
            self.close()

    def close(self) -> None:
        """Stops profiling and writes the profile; a no-op if no profile is being captured."""
        if self._is_running:
            self.model.optimizer.iterations.numpy()  # waits for the running step
            tf.profiler.experimental.stop()
            self._is_running = False

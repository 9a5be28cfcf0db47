"""Callbacks that save checkpoints, check the texts, and stop training."""

import pathlib
import signal
import threading
from collections.abc import Sequence
from typing import Any

import keras

from training.checkpointing.checkpoints import Checkpoints
from training.checkpointing.written_weights import write_weights_and_adapter
from training.data.change_detection import ChangeDetector
from training.distributed.workers import Workers

# Steps between two exchanges among several workers of whether to stop.
AGREE_EVERY = 10


def current_step(model: keras.Model) -> int:
    """Returns the number of optimizer updates done."""
    return int(model.optimizer.iterations.numpy())


class StepCallback(keras.callbacks.Callback):
    """Counts optimizer updates on the host, without reading from the device after each step.

    Attributes:
        step: total number of updates done.
    """

    def on_train_begin(self, logs=None):
        self.step = current_step(self.model)

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1


class SaveCheckpoints(keras.callbacks.Callback):
    """Saves a checkpoint and the model's weights before `fit` validates an epoch, and on a stop.

    In the list of callbacks, those that stop training come before this one, and `ValidateAverage`
    after it.

    Args:
        model_dir: directory of the model's weights.
        checkpoints: writer of the checkpoints.
        change_detector: detector of changes of the training text, if any; if the text has changed,
            nothing is saved.
    """

    def __init__(
        self,
        model_dir: pathlib.Path,
        checkpoints: Checkpoints,
        change_detector: ChangeDetector | None,
    ):
        super().__init__()
        self._model_dir = model_dir
        self._checkpoints = checkpoints
        self._change_detector = change_detector
        self._saved_step: int | None = None

    def on_train_batch_end(self, batch, logs=None):
        if self.model.stop_training:
            self._save()

    def on_test_begin(self, logs=None):
        self._save()

    def _save(self):
        step = current_step(self.model)
        if step != self._saved_step:
            if self._change_detector:
                self._change_detector.check()
            # In this order, every checkpoint has its weights even if this is interrupted.
            write_trained_weights(self._model_dir, self.model)
            self._checkpoints.save(step)
            self._saved_step = step


def write_trained_weights(model_dir: pathlib.Path, model: keras.Model) -> None:
    """Writes the model's weights, or their averages if training keeps any."""
    with model.optimizer.averaged_weights(model.trainable_variables):
        write_weights_and_adapter(model_dir, model)


class ValidateAverage(keras.callbacks.Callback):
    """Sets the weights to their averages during validation, if training keeps any."""

    def on_test_begin(self, logs=None):
        self._context = self.model.optimizer.averaged_weights(self.model.trainable_variables)
        self._context.__enter__()

    def on_test_end(self, logs=None):
        self._context.__exit__(None, None, None)


class CheckTexts(keras.callbacks.Callback):
    """Checks at the begin and the end of each epoch that the texts are unchanged.

    Args:
        change_detectors: detectors of changes of the texts.

    Raises:
        InputError: a text has changed; the message names the file.
    """

    def __init__(self, change_detectors: Sequence[ChangeDetector]):
        super().__init__()
        self._change_detectors = change_detectors

    def on_epoch_begin(self, epoch, logs=None):
        self.check()

    def on_epoch_end(self, epoch, logs=None):
        self.check()

    def check(self) -> None:
        """Checks that the texts are unchanged.

        Raises:
            InputError: a text has changed; the message names the file.
        """
        for detector in self._change_detectors:
            detector.check()


class StopAtStep(StepCallback):
    """Stops training after a total number of steps."""

    def __init__(self, steps: int):
        super().__init__()
        self._steps = steps

    def on_train_batch_end(self, batch, logs=None):
        super().on_train_batch_end(batch, logs)
        if self.step >= self._steps:
            self.model.stop_training = True


class StopOnCallback(StepCallback):
    """Stops all workers when a user's callback sets `stop_training` of the model.

    In the list of callbacks, it comes after the user's callbacks and before all others that stop
    training. Several workers stop together, up to `AGREE_EVERY` steps later.

    Args:
        workers: the workers that train together; either all have user callbacks, or none.
    """

    def __init__(self, workers: Workers):
        super().__init__()
        self._workers = workers
        self._requested = self._any_requested = False

    def any_worker_requests_stop(self) -> bool:
        """Returns whether a callback of any worker has requested a stop.

        All workers must call this together, and get the same result.
        """
        self._any_requested = self._any_requested or self._workers.any(self._requested)
        return self._any_requested

    def on_train_batch_end(self, batch, logs=None):
        super().on_train_batch_end(batch, logs)
        self._requested |= self.model.stop_training
        is_due = self._workers.num_workers == 1 or self.step % AGREE_EVERY == 0
        self.model.stop_training = is_due and self.any_worker_requests_stop()

    def on_epoch_end(self, epoch, logs=None):
        # After the last step or a signal, the training loop ends whatever is set here.
        self._requested |= self.model.stop_training
        self.model.stop_training = self.any_worker_requests_stop()


class StopOnSignal(StepCallback):
    """Stops training after the running step on Ctrl-C, SIGTERM or SIGHUP.

    A second Ctrl-C or SIGTERM ends the process at once; steps since the newest checkpoint are lost.
    The first step of a resumed run includes skipping the batches of former steps, so a stop waits
    for that too. A closed terminal sends SIGHUP more than once, so a second SIGHUP is ignored. If
    SIGHUP was already ignored or handled, as under `nohup`, its handler is left unchanged.

    This is a context manager, which handles the signals in its `with` block. In a thread other than
    the main thread, where Python allows no signal handlers, it handles none. Several workers stop
    together, up to `AGREE_EVERY` steps after one of them has received a signal. A running
    validation is aborted, and `stop_evaluating` of the model is True then.

    Args:
        workers: the workers that train together.

    Attributes:
        stopped_by: the signal that all workers stop for, or None; SIGTERM in a worker that stops
            because of another worker's signal.
    """

    def __init__(self, workers: Workers):
        super().__init__()
        self.stopped_by: signal.Signals | None = None
        self._received: signal.Signals | None = None
        self._workers = workers
        self._former: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "StopOnSignal":
        if threading.current_thread() is threading.main_thread():
            handled = [signal.SIGINT, signal.SIGTERM]
            if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
                handled.append(signal.SIGHUP)
            self._former = {signum: signal.signal(signum, self._receive) for signum in handled}
        return self

    def __exit__(self, *error) -> None:
        for signum, handler in self._former.items():
            signal.signal(signum, handler)

    @property
    def has_received(self) -> bool:
        """Whether this process has received a signal; other workers may not know yet."""
        return self._received is not None

    def _receive(self, signum, frame):
        self._received = self._received or signal.Signals(signum)
        for other, handler in self._former.items():
            signal.signal(other, signal.SIG_IGN if other == signal.SIGHUP else handler)

    def any_worker_requests_stop(self) -> bool:
        """Returns whether any worker has received a signal.

        All workers must call this together, and get the same result.
        """
        if not self.stopped_by and self._workers.any(self.has_received):
            self.stopped_by = self._received or signal.SIGTERM
        return self.stopped_by is not None

    def on_train_batch_end(self, batch, logs=None):
        super().on_train_batch_end(batch, logs)
        if self._is_due(self.step) and self.any_worker_requests_stop():
            self.model.stop_training = True

    def on_test_batch_end(self, batch, logs=None):
        if self.stopped_by or (self._is_due(batch) and self.any_worker_requests_stop()):
            self.model.stop_training = self.model.stop_evaluating = True

    def _is_due(self, index):
        return self._workers.num_workers == 1 or index % AGREE_EVERY == 0

"""What happens beside the optimizer's steps: checkpoints, an orderly stop."""

import pathlib
import signal
import threading
from collections.abc import Sequence
from typing import Any

import keras

from tf_transformer.storage.model_dir import write_weights
from training.checkpointing.checkpoints import Checkpoints
from training.data.change_detection import ChangeDetector
from training.distributed.workers import Workers

AGREE_EVERY = 10


def current_step(model: keras.Model) -> int:
    """Optimizer updates done."""
    return int(model.optimizer.iterations.numpy())


class StepCallback(keras.callbacks.Callback):
    """Knows the number of optimizer updates done without asking the device after each.

    Attributes:
        step: updates done in all.
    """

    def on_train_begin(self, logs=None):
        self.step = current_step(self.model)

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1


class SaveCheckpoints(keras.callbacks.Callback):
    """Saves a checkpoint, and the weights for translating, before `fit` validates an epoch.

    A stop saves at once. Callbacks that stop come before this one, `ValidateAverage` after it.

    Args:
        model_dir, checkpoints: where to.
        watch: of the training text, if there is one: nothing that was learnt from another is kept.
    """

    def __init__(
        self, model_dir: pathlib.Path, checkpoints: Checkpoints, watch: ChangeDetector | None
    ):
        super().__init__()
        self._model_dir = model_dir
        self._checkpoints = checkpoints
        self._watch = watch
        self._saved_step: int | None = None

    def on_train_batch_end(self, batch, logs=None):
        if self.model.stop_training:
            self._save()

    def on_test_begin(self, logs=None):
        self._save()

    def _save(self):
        step = current_step(self.model)
        if step != self._saved_step:
            if self._watch:
                self._watch.check()
            # In this order, so that no checkpoint is without its weights, whatever happens between.
            write_trained_weights(self._model_dir, self.model)
            self._checkpoints.save(step)
            self._saved_step = step


def write_trained_weights(model_dir: pathlib.Path, model: keras.Model) -> None:
    """Writes the weights for translating: their averages, where training keeps any."""
    with model.optimizer.averaged_weights(model.trainable_variables):
        write_weights(model_dir, model)


class ValidateAverage(keras.callbacks.Callback):
    """Validates with the averages of the weights, where training keeps any."""

    def on_test_begin(self, logs=None):
        self._context = self.model.optimizer.averaged_weights(self.model.trainable_variables)
        self._context.__enter__()

    def on_test_end(self, logs=None):
        self._context.__exit__(None, None, None)


class CheckTexts(keras.callbacks.Callback):
    """Ends training where a text that it reads has changed, when an epoch begins and ends.

    Args:
        watches: of the texts.

    Raises:
        ValueError: names the file.
    """

    def __init__(self, watches: Sequence[ChangeDetector]):
        super().__init__()
        self._watches = watches

    def on_epoch_begin(self, epoch, logs=None):
        self.check()

    def on_epoch_end(self, epoch, logs=None):
        self.check()

    def check(self) -> None:
        """See above."""
        for watch in self._watches:
            watch.check()


class StopAtStep(StepCallback):
    """Ends training after a number of steps in all."""

    def __init__(self, steps: int):
        super().__init__()
        self._steps = steps

    def on_train_batch_end(self, batch, logs=None):
        super().on_train_batch_end(batch, logs)
        if self.step >= self._steps:
            self.model.stop_training = True


class StopOnCallback(StepCallback):
    """Makes a stop that the caller's callbacks ask for one of all workers.

    It comes after them, and before all others that stop. Several workers stop together, up to
    `AGREE_EVERY` steps after any callback of any of them has set `stop_training` of the model.

    Args:
        workers: that train together; all have callbacks, or none.
    """

    def __init__(self, workers: Workers):
        super().__init__()
        self._workers = workers
        self._asked = self._agreed = False

    def agree(self) -> bool:
        """Whether any worker's callbacks ask for a stop; all must ask, and get the same answer."""
        self._agreed = self._agreed or self._workers.any(self._asked)
        return self._agreed

    def on_train_batch_end(self, batch, logs=None):
        super().on_train_batch_end(batch, logs)
        self._asked |= self.model.stop_training
        is_time = self._workers.number == 1 or self.step % AGREE_EVERY == 0
        self.model.stop_training = is_time and self.agree()

    def on_epoch_end(self, epoch, logs=None):
        # Unless the steps are all done, or there was a signal: then the loop ends for these.
        self._asked |= self.model.stop_training
        self.model.stop_training = self.agree()


class StopOnSignal(StepCallback):
    """Ends training in order after the running step at Ctrl-C, SIGTERM or SIGHUP.

    A second Ctrl-C or SIGTERM, however soon, ends the process at once: steps since the newest
    checkpoint are lost. The first step of a resumed run begins with reading past the batches that
    it was trained with; a signal waits for that too. A terminal that is closed sends SIGHUP more
    than once, so a second one is ignored; where it was ignored or handled before, as under `nohup`,
    it stays so.

    A context manager: signals are taken from its begin to its end, in a main thread; Python lets no
    other take any. Several workers stop together, up to `AGREE_EVERY` steps after any of them got
    the signal. A running validation is broken off, and has `stop_evaluating` of the model say so.

    Args:
        workers: that train together.

    Attributes:
        agreed: the signal that all stop for, or None. A worker that stops because of another's
            signal has SIGTERM.
    """

    def __init__(self, workers: Workers):
        super().__init__()
        self.agreed: signal.Signals | None = None
        self._received: signal.Signals | None = None
        self._workers = workers
        self._former: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "StopOnSignal":
        if threading.current_thread() is threading.main_thread():
            numbers = [signal.SIGINT, signal.SIGTERM]
            if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
                numbers.append(signal.SIGHUP)
            self._former = {number: signal.signal(number, self._receive) for number in numbers}
        return self

    def __exit__(self, *error) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)

    @property
    def was_told(self) -> bool:
        """Whether this process got a signal; the others may not know of it yet."""
        return self._received is not None

    def _receive(self, number, frame):
        self._received = self._received or signal.Signals(number)
        for other, handler in self._former.items():
            signal.signal(other, signal.SIG_IGN if other == signal.SIGHUP else handler)

    def agree(self) -> bool:
        """Whether any worker was told to stop; all must ask, and all get the same answer."""
        if not self.agreed and self._workers.any(self.was_told):
            self.agreed = self._received or signal.SIGTERM
        return self.agreed is not None

    def on_train_batch_end(self, batch, logs=None):
        super().on_train_batch_end(batch, logs)
        if self._is_time(self.step) and self.agree():
            self.model.stop_training = True

    def on_test_batch_end(self, batch, logs=None):
        if self.agreed or (self._is_time(batch) and self.agree()):
            self.model.stop_training = self.model.stop_evaluating = True

    def _is_time(self, number):
        return self._workers.number == 1 or number % AGREE_EVERY == 0

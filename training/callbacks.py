"""What happens beside the optimizer's steps: reports, checkpoints, an orderly stop."""

import pathlib
import signal
import time

import keras
import tensorflow as tf

from tf_transformer.model_dir import write_weights
from training.checkpoints import Checkpoints
from training.workers import Workers

REPORT_EVERY = 50
AGREE_EVERY = 10


def current_step(model: keras.Model) -> int:
    """Optimizer updates done."""
    return int(model.optimizer.iterations.numpy())


class Report(keras.callbacks.Callback):
    """Shows means since the last report, and writes them for TensorBoard by step.

    Every `REPORT_EVERY` steps: loss, perplexity, accuracy, share of padding, learning rate, the
    newest gradient's norm, skipped updates in all and target tokens a second under `logs/training`;
    after each validation its loss, perplexity and accuracy under `logs/validation`.

    Args:
        log_dir: where TensorBoard's files go.

    Raises:
        ValueError: no update since the last report was finite.
    """

    def __init__(self, log_dir: pathlib.Path):
        super().__init__()
        self._training = tf.summary.create_file_writer(str(log_dir / "training"))
        self._validation = tf.summary.create_file_writer(str(log_dir / "validation"))
        self._since = 0.0
        self._start_anew = False
        self._pace = {}
        self._skipped = 0

    def on_train_begin(self, logs=None):
        self._skipped = self._count_skipped()

    def _count_skipped(self):
        return int(self.model.optimizer.skipped.numpy())

    def on_epoch_begin(self, epoch, logs=None):
        self._since = time.perf_counter()

    def on_train_batch_begin(self, batch, logs=None):
        if self._start_anew:
            self.model.reset_metrics()
            self._since = time.perf_counter()
            self._start_anew = False

    def on_train_batch_end(self, batch, logs=None):
        tokens = logs.pop("target_tokens")
        self._pace = {
            "tokens/s": round(tokens / (time.perf_counter() - self._since)),
            "learning_rate": float(self.model.optimizer.learning_rate),
        }
        logs.update(self._pace)
        step = current_step(self.model)
        if step % REPORT_EVERY == 0:
            self._write(self._training, logs | self._health(step), step)
            self._start_anew = True

    def _health(self, step):
        skipped, before = self._count_skipped(), self._skipped
        self._skipped = skipped
        if skipped - before == REPORT_EVERY:
            raise ValueError(
                f"none of the updates from {step - REPORT_EVERY + 1} to {step} had a finite "
                "gradient; lower optimization.learning_rate_factor or set optimization.clip_norm"
            )
        return {
            "gradient_norm": float(self.model.optimizer.gradient_norm.numpy()),
            "skipped_updates": skipped,
        }

    def on_epoch_end(self, epoch, logs=None):
        for name in ("target_tokens", "val_target_tokens", "val_padding"):
            logs.pop(name, None)
        logs.update(self._pace)
        step = current_step(self.model)
        if step % REPORT_EVERY:  # the steps since the last report
            training = {name: value for name, value in logs.items() if not name.startswith("val_")}
            self._write(self._training, training, step)
        validation = {
            name.removeprefix("val_"): value
            for name, value in logs.items()
            if name.startswith("val_")
        }
        self._write(self._validation, validation, step)

    def _write(self, writer, values, step):
        with writer.as_default(step=step):
            for name, value in values.items():
                tf.summary.scalar(name.replace("tokens/s", "target_tokens_per_second"), value)
        writer.flush()


class SaveCheckpoints(keras.callbacks.Callback):
    """Saves a checkpoint, and the weights for translating, whenever `fit` ends an epoch.

    A stop saves at once, before the epoch's validation. Callbacks that stop come before this one.
    """

    def __init__(self, model_dir: pathlib.Path, checkpoints: Checkpoints):
        super().__init__()
        self._model_dir = model_dir
        self._checkpoints = checkpoints
        self._saved_step = None

    def on_train_batch_end(self, batch, logs=None):
        if self.model.stop_training:
            self._save()

    def on_epoch_end(self, epoch, logs=None):
        self._save()

    def _save(self):
        step = current_step(self.model)
        if step != self._saved_step:
            self._checkpoints.save(step)
            write_trained_weights(self._model_dir, self.model)
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


class StopAtStep(keras.callbacks.Callback):
    """Ends training after a number of steps in all."""

    def __init__(self, steps: int):
        super().__init__()
        self._steps = steps

    def on_train_batch_end(self, batch, logs=None):
        if current_step(self.model) >= self._steps:
            self.model.stop_training = True


class StopOnSignal(keras.callbacks.Callback):
    """Ends training in order after the running step at Ctrl-C or SIGTERM; at once at the second.

    Several workers stop together, up to `AGREE_EVERY` steps after any of them got the signal.

    Args:
        workers: that train together.

    Attributes:
        received: the signal that came, or None. A worker that stops because of another's signal
            has SIGTERM.
    """

    def __init__(self, workers: Workers):
        super().__init__()
        self.received: signal.Signals | None = None
        self._workers = workers
        self._former = {}

    def on_train_begin(self, logs=None):
        for number in (signal.SIGINT, signal.SIGTERM):
            self._former[number] = signal.signal(number, self._receive)

    def _receive(self, number, frame):
        self.received = signal.Signals(number)
        self._restore()

    def _restore(self):
        for number, handler in self._former.items():
            signal.signal(number, handler)

    def on_train_batch_end(self, batch, logs=None):
        if self._workers.number > 1 and current_step(self.model) % AGREE_EVERY:
            return
        if self._workers.any(self.received is not None):
            self.received = self.received or signal.SIGTERM
            self.model.stop_training = True

    def on_train_end(self, logs=None):
        self._restore()

"""The training loop: calls of Keras' `fit`, where an epoch lasts from checkpoint to checkpoint."""

import contextlib
import dataclasses
import math
import pathlib
import signal
from collections.abc import Sequence

import keras
import tensorflow as tf

from tf_transformer.storage.model_dir import WEIGHTS_NAME
from training.backup.backup import Backup
from training.batches import training_batches, validation_batches
from training.callbacks.backups import UploadCheckpoints
from training.callbacks.callbacks import (
    CheckTexts,
    SaveCheckpoints,
    StopAtStep,
    StopOnCallback,
    StopOnSignal,
    ValidateAverage,
    current_step,
    write_trained_weights,
)
from training.callbacks.monitoring import Report
from training.callbacks.profiling import Profile
from training.callbacks.progress import StepProgress, ValidationProgress
from training.callbacks.tensorboard_log import TensorBoardLog
from training.callbacks.user_callbacks import ScoreCallback, set_modes
from training.callbacks.validation import Validation, log_settings_and_graph
from training.checkpointing.checkpoints import Checkpoints
from training.checkpointing.run_files import LOGS_NAME
from training.config import TrainingConfig
from training.data.pipeline import ParallelText
from training.distributed.workers import Workers
from training.prepared.data_service import STREAM_LOST, exit_if_service_is_lost
from training.prepared.prepared_text import PreparedText
from training.step import TrainableLanguageModel, TrainableTransformer


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """The result of a training run.

    Args:
        step: number of optimizer updates done, including those of resumed runs.
        stopped_by: the signal that stopped training early, or None.
        is_chief: whether this process wrote the model, see `Workers`.
        early_stop: why training stopped early without a signal (no improvement, or a callback), or
            None.
    """

    step: int
    stopped_by: signal.Signals | None
    is_chief: bool
    early_stop: str | None = None


class TrainingLoop:
    """The calls of `fit`, with their callbacks.

    Args:
        model: the initialized model, or one restored from a checkpoint.
        config: settings of the run.
        corpus: training corpus.
        validation: validation set.
        model_dir: directory of the model, its logs and its scores.
        checkpoints: writer of the checkpoints.
        workers: the workers that train together.
    """

    def __init__(
        self,
        model: TrainableTransformer | TrainableLanguageModel,
        config: TrainingConfig,
        corpus: ParallelText | PreparedText,
        validation: ParallelText,
        model_dir: pathlib.Path,
        checkpoints: Checkpoints,
        workers: Workers,
    ):
        self._model, self._config = model, config
        self._corpus, self._validation = corpus, validation
        self._model_dir, self._checkpoints, self._workers = model_dir, checkpoints, workers
        self._detector = None if isinstance(corpus, PreparedText) else corpus.change_detector
        detectors = (self._detector, validation.change_detector)
        self._text_checks = CheckTexts([found for found in detectors if found is not None])
        num_tags = model.config.num_target_tags
        self._validation_batches = workers.shares(validation_batches(validation, num_tags))

    def run(
        self,
        user_callbacks: Sequence[keras.callbacks.Callback],
        backup: Backup | None,
        profile: tuple[int, int] | None,
    ) -> TrainingResult:
        """Trains until the last step, an early stop or a signal.

        Args:
            user_callbacks: the `callbacks` of `train`.
            backup: the backup of the model directory; None makes none.
            profile: first and last step of the profile for TensorBoard; None writes none.

        Returns:
            The step that training reached, and why it stopped.

        Raises:
            InputError: a text has changed, or no update is finite.
            OSError: the data service was lost.
        """
        model, workers, model_dir = self._model, self._workers, self._model_dir
        steps, is_chief = self._config.optimization.steps, workers.is_chief
        log = TensorBoardLog(model_dir / LOGS_NAME if is_chief else None, current_step(model))
        progress = StepProgress(steps, workers.num_workers, not is_chief)
        num_batches = int(self._validation_batches.cardinality())
        validation_progress = ValidationProgress(num_batches, not is_chief)
        with StopOnSignal(workers) as stop_on_signal, contextlib.ExitStack() as exit_stack:
            exit_stack.enter_context(contextlib.closing(progress))
            exit_stack.callback(validation_progress.on_test_end)
            validator = Validation(
                corpus=self._validation,
                batches=self._validation_batches,
                config=self._config,
                model_dir=model_dir,
                log=log,
                workers=workers,
                stop=stop_on_signal,
                progress=validation_progress,
                score_callbacks=[x for x in user_callbacks if isinstance(x, ScoreCallback)],
            )
            set_modes(user_callbacks, model.metrics)
            stop_on_callback = StopOnCallback(workers)
            callbacks = [
                self._text_checks,
                *([*user_callbacks, stop_on_callback] if user_callbacks else []),
                StopAtStep(steps),
                stop_on_signal,
                Report(log, self._config.validation.report_every, progress),
                validation_progress,
                *(
                    [SaveCheckpoints(model_dir, self._checkpoints, self._detector)]
                    if is_chief
                    else []
                ),
                *([UploadCheckpoints(backup)] if backup else []),
                ValidateAverage(),
                validator,
            ]
            if isinstance(self._corpus, PreparedText) and self._corpus.service:
                exit_stack.enter_context(exit_if_service_is_lost(self._corpus.service))
            if is_chief:
                if profile is not None:
                    capture = Profile(model_dir / LOGS_NAME / "training", *profile)
                    callbacks.append(exit_stack.enter_context(contextlib.closing(capture)))
                log_settings_and_graph(log, self._config, model, model_dir)
            validator.begin(model)
            # All workers must call `fit` equally often, so the conditions are the same for all.
            while (
                current_step(model) < steps
                and not validator.early_stop
                and not stop_on_signal.any_worker_requests_stop()
                and not (user_callbacks and stop_on_callback.any_worker_requests_stop())
            ):
                with _file_errors_explained(self._corpus, self._text_checks):
                    self._fit(callbacks)
        if is_chief and current_step(model) and not (model_dir / WEIGHTS_NAME).exists():
            write_trained_weights(model_dir, model)
        workers.wait()  # the chief may still be writing
        stopped_by = stop_on_signal.stopped_by
        early_stop = validator.early_stop or (None if stopped_by else "a callback has stopped it")
        if current_step(model) >= steps:
            early_stop = None
        return TrainingResult(current_step(model), stopped_by, is_chief, early_stop)

    def _fit(self, callbacks):
        """Calls `fit` once.

        If training was stopped between two checkpoints, the first call ends at the next multiple of
        `checkpoint_every`, so that checkpoints have the same steps as without the stop.
        """
        model, optimization = self._model, self._config.optimization
        step, every = current_step(model), optimization.checkpoint_every
        steps_since_checkpoint = step % every
        validation = self._validation
        batches = training_batches(
            self._corpus,
            (validation.source_tokenizer, validation.target_tokenizer),
            self._config,
            model.config.num_target_tags,
            step,
        )
        model.fit(
            self._workers.shares(batches),
            validation_data=self._validation_batches,
            steps_per_epoch=every - steps_since_checkpoint,
            initial_epoch=step // every,
            epochs=step // every + 1
            if steps_since_checkpoint
            else math.ceil(optimization.steps / every),
            callbacks=callbacks,
            verbose=0,  # its progress bar would wait for every step
            shuffle=False,
        )


@contextlib.contextmanager
def _file_errors_explained(corpus, text_checks):
    """Turns TensorFlow's errors about damaged or changed files into one line that names the file.

    TensorFlow's messages name no file, and contain the bytes of a record that it cannot parse,
    which need not be UTF-8.
    """
    try:
        yield
    except (tf.errors.OpError, UnicodeDecodeError) as error:
        is_prepared = isinstance(corpus, PreparedText)
        if is_prepared:
            corpus.check_digests()
            corpus.check_records()
        text_checks.check()
        if is_prepared and corpus.service and isinstance(error, STREAM_LOST):
            raise OSError(
                f"data service {corpus.service}: it has lost this training's stream, as after a "
                "restart; run the same command again to resume from the newest checkpoint"
            ) from error
        raise

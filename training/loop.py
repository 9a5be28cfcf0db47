"""The training loop: calls of Keras' `fit`, with an epoch from checkpoint to checkpoint."""

import contextlib
import dataclasses
import math
import pathlib
import signal
from collections.abc import Sequence

import keras
import tensorflow as tf

from tf_transformer.storage.model_dir import WEIGHTS_NAME
from training.callbacks.callbacks import (
    SaveCheckpoints,
    StopAtStep,
    StopOnCallback,
    StopOnSignal,
    ValidateAverage,
    WatchTexts,
    current_step,
    write_trained_weights,
)
from training.callbacks.monitoring import Report
from training.callbacks.profiling import Profile
from training.callbacks.tensorboard_log import TensorBoardLog
from training.callbacks.validation import Validation, describe_run
from training.checkpointing.checkpoints import Checkpoints
from training.checkpointing.run_files import LOGS_NAME
from training.config import TrainingConfig
from training.data.augmentation import augment
from training.data.pipeline import ParallelText
from training.distributed.workers import Workers
from training.prepared.data_service import STREAM_LOST, service_watched
from training.prepared.prepared import PreparedText
from training.train_step import TrainedLanguageModel, TrainedTransformer


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """How a training run ended.

    Args:
        step: optimizer updates done in all.
        stopped_by: the signal that ended it early, or None.
        is_chief: whether this process wrote the model, see `Workers`.
        early_stop: why it ended early otherwise, with the model no longer becoming better or by a
            callback, or None.
    """

    step: int
    stopped_by: signal.Signals | None
    is_chief: bool
    early_stop: str | None = None


def run_loop(
    model: TrainedTransformer | TrainedLanguageModel,
    config: TrainingConfig,
    corpus: ParallelText | PreparedText,
    validation: ParallelText,
    model_dir: pathlib.Path,
    checkpoints: Checkpoints,
    workers: Workers,
    profile: tuple[int, int] | None,
    callers: Sequence[keras.callbacks.Callback] = (),
) -> TrainingResult:
    """Trains to the last step, an early stop or a signal.

    Args:
        model: as a checkpoint or the run's begin has left it.
        config: settings of the run.
        corpus, validation: texts to train and to judge with.
        model_dir, checkpoints: where the model is written.
        workers: that train together.
        profile: first and last step that TensorBoard gets a profile of.
        callers: callbacks of the caller's, see `train`.

    Raises:
        ValueError: a text has changed, or no update is finite.
    """
    watch = None if isinstance(corpus, PreparedText) else corpus.watch
    texts = WatchTexts([watch for watch in (watch, validation.watch) if watch is not None])
    validation_batches = workers.shares(_countable(validation.batches()))
    log = TensorBoardLog(model_dir / LOGS_NAME if workers.is_chief else None, current_step(model))
    with StopOnSignal(workers) as stop, contextlib.ExitStack() as at_the_end:
        judge = Validation(
            corpus=validation,
            batches=validation_batches,
            config=config,
            model_dir=model_dir,
            log=log,
            workers=workers,
            stop=stop,
        )
        asked = StopOnCallback(workers)
        callbacks = [
            texts,
            *([*callers, asked] if callers else []),
            StopAtStep(config.optimization.steps),
            stop,
            Report(log, config.validation.report_every),
            *([SaveCheckpoints(model_dir, checkpoints, watch)] if workers.is_chief else []),
            ValidateAverage(),
            judge,
        ]
        if isinstance(corpus, PreparedText) and corpus.service:
            at_the_end.enter_context(service_watched(corpus.service))
        if workers.is_chief:
            if profile is not None:
                capture = Profile(model_dir / LOGS_NAME / "training", *profile)
                callbacks.append(at_the_end.enter_context(contextlib.closing(capture)))
            describe_run(log, config, model, model_dir)
        judge.begin(model)
        # What ends the loop is the same for all workers, who must call `fit` together.
        while (
            current_step(model) < config.optimization.steps
            and not judge.early_stop
            and not stop.agree()
            and not (callers and asked.agree())
        ):
            with _damage_named(corpus, texts):
                _fit(model, config, corpus, validation, validation_batches, workers, callbacks)
    if workers.is_chief and current_step(model) and not (model_dir / WEIGHTS_NAME).exists():
        write_trained_weights(model_dir, model)
    workers.wait()  # the chief may still be writing
    early_stop = judge.early_stop or (None if stop.agreed else "a callback has stopped it")
    if current_step(model) >= config.optimization.steps:
        early_stop = None
    return TrainingResult(current_step(model), stop.agreed, workers.is_chief, early_stop)


def _fit(model, config, corpus, validation, validation_batches, workers, callbacks):
    """One call of `fit`.

    After a stop between two checkpoints, the first call only catches up with the next multiple of
    `checkpoint_every`, so that checkpoints lie at the same steps as without the stop.
    """
    optimization, step = config.optimization, current_step(model)
    every = optimization.checkpoint_every
    behind = step % every
    batches = augment(
        corpus.training_batches(optimization.seed, step),
        config.data,
        validation.source_tokenizer,
        validation.target_tokenizer,
        optimization.seed,
        step,
    )
    model.fit(
        workers.shares(batches.prefetch(tf.data.AUTOTUNE)),
        validation_data=validation_batches,
        steps_per_epoch=every - behind,
        initial_epoch=step // every,
        epochs=step // every + 1 if behind else math.ceil(optimization.steps / every),
        callbacks=callbacks,
        verbose=0,  # its progress bar would wait for every step
        shuffle=False,
    )


def _countable(batches: tf.data.Dataset) -> tf.data.Dataset:
    """A dataset of unknown cardinality makes `fit` warn that it ended."""
    number = sum(1 for _ in batches)
    return batches.apply(tf.data.experimental.assert_cardinality(number))


@contextlib.contextmanager
def _damage_named(corpus, texts):
    """TensorFlow's errors over files do not say, in one line, which one they are about.

    It puts the bytes of a record that it cannot parse into its message, whether they are UTF-8 or
    not.
    """
    try:
        yield
    except (tf.errors.OpError, UnicodeDecodeError) as error:
        is_prepared = isinstance(corpus, PreparedText)
        if is_prepared:
            corpus.check_digests()
            corpus.check_records()
        texts.check()
        if is_prepared and corpus.service and isinstance(error, STREAM_LOST):
            raise OSError(
                f"data service {corpus.service}: it has lost this training's stream, as when it is "
                "started again; run the same command again: training goes on from the newest "
                "checkpoint"
            ) from error
        raise

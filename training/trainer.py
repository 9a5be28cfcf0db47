"""Training as a recipe: check the run, begin it, build the model, restore it, fit."""

import contextlib
import logging
import os
import pathlib
import shutil
from collections.abc import Iterator, Sequence

import keras
import tensorflow as tf

from tf_transformer.errors import InputError
from tf_transformer.known_names import suggest_arguments
from tf_transformer.storage.files import locked
from tf_transformer.storage.model_dir import CONFIG_NAME, read_tokenizers, read_weights
from training.backup.backup import Backup
from training.callbacks.callbacks import current_step
from training.callbacks.user_callbacks import check_callbacks
from training.checkpointing.checkpoint_files import checkpoint_directory
from training.checkpointing.checkpoints import Checkpoints
from training.checkpointing.run_files import check_run_files
from training.checkpointing.run_metadata import check_same_run, start_or_resume
from training.checkpointing.validation_history import read_validation_scores
from training.config import TrainingConfig
from training.data.corpus_report import report_corpus
from training.data.pipeline import ParallelText
from training.data.text_pair import TextPair
from training.description import Description, vocab_sizes
from training.distributed.strategy import make_strategy
from training.distributed.workers import Workers
from training.fine_tuning import INITIAL_NAME, describe_coverage
from training.loop import TrainingLoop, TrainingResult
from training.model import build_model, set_word_vectors
from training.prepared.prepared_corpus import PreparedCorpus
from training.prepared.prepared_text import PreparedText
from training.run import ALL_DEVICES, NEW, Devices, Start, TrainingRun
from training.settings import config_to_dict, make_config
from training.trained_weights import DRAFT_HEADS

_log = logging.getLogger(__name__)


@suggest_arguments
def train(
    config: TrainingConfig,
    *,
    corpus: TextPair | PreparedCorpus,
    validation: TextPair,
    model_dir: str | os.PathLike,
    start: Start = NEW,
    devices: Devices = ALL_DEVICES,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    backup: str | None = None,
    profile: tuple[int, int] | None = None,
) -> TrainingResult:
    """Trains a model, or resumes an earlier call with the same arguments.

        train(
            make_config({"preset": "tiny"}),
            corpus=TextPair("train.en", "train.de"),
            validation=TextPair("validation.en", "validation.de"),
            model_dir="model",
        )

    Sets the random seeds of Python, NumPy and TensorFlow, and handles signals if called in the main
    thread, see `StopOnSignal`.

    Keras calls `callbacks` as it does in `Model.fit`; an epoch lasts from checkpoint to checkpoint.
    They are called after the optimizer's step and before the checkpoint is saved, and get the
    validation results at the end of an epoch. A callback that sets `model.stop_training` ends
    training cleanly: the model is saved and validated, and the same call resumes. Callbacks may
    read everything but must not change weights or optimizer, since a resumed run would not know.

    Args:
        config: all settings.
        corpus: the training corpus. With a prepared one, its vocabulary and the settings of its
            vocabulary are used.
        validation: the validation set, used at each checkpoint.
        model_dir: the folder for everything that is written. Several workers share it.
        start: what weights and vocabulary start from; by default, both are new.
        devices: the devices that train.
        callbacks: the caller's own callbacks. Each of several workers calls its own; either all
            workers have some or none. Models saved by `ModelCheckpoint` can be loaded with
            `keras.models.load_model` after `import tf_transformer`. Keras callbacks that change
            weights or learning rate are refused.
        backup: URL of a copy of `model_dir` on object storage, see `Backup`. It is written after
            each checkpoint, and restored first if its newest checkpoint is newer than that of
            `model_dir`. Of several workers, the chief reads and writes it.
        profile: the first and the last step, counted from 1, of a profile for TensorBoard.

    Returns:
        How training ended; `early_stop` is set if a callback ended it.

    Raises:
        InputError: an argument or the corpus is faulty, or `model_dir` or `backup` belongs to
            another run.
        OSError: the backup cannot be read or written when training starts, or written when it ends.
    """
    callbacks = check_callbacks(callbacks)
    run = TrainingRun(
        config=make_config(config_to_dict(config)),  # it may have been constructed unchecked
        model_dir=pathlib.Path(model_dir),
        corpus=corpus,
        validation=validation,
        start=start,
        devices=devices,
        backup=backup,
        profile=profile,
    )
    return train_run(run.check(), callbacks)


def train_run(
    run: TrainingRun, callbacks: Sequence[keras.callbacks.Callback] = ()
) -> TrainingResult:
    """Trains a run that has been checked, see `train`."""
    trainer = Trainer(run)
    run.check_texts()
    with trainer.begin():
        trainer.build()
        trainer.restore()
        return trainer.fit(callbacks)


class Trainer:
    """The steps of a training, in order: `begin`, `build`, `restore`, `fit`.

    Sets the random seeds, and makes the distribution strategy.

    Args:
        run: the run, checked.

    Raises:
        InputError: the devices are not there, or Keras would end `fit` early.
    """

    def __init__(self, run: TrainingRun):
        _check_keras()
        self._run = run
        self._strategy = make_strategy(run.devices.strategy, run.devices.number)
        self._workers = Workers(self._strategy)
        if not self._workers.is_chief:
            logging.getLogger("training").setLevel(logging.WARNING)  # only the chief reports
        if run.devices.deterministic:
            tf.config.experimental.enable_op_determinism()
        # Before tokenizers exist, see Tokenizer.
        keras.utils.set_random_seed(run.config.optimization.seed)
        self._backup: Backup | None = None
        if run.backup and self._workers.is_chief:
            self._backup = Backup(run.backup, run.model_dir)

    @contextlib.contextmanager
    def begin(self) -> Iterator[None]:
        """Locks the model directory, and describes the run in it unless it is there already.

        With a backup, restores it first if it is newer, and uploads the model directory at the end.
        """
        run, workers = self._run, self._workers
        with contextlib.ExitStack() as stack:
            stack.enter_context(workers.lost_workers_explained())
            if workers.is_chief:
                stack.enter_context(self._begin_as_chief())
            workers.wait()
            if not workers.is_chief:
                check_same_run(run.model_dir, run.fingerprint(), changeable=frozenset())
            yield

    @contextlib.contextmanager
    def _begin_as_chief(self):
        run, backup = self._run, self._backup
        description = Description(run)
        if not (run.model_dir / CONFIG_NAME).exists() and not backup:
            _ = description.models  # fails before anything is written if the corpus is too small
        run.model_dir.mkdir(parents=True, exist_ok=True)
        with locked(run.model_dir, "training this model"):
            check_run_files(run.model_dir)  # again: another process may have written since
            if backup:
                backup.restore(run.fingerprint())
            start_or_resume(run.model_dir, run.fingerprint(), description.write)
            if backup:
                backup.claim()
            with backup.kept() if backup else contextlib.nullcontext():
                yield

    def build(self) -> None:
        """Tokenizes the corpus, and builds the model in the model directory that describes it."""
        run = self._run
        self._tokenizers = read_tokenizers(run.model_dir)
        self._corpus = self._tokenized_corpus()
        self._validation = run.validation.tokenized(self._tokenizers, run.config.data)
        if self._workers.is_chief:
            if isinstance(self._corpus, PreparedText):
                _log.info("training corpus: %s prepared pairs", f"{self._corpus.num_pairs:,}")
            else:
                report_corpus("training", self._corpus)
            report_corpus("validation", self._validation)
        if run.config.is_language_model:
            _log.info("There is no source: this trains a language model of the target.")
        _log.info("building the model")
        sizes = vocab_sizes(self._tokenizers)
        with self._strategy.scope():
            self._model = build_model(run.config, *sizes, is_guided=run.is_guided)
        self._checkpoints = Checkpoints(
            run.model_dir,
            self._model,
            keep=run.config.optimization.keep_checkpoints,
            every=run.config.optimization.checkpoint_every,
            is_writer=self._workers.is_chief,
        )

    def _tokenized_corpus(self) -> ParallelText | PreparedText:
        corpus, config = self._run.corpus, self._run.config.data
        if isinstance(corpus, PreparedCorpus):
            return PreparedText(corpus.folders, config, corpus.service)
        return corpus.tokenized(self._tokenizers, config)

    def restore(self) -> None:
        """Restores the newest checkpoint; without one, sets the weights before the first step.

        Raises:
            InputError: the checkpoints of the run are gone, or the vectors do not suit the
                vocabulary.
        """
        self._workers.wait()
        if self._checkpoints.restore():
            _log.info("Resuming from step %s", f"{current_step(self._model):,}")
            return
        run, model = self._run, self._model
        self._check_nothing_lost()
        coverage = ""
        if (run.init_from or run.start.vocabulary) and isinstance(self._corpus, ParallelText):
            coverage = describe_coverage(self._corpus)
        if run.init_from:
            read_weights(run.model_dir / INITIAL_NAME, model, but=DRAFT_HEADS)
            _log.info("Starting from %s%s", run.init_from, coverage and f": {coverage}")
        else:
            if run.start.vocabulary:
                _log.info("vocabulary of %s: %s", run.start.vocabulary, coverage)
            set_word_vectors(model, run.config.vocabulary, *self._tokenizers)
        model.optimizer.reset_averages(model.trainable_variables)

    def _check_nothing_lost(self):
        """Refuses a run whose checkpoints are gone; validation scores show that it had some."""
        model_dir = self._run.model_dir
        if scores := read_validation_scores(model_dir):
            raise InputError(
                f"{checkpoint_directory(model_dir)}: the checkpoints are missing although "
                f"training reached step {scores[-1]['step']}; restore them, or give another "
                "--model-dir"
            )

    def fit(self, callbacks: Sequence[keras.callbacks.Callback] = ()) -> TrainingResult:
        """Trains until the last step, an early stop or a signal.

        Args:
            callbacks: the caller's own callbacks.
        """
        run = self._run
        loop = TrainingLoop(
            self._model,
            run.config,
            self._corpus,
            self._validation,
            run.model_dir,
            self._checkpoints,
            self._workers,
        )
        result = loop.run(callbacks, self._backup, run.profile)
        if self._workers.is_chief and result.step:  # there is a checkpoint
            shutil.rmtree(run.model_dir / INITIAL_NAME, ignore_errors=True)
        return result


def _check_keras():
    """Refuses limits that would end `fit` early, or validate on a part of the data."""
    for name in ("max_epochs", "max_steps_per_epoch"):
        if limit := getattr(keras.config, name)():
            raise InputError(
                f"Keras is set to {name}={limit}; training counts `optimization.steps`. Unset the "
                f"environment variable KERAS_{name.upper()}, or call "
                f"`keras.config.set_{name}(None)`"
            )

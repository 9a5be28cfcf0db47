"""From a parallel corpus and settings to a trained model directory."""

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
from tf_transformer.storage.model_dir import CONFIG_NAME, read_tokenizers
from tf_transformer.text.text_file import TextFile
from training.backup.backup import Backup
from training.backup.object_store import check_backup_url
from training.callbacks.callbacks import current_step
from training.callbacks.user_callbacks import check_callbacks
from training.checkpointing.checkpoints import Checkpoints
from training.checkpointing.run_files import check_run_files
from training.checkpointing.run_metadata import (
    check_resumable,
    check_same_run,
    start_or_resume,
)
from training.config import TrainingConfig
from training.data.corpus_report import report_corpus
from training.data.text_pair import TextPair
from training.distributed.strategy import make_strategy
from training.distributed.workers import Workers
from training.early_checks import check_initial_model, check_noise, check_sources
from training.fine_tuning import INITIAL_NAME
from training.initial_model import build_model
from training.loop import TrainingResult, run_loop
from training.prepared.prepared_text import PreparedText
from training.settings import config_to_dict, make_config
from training.training_run import TrainingRun, vocab_sizes
from training.vocabulary_extension import read_pieces

_log = logging.getLogger(__name__)

Text = TextFile | str | os.PathLike


@suggest_arguments
def train(
    config: TrainingConfig,
    *,
    target: Text | None = None,
    validation_target: Text,
    source: Text | None = None,
    validation_source: Text | None = None,
    prepared: PreparedText | None = None,
    model_dir: str | os.PathLike,
    strategy: str = "auto",
    num_devices: int | None = None,
    deterministic: bool = False,
    profile: tuple[int, int] | None = None,
    init_from: str | os.PathLike | None = None,
    vocabulary: str | os.PathLike | None = None,
    add_pieces: str | os.PathLike | None = None,
    alignments: Text | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    backup: str | None = None,
) -> TrainingResult:
    """Trains a model, or resumes an earlier call with the same arguments.

    Sets the random seeds of Python, NumPy and TensorFlow, and handles signals if called in the main
    thread, see `StopOnSignal`.

    Keras calls `callbacks` as it does in `Model.fit`; an epoch lasts from checkpoint to checkpoint.
    They are called after the optimizer's step and before the checkpoint is saved, and get the
    validation results at the end of an epoch. A callback that sets `model.stop_training` ends
    training cleanly: the model is saved and validated, and the same call resumes. Callbacks may
    read everything but must not change weights or optimizer, since a resumed run would not know.

    Args:
        config: all settings.
        target: the target side of the training corpus. A name is parsed by `TextFile.parse`; of a
            TSV file, the target is column 2 and the source column 1.
        validation_target: the target side of the validation set, used at each checkpoint.
        source: the source side of the training corpus; a language model has none.
        validation_source: the source side of the validation set.
        prepared: a prepared training corpus in place of `source` and `target`; its vocabulary and
            the settings of its vocabulary are used.
        model_dir: the folder for everything that is written. Several workers share it.
        strategy: see `make_strategy`.
        num_devices: see `make_strategy`.
        deterministic: makes equal calls give bit-identical weights, interrupted or not; slower.
        profile: the first and the last step, counted from 1, of a profile for TensorBoard.
        init_from: a model whose vocabulary and weights training starts from; make `config` with
            `config_like`.
        vocabulary: the path of an existing vocabulary, see `read_vocabulary`. None trains one,
            unless `prepared` or `init_from` has one.
        add_pieces: a file of pieces to add to the vocabulary of `init_from`, see `read_pieces`;
            give them to `config_like` as well.
        alignments: word alignments of `source` and `target` in Pharaoh's format, a line for each
            pair; a head of the cross-attention learns them, see `losses/guided_alignment.py`.
        callbacks: the caller's own callbacks. Each of several workers calls its own; either all
            workers have some or none. Models saved by `ModelCheckpoint` can be loaded with
            `keras.models.load_model` after `import tf_transformer`. Keras callbacks that change
            weights or learning rate are refused.
        backup: URL of a copy of `model_dir` on object storage, see `Backup`. It is written after
            each checkpoint, and restored first if its newest checkpoint is newer than that of
            `model_dir`. Of several workers, the chief reads and writes it.

    Returns:
        How training ended; `early_stop` is set if a callback ended it.

    Raises:
        InputError: an argument or the corpus is faulty, or `model_dir` or `backup` belongs to
            another run.
        OSError: the backup cannot be read or written when training starts, or written when it ends.
    """
    run = TrainingRun(
        model_dir=pathlib.Path(model_dir),
        config=make_config(config_to_dict(config)),  # it may have been constructed unchecked
        corpus=_training_corpus(source, target, prepared, alignments),
        validation=TextPair(_text_file(validation_source, 1), _text_file(validation_target, 2)),
        init_from=pathlib.Path(init_from) if init_from else None,
        vocabulary=pathlib.Path(vocabulary) if vocabulary else None,
        added_pieces=tuple(read_pieces(pathlib.Path(add_pieces))) if add_pieces else (),
    )
    callbacks = check_callbacks(callbacks)
    if backup is not None:
        check_backup_url(backup)
    _check_keras()
    run = _checked(run)
    distribution = make_strategy(strategy, num_devices)
    workers = Workers(distribution)
    if not workers.is_chief:
        logging.getLogger("training").setLevel(logging.WARNING)  # only the chief reports
    if deterministic:
        tf.config.experimental.enable_op_determinism()
    # Before tokenizers exist, see Tokenizer.
    keras.utils.set_random_seed(run.config.optimization.seed)
    run.check_texts()
    with contextlib.ExitStack() as stack:
        stack.enter_context(workers.lost_workers_explained())
        copies = Backup(backup, run.model_dir) if backup and workers.is_chief else None
        if workers.is_chief:
            stack.enter_context(_begun(run, copies))
        workers.wait()
        if not workers.is_chief:
            check_same_run(run.model_dir, run.fingerprint(), changeable=frozenset())
        result = _train(run, distribution, workers, profile, callbacks, copies)
        if workers.is_chief and result.step:  # there is a checkpoint
            shutil.rmtree(run.model_dir / INITIAL_NAME, ignore_errors=True)
        return result


def _training_corpus(source, target, prepared, alignments) -> TextPair | PreparedText:
    if (target is None) == (prepared is None) or (prepared and source):
        raise InputError("expected either `target`, with its `source`, or `prepared`")
    if prepared:
        if alignments:
            raise InputError(
                "`alignments` are of `source` and `target`; `prepared` cannot have any"
            )
        return prepared
    return TextPair(_text_file(source, 1), _text_file(target, 2), _text_file(alignments, 1))


def _text_file(given, column):
    return given if given is None or isinstance(given, TextFile) else TextFile.parse(given, column)


def _check_keras():
    """Refuses limits that would end `fit` early, or validate on a part of the data."""
    for name in ("max_epochs", "max_steps_per_epoch"):
        if limit := getattr(keras.config, name)():
            raise InputError(
                f"Keras is set to {name}={limit}; training counts `optimization.steps`. Unset the "
                f"environment variable KERAS_{name.upper()}, or call "
                f"`keras.config.set_{name}(None)`"
            )


def _checked(run: TrainingRun) -> TrainingRun:
    """Returns the run with the settings of its vocabulary, after checks that read no corpus."""
    if os.path.lexists(run.model_dir) and not run.model_dir.is_dir():
        raise InputError(
            f"{run.model_dir}: expected a folder, or a name that is free, for the model"
        )
    check_sources(run.config, run.corpus.has_source, run.validation.has_source)
    run = run.with_alignment_head()
    if run.config.data.curriculum and not isinstance(run.corpus, PreparedText):
        raise InputError("'data.curriculum' has the shares of prepared folders; give --prepared")
    check_noise(run.config, isinstance(run.corpus, PreparedText), run.is_guided)
    run = run.with_existing_vocabulary()
    check_initial_model(run.model_dir, run.init_from, run.config)
    check_resumable(run.model_dir, run.config, run.init_from)
    return run


@contextlib.contextmanager
def _begun(run: TrainingRun, backup: Backup | None) -> Iterator[None]:
    """Locks the model directory, and describes the run in it unless it is there already.

    With a backup, restores it first if it is newer, and uploads the model directory at the end.
    """
    if not (run.model_dir / CONFIG_NAME).exists() and not backup:
        _ = run.models  # fails before anything is written if the corpus is too small
    run.model_dir.mkdir(parents=True, exist_ok=True)
    with locked(run.model_dir, "training this model"):
        check_run_files(run.model_dir)
        if backup:
            backup.restore(run.fingerprint())
        start_or_resume(run.model_dir, run.fingerprint(), run.write_description)
        if backup:
            backup.claim()
        with backup.kept() if backup else contextlib.nullcontext():
            yield


def _train(
    run: TrainingRun,
    distribution: tf.distribute.Strategy,
    workers: Workers,
    profile: tuple[int, int] | None,
    callbacks: Sequence[keras.callbacks.Callback],
    backup: Backup | None,
) -> TrainingResult:
    """Trains in a model directory that describes the run, from its newest checkpoint if any."""
    tokenizers = read_tokenizers(run.model_dir)
    corpus, validation = run.tokenized(tokenizers)
    if workers.is_chief:
        if isinstance(corpus, PreparedText):
            _log.info("training corpus: %s prepared pairs", f"{corpus.num_pairs:,}")
        else:
            report_corpus("training", corpus)
        report_corpus("validation", validation)
    if run.config.is_language_model:
        _log.info("There is no source: this trains a language model of the target.")
    _log.info("building the model")
    with distribution.scope():
        model = build_model(run.config, *vocab_sizes(tokenizers), is_guided=run.is_guided)
    checkpoints = Checkpoints(
        run.model_dir,
        model,
        keep=run.config.optimization.keep_checkpoints,
        every=run.config.optimization.checkpoint_every,
        is_writer=workers.is_chief,
    )
    workers.wait()
    if checkpoints.restore():
        _log.info("Resuming from step %s", f"{current_step(model):,}")
    else:
        run.initialize(model, corpus, tokenizers)
    return run_loop(
        model,
        run.config,
        corpus,
        validation,
        run.model_dir,
        checkpoints,
        workers,
        profile,
        callbacks,
        backup,
    )

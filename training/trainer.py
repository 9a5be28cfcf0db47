"""From a parallel corpus and settings to a trained model directory."""

import contextlib
import functools
import logging
import os
import pathlib
import shutil
from collections.abc import Sequence

import keras
import tensorflow as tf

from tf_transformer.errors import InputError
from tf_transformer.storage.files import locked
from tf_transformer.storage.model_dir import (
    CONFIG_NAME,
    describe_model,
    read_tokenizers,
    read_weights,
)
from tf_transformer.text.language_tags import check_tags
from tf_transformer.text.text_file import TextFile
from tf_transformer.text.tokenizer import Tokenizer
from training.callbacks.callbacks import current_step
from training.callbacks.own_callbacks import check_callbacks
from training.checkpointing.checkpoint_files import checkpoint_directory
from training.checkpointing.checkpoints import Checkpoints
from training.checkpointing.run_files import check_run_files
from training.checkpointing.run_metadata import (
    begin_or_continue,
    check_continuation,
    check_same_run,
    describe_training,
)
from training.checkpointing.validation_history import read_validation_scores
from training.config import TrainingConfig
from training.data.change_detection import ChangeDetector
from training.data.corpus_report import report_corpus
from training.data.pipeline import ParallelText
from training.data.vocabulary import train_vocabularies
from training.distributed.strategy import make_strategy
from training.distributed.workers import Workers
from training.early_checks import check_initial_model, check_sources
from training.fine_tuning import INITIAL_NAME, copy_weights, describe_coverage
from training.initial_model import build_model, set_word_vectors
from training.loop import TrainingResult, run_loop
from training.prepared.existing_vocabulary import vocabulary_for, with_vocabulary
from training.prepared.prepared import PreparedText
from training.settings import config_to_dict, make_config

_log = logging.getLogger(__name__)

Text = TextFile | str | os.PathLike


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
    callbacks: Sequence[keras.callbacks.Callback] = (),
) -> TrainingResult:
    """Trains a model, or goes on where an earlier call with the same arguments stopped.

    It sets Python's, NumPy's and TensorFlow's random seeds, and takes signals while it runs in a
    main thread, see `StopOnSignal`.

    Keras calls `callbacks` as it does in `Model.fit`; an epoch lasts from checkpoint to checkpoint.
    They come after the optimizer's step and before its checkpoint is saved, and at an epoch's end
    get the validation's results. One that sets `stop_training` of the model ends training in order:
    what is done is saved and validated, and the same call goes on. They may read everything, and
    must change neither weights nor optimizer: a run that goes on would not know.

    Args:
        config: all settings.
        source, target: the training corpus; a language model has no source. A name is read as
            `TextFile.parse` does: of a TSV file, the source is column 1 and the target column 2.
        prepared: the training corpus in place of them; it brings its vocabulary, and the settings
            of that.
        validation_source, validation_target: read after each checkpoint.
        model_dir: where everything is written. Several workers need a folder that all can read.
        strategy, num_devices: see `make_strategy`.
        deterministic: the same call gives the same weights, bit for bit, stopped or not; slower.
        profile: the first and the last step that TensorBoard gets a profile of, counted from 1.
        init_from: a model whose vocabulary and weights training starts from; `config` is of
            `config_like`.
        vocabulary: what `read_vocabulary` reads; its vocabulary, and the settings of that, are
            taken. None trains one, unless `prepared` or `init_from` brings one.
        callbacks: of one's own. Each of several workers calls its own; all have some, or none.
            `ModelCheckpoint` saves models that `keras.models.load_model` reads wherever
            `tf_transformer` is imported; Keras' callbacks that change weights or learning rate are
            refused.

    Returns:
        How it ended; `early_stop` says so where a callback ended it.

    Raises:
        ValueError: an argument or the corpus is faulty, or `model_dir` belongs to another run.
    """
    config = make_config(config_to_dict(config))  # which may have been made without any checks
    model_dir = pathlib.Path(model_dir)
    init_from = init_from and pathlib.Path(init_from)
    source, validation_source = (_text(name, 1) for name in (source, validation_source))
    target, validation_target = (_text(name, 2) for name in (target, validation_target))
    _check_keras()
    callbacks = check_callbacks(callbacks)
    if os.path.lexists(model_dir) and not model_dir.is_dir():
        raise InputError(f"{model_dir}: expected a folder, or a name that is free, for the model")
    if (target is None) == (prepared is None) or (prepared and source):
        raise InputError("expected either `target`, with its `source`, or `prepared`")
    if vocabulary and (prepared or init_from):
        raise InputError(
            "`prepared` and `init_from` bring their vocabulary; leave out `vocabulary`"
        )
    has_source = prepared.has_source if prepared else source is not None
    check_sources(config, has_source, validation_source is not None)
    if config.is_language_model:
        _log.info("There is no source: this trains a language model of the target.")
    models = None
    if vocabulary:
        own, models = vocabulary_for(pathlib.Path(vocabulary), has_source=source is not None)
        config = with_vocabulary(config, own)
    elif prepared and not init_from:
        config = with_vocabulary(config, prepared.vocabulary)
    check_initial_model(model_dir, init_from)
    check_continuation(model_dir, config, init_from)
    devices = make_strategy(strategy, num_devices)
    workers = Workers(devices)
    if deterministic:
        tf.config.experimental.enable_op_determinism()
    keras.utils.set_random_seed(config.optimization.seed)  # before tokenizers exist, see Tokenizer
    watch = None if prepared else ChangeDetector(source, target)
    validation_watch = ChangeDetector(validation_source, validation_target)
    for file in (source, validation_source):
        if file:
            check_tags(file.lines(), config.vocabulary.languages, str(file))
    run = describe_training(config, (prepared or watch).digest, init_from, models)

    @functools.cache
    def vocabularies():
        return models or _vocabularies(config, source, target, prepared, init_from)

    def begin():
        if prepared:
            prepared.check_digests()
        chosen = vocabularies()
        if init_from:
            # It may change before the first checkpoint.
            copy_weights(init_from, model_dir / INITIAL_NAME)
        sizes = [model and Tokenizer(model).vocab_size for model in chosen]
        describe_model(model_dir, config.transformer_config(*sizes), *chosen)

    if not workers.is_chief:
        logging.getLogger("training").setLevel(logging.WARNING)  # the chief speaks for all
    with contextlib.ExitStack() as stack:
        stack.enter_context(workers.losses_explained())
        if workers.is_chief:
            if not (model_dir / CONFIG_NAME).exists():
                vocabularies()  # which the corpus may not fill, before anything is written
            model_dir.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(model_dir, "training this model"))
            check_run_files(model_dir)
            begin_or_continue(model_dir, run, begin)
        workers.wait()
        if not workers.is_chief:
            check_same_run(model_dir, run, free=frozenset())
        tokenizers = read_tokenizers(model_dir)
        corpus = prepared or ParallelText(source, target, *tokenizers, config.data, watch)
        validation = ParallelText(
            validation_source,
            validation_target,
            *tokenizers,
            config.data,
            validation_watch,
        )
        if prepared:
            _log.info("training corpus: %s prepared pairs", f"{prepared.num_pairs:,}")
        elif workers.is_chief:
            report_corpus("training", corpus)
        if workers.is_chief:
            report_corpus("validation", validation)
        with devices.scope():
            model = build_model(
                config, *(tokenizer and tokenizer.vocab_size for tokenizer in tokenizers)
            )
        checkpoints = Checkpoints(
            model_dir,
            model,
            keep=config.optimization.keep_checkpoints,
            every=config.optimization.checkpoint_every,
            is_writer=workers.is_chief,
        )
        workers.wait()
        if checkpoints.restore():
            _log.info("Going on from step %s", f"{current_step(model):,}")
        else:
            _check_nothing_lost(model_dir)
            if init_from:
                read_weights(model_dir / INITIAL_NAME, model)
                covered = "" if prepared else f": {describe_coverage(corpus)}"
                _log.info("Starting from %s%s", init_from, covered)
            else:
                if vocabulary:
                    _log.info("vocabulary of %s: %s", vocabulary, describe_coverage(corpus))
                set_word_vectors(model, config.vocabulary, *tokenizers)
            model.optimizer.reset_averages(model.trainable_variables)
        result = run_loop(
            model, config, corpus, validation, model_dir, checkpoints, workers, profile, callbacks
        )
        if workers.is_chief and result.step:  # there is a checkpoint
            shutil.rmtree(model_dir / INITIAL_NAME, ignore_errors=True)
        return result


def _text(given, column):
    return given if given is None or isinstance(given, TextFile) else TextFile.parse(given, column)


def _check_keras():
    """`fit` would end early, again and again, or validate on a part of the data."""
    for name in ("max_epochs", "max_steps_per_epoch"):
        if limit := getattr(keras.config, name)():
            raise InputError(
                f"Keras is set to {name}={limit}; training counts `optimization.steps`. Unset the "
                f"environment variable KERAS_{name.upper()}, or call "
                f"`keras.config.set_{name}(None)`"
            )


def _check_nothing_lost(model_dir):
    """A run without checkpoints begins; one that was judged had some."""
    if scores := read_validation_scores(model_dir):
        raise InputError(
            f"{checkpoint_directory(model_dir)}: there is no checkpoint, though training got to "
            f"step {scores[-1]['step']}; put them back, or give another --model-dir"
        )


def _vocabularies(config, source, target, prepared, init_from):
    """The SentencePiece models of both sides that a new run uses."""
    if init_from:
        models = [tokenizer and tokenizer.model for tokenizer in read_tokenizers(init_from)]
        if prepared and list(prepared.models) != models:
            raise InputError(
                f"the corpus is not prepared with the vocabulary of {init_from}; "
                f"prepare it with --vocabulary {init_from}"
            )
        return models
    if prepared:
        return prepared.models
    return train_vocabularies([source] if source else [], [target], config.vocabulary)

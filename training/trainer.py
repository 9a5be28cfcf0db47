"""From a parallel corpus and settings to a trained model directory."""

import contextlib
import dataclasses
import logging
import math
import pathlib
import shutil
import signal

import keras
import tensorflow as tf

from tf_transformer.files import locked
from tf_transformer.language_tags import check_tags
from tf_transformer.model_dir import (
    WEIGHTS_NAME,
    describe_model,
    read_tokenizers,
    read_weights,
)
from tf_transformer.tokenizer import Tokenizer
from training.augmentation import augment
from training.callbacks import (
    SaveCheckpoints,
    StopAtStep,
    StopOnSignal,
    ValidateAverage,
    WatchFiles,
    current_step,
    write_trained_weights,
)
from training.checkpoints import Checkpoints, checkpoint_directory
from training.compiled_model import compiled_model, give_vectors
from training.config import TrainingConfig
from training.corpus import TextFile, check_parallel, digest
from training.corpus_report import report_corpus
from training.data_service import service_watched
from training.fine_tuning import INITIAL_NAME, copy_weights, describe_fit
from training.memory import keep_memory
from training.monitoring import Report
from training.pipeline import ParallelText
from training.prepared import PreparedText
from training.profiling import Profile
from training.run_directory import begin_or_continue, check_same_run, describe_training
from training.strategy import make_strategy
from training.tensorboard_log import TensorBoardLog
from training.trained_model import TrainedLanguageModel, TrainedTransformer
from training.validation import Validation, describe_run
from training.validation_scores import read_validation_scores
from training.vocabulary import train_vocabularies
from training.workers import Workers

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """How a training run ended.

    Args:
        step: optimizer updates done in all.
        stopped_by: the signal that ended it early, or None.
        is_chief: whether this process wrote the model, see `Workers`.
        early_stop: why it ended early with the model no longer becoming better, or None.
    """

    step: int
    stopped_by: signal.Signals | None
    is_chief: bool
    early_stop: str | None = None


def train(
    config: TrainingConfig,
    *,
    target: TextFile | None = None,
    validation_target: TextFile,
    source: TextFile | None = None,
    validation_source: TextFile | None = None,
    prepared: PreparedText | None = None,
    model_dir: pathlib.Path,
    strategy: str = "auto",
    num_devices: int | None = None,
    deterministic: bool = False,
    profile: tuple[int, int] | None = None,
    init_from: pathlib.Path | None = None,
) -> TrainingResult:
    """Trains a model, or goes on where an earlier call with the same arguments stopped.

    Args:
        config: all settings.
        source, target: the training corpus; a language model has no source.
        prepared: the training corpus in place of them; it brings its vocabulary, and the settings
            of that.
        validation_source, validation_target: read after each checkpoint.
        model_dir: where everything is written. Several workers need a folder that all can read.
        strategy, num_devices: see `make_strategy`.
        deterministic: the same call gives the same weights, bit for bit, stopped or not; slower.
        profile: the first and the last step that TensorBoard gets a profile of, counted from 1.
        init_from: a model whose vocabulary and weights training starts from; `config` is of
            `config_like`.

    Raises:
        ValueError: the corpus is faulty, or `model_dir` belongs to another run.
    """
    _check_sources(config, prepared.has_source if prepared else source, validation_source)
    keep_memory()
    strategy = make_strategy(strategy, num_devices)
    workers = Workers(strategy)
    if deterministic:
        tf.config.experimental.enable_op_determinism()
    keras.utils.set_random_seed(config.optimization.seed)  # before tokenizers exist, see Tokenizer
    if not prepared:
        num_pairs = check_parallel(source or target, target)
    elif not init_from:
        config = _with_vocabulary(config, prepared)
    num_validation_pairs = check_parallel(validation_source or validation_target, validation_target)
    for file in (source, validation_source):
        if file:
            check_tags(file.lines(), config.vocabulary.languages, str(file))
    corpus_digest = prepared.digest if prepared else digest(source, target)
    run = describe_training(config, corpus_digest, init_from)

    def begin():
        models = _vocabularies(config, source, target, prepared, init_from)
        if init_from:
            # It may change before the first checkpoint.
            copy_weights(init_from, model_dir / INITIAL_NAME)
        sizes = [model and Tokenizer(model).vocab_size for model in models]
        describe_model(model_dir, config.transformer_config(*sizes), *models)

    if not workers.is_chief:
        logging.getLogger("training").setLevel(logging.WARNING)  # the chief speaks for all
    with contextlib.ExitStack() as stack:
        stack.enter_context(workers.losses_explained())
        if workers.is_chief:
            model_dir.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(model_dir, "training this model"))
            begin_or_continue(model_dir, run, begin)
        workers.wait()
        if not workers.is_chief:
            check_same_run(model_dir, run, free=frozenset())
        tokenizers = read_tokenizers(model_dir)
        corpus = prepared or ParallelText(source, target, *tokenizers, config.data)
        validation = ParallelText(validation_source, validation_target, *tokenizers, config.data)
        if prepared:
            _log.info("training corpus: %s prepared pairs", f"{prepared.num_pairs:,}")
        elif workers.is_chief:
            report_corpus("training", corpus, num_pairs)
        if workers.is_chief:
            report_corpus("validation", validation, num_validation_pairs)
        with strategy.scope():
            model = compiled_model(
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
        if not checkpoints.restore():
            _check_nothing_lost(model_dir)
            if init_from:
                read_weights(model_dir / INITIAL_NAME, model)
                covered = "" if prepared else f": {describe_fit(corpus)}"
                _log.info("Starting from %s%s", init_from, covered)
            give_vectors(model, config.vocabulary, *tokenizers)
            model.optimizer.restart_averages(model.trainable_variables)
        result = _fit(model, config, corpus, validation, model_dir, checkpoints, workers, profile)
        if workers.is_chief:
            shutil.rmtree(model_dir / INITIAL_NAME, ignore_errors=True)
        return result


def _check_nothing_lost(model_dir):
    """A run without checkpoints begins; one that was judged had some."""
    if scores := read_validation_scores(model_dir):
        raise ValueError(
            f"{checkpoint_directory(model_dir)}: there is no checkpoint, though training got to "
            f"step {scores[-1]['step']}; put them back, or give another --model-dir"
        )


def _check_sources(config, source, validation_source):
    for name, given in (("source", bool(source)), ("validation source", bool(validation_source))):
        if given == config.is_language_model:
            raise ValueError(
                f"a language model (model.decoder_only) has no {name}"
                if given
                else f"no {name} is given, which only a language model (model.decoder_only) lacks"
            )
    if config.is_language_model:
        _log.info("There is no source: this trains a language model of the target.")


def _vocabularies(config, source, target, prepared, init_from):
    """The SentencePiece models of both sides that a new run uses."""
    if init_from:
        models = [tokenizer and tokenizer.model for tokenizer in read_tokenizers(init_from)]
        if prepared and list(prepared.models) != models:
            raise ValueError(
                f"the corpus is not prepared with the vocabulary of {init_from}; "
                f"prepare it with --vocabulary {init_from}"
            )
        return models
    if prepared:
        return prepared.models
    return train_vocabularies(source, target, config.vocabulary)


def _fit(
    model: TrainedTransformer | TrainedLanguageModel,
    config: TrainingConfig,
    corpus: ParallelText | PreparedText,
    validation: ParallelText,
    model_dir: pathlib.Path,
    checkpoints: Checkpoints,
    workers: Workers,
    profile: tuple[int, int] | None,
) -> TrainingResult:
    """Calls `fit` with one epoch from checkpoint to checkpoint.

    After a stop between two checkpoints, the first call only catches up with the next multiple of
    `checkpoint_every`, so that checkpoints lie at the same steps as without the stop.
    """
    optimization = config.optimization
    every = optimization.checkpoint_every
    validation_batches = validation.batches()
    # A dataset of unknown cardinality makes `fit` warn that it ended.
    num_batches = sum(1 for _ in validation_batches)
    validation_batches = validation_batches.apply(
        tf.data.experimental.assert_cardinality(num_batches)
    )
    validation_batches = workers.shares(validation_batches)
    log = TensorBoardLog(model_dir / "logs" if workers.is_chief else None, current_step(model))
    judge = Validation(
        corpus=validation,
        batches=validation_batches,
        config=config,
        model_dir=model_dir,
        log=log,
        workers=workers,
    )
    with StopOnSignal(workers) as stop, contextlib.ExitStack() as at_the_end:
        if isinstance(corpus, PreparedText) and corpus.service:
            at_the_end.enter_context(service_watched(corpus.service))
        texts = WatchFiles(_texts(corpus) + _texts(validation))
        callbacks = [
            texts,
            StopAtStep(optimization.steps),
            stop,
            ValidateAverage(),
            Report(log, config.validation.report_every),
            *([SaveCheckpoints(model_dir, checkpoints)] if workers.is_chief else []),
            judge,
        ]
        if workers.is_chief:
            if profile is not None:
                capture = Profile(model_dir / "logs" / "training", *profile)
                callbacks.append(at_the_end.enter_context(contextlib.closing(capture)))
            describe_run(log, config, model, model_dir)
        judge.begin(model)
        # What ends the loop is the same for all workers, who must call `fit` together.
        while (
            (step := current_step(model)) < optimization.steps
            and not judge.early_stop
            and not stop.agree()
        ):
            behind = step % every
            batches = augment(
                corpus.training_batches(optimization.seed, step),
                config.data,
                validation.source_tokenizer,
                validation.target_tokenizer,
                optimization.seed,
                step,
            )
            with _damage_named(corpus, texts):
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
    if workers.is_chief and current_step(model) and not (model_dir / WEIGHTS_NAME).exists():
        write_trained_weights(model_dir, model)
    workers.wait()  # the chief may still be writing
    early_stop = judge.early_stop if current_step(model) < optimization.steps else None
    return TrainingResult(current_step(model), stop.agreed, workers.is_chief, early_stop)


@contextlib.contextmanager
def _damage_named(corpus, texts):
    """TensorFlow's errors over files do not say, in one line, which one they are about."""
    try:
        yield
    except tf.errors.OpError:
        if isinstance(corpus, PreparedText):
            corpus.check_shards()
        texts.check()
        raise


def _texts(corpus):
    if isinstance(corpus, PreparedText):
        return []
    return [file for file in (corpus.source, corpus.target) if file]


def _with_vocabulary(config: TrainingConfig, prepared: PreparedText) -> TrainingConfig:
    """The settings with those of the vocabulary that a prepared corpus brings."""
    vectors = {
        name: getattr(config.vocabulary, name) for name in ("source_vectors", "target_vectors")
    }
    return dataclasses.replace(
        config, vocabulary=dataclasses.replace(prepared.vocabulary, **vectors)
    )

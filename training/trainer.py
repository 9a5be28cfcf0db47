"""From a parallel corpus and settings to a trained model directory."""

import dataclasses
import json
import logging
import math
import pathlib
import signal
import sys

import keras
import tensorflow as tf

from tf_transformer.files import remove_leftovers, replacing
from tf_transformer.language_tags import check_tags
from tf_transformer.loss import LabelSmoothedCrossEntropy
from tf_transformer.metrics import Perplexity, SmoothedLoss, TokenAccuracy
from tf_transformer.model_dir import (
    CONFIG_NAME,
    WEIGHTS_NAME,
    describe_model,
    read_tokenizers,
    read_weights,
    write_weights,
)
from tf_transformer.schedule import NoamSchedule
from tf_transformer.tokenizer import Tokenizer
from training.adam import Adam
from training.callbacks import Report, SaveCheckpoints, StopAtStep, StopOnSignal, current_step
from training.checkpoints import Checkpoints
from training.config import (
    OptimizationConfig,
    TrainingConfig,
    VocabularyConfig,
    dump_config,
    make_config,
)
from training.corpus import TextFile, check_parallel, digest
from training.fine_tuning import copy_weights, describe_fit
from training.pipeline import ParallelText
from training.strategy import make_strategy
from training.trained_model import TrainedLanguageModel, TrainedTransformer
from training.vectors import read_vectors
from training.vocabulary import train_vocabularies

_log = logging.getLogger(__name__)

TRAINING_NAME = "training.json"

# What may change between two calls that train one model: none of it bears on a step's result.
_FREE_SETTINGS = {
    "optimization.steps",
    "optimization.checkpoint_every",
    "optimization.keep_checkpoints",
}


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """How a training run ended.

    Args:
        step: optimizer updates done in all.
        stopped_by: the signal that ended it early, or None.
    """

    step: int
    stopped_by: signal.Signals | None


def train(
    config: TrainingConfig,
    *,
    target: TextFile,
    validation_target: TextFile,
    source: TextFile | None = None,
    validation_source: TextFile | None = None,
    model_dir: pathlib.Path,
    num_devices: int | None = None,
    init_from: pathlib.Path | None = None,
) -> TrainingResult:
    """Trains a model, or goes on where an earlier call with the same arguments stopped.

    Args:
        config: all settings.
        source, target: the training corpus; a language model has no source.
        validation_source, validation_target: read after each checkpoint.
        model_dir: where everything is written.
        num_devices: see `make_strategy`.
        init_from: a model whose vocabulary and weights training starts from; `config` is of
            `config_like`.

    Raises:
        ValueError: the corpus is faulty, or `model_dir` belongs to another run.
    """
    for name, file in (("source", source), ("validation source", validation_source)):
        if (file is None) != config.is_language_model:
            raise ValueError(
                f"a language model (model.decoder_only) has no {name}"
                if file
                else f"no {name} is given, which only a language model (model.decoder_only) lacks"
            )
    if config.is_language_model:
        _log.info("There is no source: this trains a language model of the target.")
    strategy = make_strategy(num_devices)
    keras.utils.set_random_seed(config.optimization.seed)  # before tokenizers exist, see Tokenizer
    num_pairs = check_parallel(source or target, target)
    num_validation_pairs = check_parallel(validation_source or validation_target, validation_target)
    for file in (source, validation_source):
        if file:
            check_tags(file.lines(), config.vocabulary.languages, str(file))
    _begin_or_continue(model_dir, config, source, target, init_from)
    tokenizers = read_tokenizers(model_dir)
    corpus = ParallelText(source, target, *tokenizers, config.data)
    validation = ParallelText(validation_source, validation_target, *tokenizers, config.data)
    _report_corpus("training", corpus, num_pairs)
    _report_corpus("validation", validation, num_validation_pairs)

    with strategy.scope():
        model = compiled_model(
            config, *(tokenizer and tokenizer.vocab_size for tokenizer in tokenizers)
        )
    checkpoints = Checkpoints(model_dir, model, config.optimization.keep_checkpoints)
    if not checkpoints.restore():
        if init_from:
            read_weights(model_dir, model)
            _log.info("Starting from %s: %s", init_from, describe_fit(corpus))
        _give_vectors(model, config.vocabulary, *tokenizers)
    return _fit(model, config.optimization, corpus, validation, model_dir, checkpoints)


def compiled_model(
    config: TrainingConfig, source_vocab_size: int | None, target_vocab_size: int
) -> TrainedTransformer | TrainedLanguageModel:
    """The model with its loss, metrics and optimizer; call it in the strategy's scope."""
    optimization = config.optimization
    model_class = TrainedLanguageModel if config.is_language_model else TrainedTransformer
    model = model_class(
        config.transformer_config(source_vocab_size, target_vocab_size), dtype=optimization.dtype
    )
    schedule = NoamSchedule(
        model.config.side("decoder").d_model,
        optimization.warmup_steps,
        optimization.learning_rate_factor,
        initial_rate=optimization.initial_rate,
        minimum_rate=optimization.minimum_rate,
    )
    smoothing = dict(
        label_smoothing=optimization.label_smoothing, smoothed_over=optimization.smoothed_over
    )
    model.compile(
        optimizer=Adam(schedule, clip_norm=optimization.clip_norm),
        loss=LabelSmoothedCrossEntropy(**smoothing),
        metrics=[SmoothedLoss(**smoothing), Perplexity(), TokenAccuracy()],
        jit_compile=False,  # XLA would compile anew for every shape of batch
    )
    model.optimizer.build(model.trainable_variables)
    model.num_micro_batches = optimization.micro_batches
    return model


def _give_vectors(
    model: TrainedTransformer | TrainedLanguageModel,
    vocabulary: VocabularyConfig,
    source_tokenizer: Tokenizer | None,
    target_tokenizer: Tokenizer,
) -> None:
    """Lets embeddings start from the files of vectors, where there are any."""
    for name, tokenizer in (("source", source_tokenizer), ("target", target_tokenizer)):
        path = getattr(vocabulary, f"{name}_vectors")
        if path is not None:
            embedding = getattr(model, f"{name}_embedding")
            file = TextFile.parse(path)
            embedding.set_vectors(read_vectors(file, tokenizer, embedding.d_model))


def _fit(
    model: TrainedTransformer | TrainedLanguageModel,
    optimization: OptimizationConfig,
    corpus: ParallelText,
    validation: ParallelText,
    model_dir: pathlib.Path,
    checkpoints: Checkpoints,
) -> TrainingResult:
    """Calls `fit` with one epoch from checkpoint to checkpoint.

    After a stop between two checkpoints, the first call only catches up with the next multiple of
    `checkpoint_every`, so that checkpoints lie at the same steps as without the stop.
    """
    stop = StopOnSignal()
    callbacks = [
        StopAtStep(optimization.steps),
        stop,
        Report(model_dir / "logs"),
        SaveCheckpoints(model_dir, checkpoints),
    ]
    every = optimization.checkpoint_every
    validation_batches = validation.batches()
    # A dataset of unknown cardinality makes `fit` warn that it ended.
    num_batches = sum(1 for _ in validation_batches)
    validation_batches = validation_batches.apply(
        tf.data.experimental.assert_cardinality(num_batches)
    )
    while (step := current_step(model)) < optimization.steps and not stop.received:
        behind = step % every
        model.fit(
            corpus.training_batches(optimization.seed, step),
            validation_data=validation_batches,
            steps_per_epoch=every - behind,
            initial_epoch=step // every,
            epochs=step // every + 1 if behind else math.ceil(optimization.steps / every),
            callbacks=callbacks,
            verbose=1 if sys.stdout.isatty() else 2,
            shuffle=False,
        )
    if not (model_dir / WEIGHTS_NAME).exists():
        write_weights(model_dir, model)
    return TrainingResult(current_step(model), stop.received)


def _begin_or_continue(
    model_dir: pathlib.Path,
    config: TrainingConfig,
    source: TextFile | None,
    target: TextFile,
    init_from: pathlib.Path | None,
) -> None:
    """Describes the run in `model_dir`, or checks that it is the run described there."""
    path = model_dir / TRAINING_NAME
    run = {"settings": dump_config(config), "corpus": digest(source, target)}
    if init_from:
        run["init_from"] = str(init_from.resolve())
    described = (model_dir / CONFIG_NAME).exists()
    remove_leftovers(model_dir)
    if path.exists():
        _check_same_run(path, run)
    elif described:
        raise ValueError(f"{model_dir} holds a model that this command did not train")
    if not described and init_from:
        copy_weights(init_from, model_dir)  # it may change before the first checkpoint
        models = [tokenizer and tokenizer.model for tokenizer in read_tokenizers(init_from)]
    elif not described:
        models = train_vocabularies(source, target, config.vocabulary)
    model_dir.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(run, indent=2) + "\n", encoding="utf-8")
    if not described:
        sizes = [model and Tokenizer(model).vocab_size for model in models]
        describe_model(model_dir, config.transformer_config(*sizes), *models)


def _check_same_run(path: pathlib.Path, run: dict) -> None:
    try:
        former = json.loads(path.read_text(encoding="utf-8"))
        former_corpus, former_settings = former["corpus"], former["settings"]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"{path}: damaged; it should say what this model is trained on ({error!r})"
        ) from error
    if former_corpus != run["corpus"]:
        raise ValueError(
            f"{path.parent} was trained on another corpus; give the same files or another "
            "--model-dir"
        )
    if former.get("init_from") != run.get("init_from"):
        raise ValueError(
            f"{path.parent} was trained with init_from={former.get('init_from')!r}; received "
            f"{run.get('init_from')!r}. Give the same or another --model-dir"
        )
    # Through the configuration, so that settings which are new since then take their defaults.
    before = _flatten(dump_config(make_config(former_settings)))
    now = _flatten(run["settings"])
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name) and name not in _FREE_SETTINGS:
            raise ValueError(
                f"{path.parent} was trained with {name}={before.get(name)!r}; "
                f"received {now.get(name)!r}. Give the same settings or another --model-dir"
            )


def _flatten(values: dict, prefix: str = "") -> dict:
    flat = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat |= _flatten(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def _report_corpus(name: str, corpus: ParallelText, num_pairs: int) -> None:
    """Prints what the length filter keeps; refuses a corpus of which nothing is left."""
    statistics = corpus.statistics(num_pairs, f"reading the {name} corpus")
    if statistics.kept == 0:
        raise ValueError(
            f"no pair of the {name} corpus {corpus.source or ''}, {corpus.target} is left: "
            f"{statistics.empty} have an empty side, {statistics.too_long} are longer than "
            f"data.max_length={corpus.config.max_length} tokens"
        )
    dropped = ", ".join(
        f"{count:,} dropped as {reason}"
        for count, reason in (
            (statistics.empty, "empty on a side"),
            (statistics.too_long, f"longer than {corpus.config.max_length} tokens"),
        )
        if count
    )
    _log.info(
        "%s corpus: %s of %s %s kept%s%s %s target tokens",
        name,
        f"{statistics.kept:,}",
        f"{statistics.pairs:,}",
        "pairs" if corpus.source else "sentences",
        f" ({dropped})" if dropped else "",
        f"; {statistics.source_tokens:,} source and" if corpus.source else ";",
        f"{statistics.target_tokens:,}",
    )

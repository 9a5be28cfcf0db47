"""Starting from another model: its sizes, its vocabulary, its weights, and a new corpus."""

import dataclasses
import pathlib
import shutil
from collections.abc import Sequence
from typing import Any

import sentencepiece
import tensorflow as tf
import tqdm

from tf_transformer.files import replacing
from tf_transformer.language_tags import languages_of
from tf_transformer.model_dir import WEIGHTS_NAME, read_config, weights_digest
from tf_transformer.presets import PRESETS
from tf_transformer.special_ids import UNKNOWN_ID
from tf_transformer.tokenizer import Tokenizer
from training.config import TrainingConfig
from training.pipeline import ParallelText
from training.prepared_folder import read_models
from training.settings import make_config

# The folder in a model directory with the weights that training starts from, until it has ended.
INITIAL_NAME = "initial"
# Settings of a model that bear on training alone, so that they may change.
_FREE = {"dropout_rate", "attention_dropout_rate", "feed_forward_dropout_rate"}


def config_like(model_dir: pathlib.Path, given: dict[str, Any]) -> TrainingConfig:
    """Settings for training a model that starts from another.

    Args:
        model_dir: the model to start from.
        given: settings as `TrainingConfig` nests them; those of the model and the vocabulary may
            repeat what the model has, but not change it. Rates of dropout may change.

    Raises:
        ValueError: a setting contradicts the model, or there is no such model.
    """
    config = read_config(model_dir)
    has = dataclasses.asdict(config)
    source, target = read_models(model_dir)
    size = has.pop("target_vocab_size")
    has.pop("source_vocab_size")
    if given.get("preset") is not None:
        _refuse_others(model_dir, has, PRESETS.get(given["preset"], {}), "the preset's ")
    model = dict(given.get("model") or {})
    _refuse_others(model_dir, has, model, "model.")
    vocabulary = dict(given.get("vocabulary") or {})
    for name, value in vocabulary.items():
        if (name, value) != ("size", size):
            raise ValueError(
                f"{model_dir} has a vocabulary, of {size} pieces, and keeps it; leave out "
                f"vocabulary.{name}={value!r}"
            )
    ours = {"size": size, "joint": source in (None, target), "languages": _languages(source)}
    free = {name: model[name] for name in _FREE & model.keys()}
    return make_config(given | {"model": has | free, "vocabulary": ours})


def _languages(model: bytes | None) -> list[str]:
    """`Tokenizer.languages`, without TensorFlow: devices are chosen later."""
    if model is None:
        return []
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return languages_of(map(processor.id_to_piece, range(len(processor))))


def _refuse_others(model_dir, has, wanted, kind):
    for name, value in wanted.items():
        if name in has and name not in _FREE and has[name] != value:
            raise ValueError(
                f"{model_dir} has {name}={has[name]!r} and keeps its sizes; "
                f"{kind}{name}={value!r} does not fit"
            )


def copy_weights(init_from: pathlib.Path, model_dir: pathlib.Path) -> str:
    """Copies the weights of a model directory into another.

    Returns:
        Their digest.
    """
    digest = weights_digest(init_from)
    model_dir.mkdir(parents=True, exist_ok=True)
    with replacing(model_dir / WEIGHTS_NAME) as path:
        shutil.copyfile(init_from / WEIGHTS_NAME, path)
    if weights_digest(model_dir) != digest:
        raise ValueError(f"{init_from}: the weights have changed while they were read; try again")
    return digest


def describe_fit(corpus: ParallelText) -> str:
    """How well a vocabulary covers a corpus: one line on unknown and byte pieces of each side."""
    sides = [("source", corpus.source, corpus.source_tokenizer)] if corpus.source else []
    sides += [("target", corpus.target, corpus.target_tokenizer)]
    parts = []
    for name, file, tokenizer in sides:
        tokens, unknown, spelled = _count(file.dataset(), tokenizer)
        parts.append(
            f"{name} {100 * unknown / max(tokens, 1):.2f} % unknown and "
            f"{100 * spelled / max(tokens, 1):.2f} % bytes of {tokens:,} tokens"
        )
    return "; ".join(parts)


def _count(lines: tf.data.Dataset, tokenizer: Tokenizer) -> Sequence[int]:
    is_byte = tf.constant([p.startswith("<0x") and p.endswith(">") for p in tokenizer.pieces])
    totals = [0, 0, 0]
    chunks = lines.batch(1024)
    for chunk in tqdm.tqdm(chunks, "checking the vocabulary", leave=False, disable=None):
        ids = tokenizer.tokenize(chunk).flat_values
        kinds = (tf.ones_like(ids, tf.bool), ids == UNKNOWN_ID, tf.gather(is_byte, ids))
        for kind, found in enumerate(kinds):
            totals[kind] += int(tf.math.count_nonzero(found))
    return totals

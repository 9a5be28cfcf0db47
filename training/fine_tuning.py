"""Starting from another model: its sizes, its vocabulary, its weights, and a new corpus."""

import dataclasses
import pathlib
import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import tqdm

from tf_transformer.errors import InputError
from tf_transformer.presets import PRESETS
from tf_transformer.storage.model_dir import WEIGHTS_NAME, read_config, weights_digest
from tf_transformer.storage.own_files import make_own_folder, replacing_own
from tf_transformer.text.special_ids import UNKNOWN_ID
from training.config import TrainingConfig
from training.prepared.existing_vocabulary import check_vocabulary, read_vocabulary
from training.recorded_config import trained_config
from training.settings import make_config

if TYPE_CHECKING:  # settings are checked before it is imported
    import tensorflow as tf

    from tf_transformer.text.tokenizer import Tokenizer
    from training.data.pipeline import ParallelText

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
        ValueError: a setting is unknown or contradicts the model, or there is no such model.
    """
    has = dataclasses.asdict(read_config(model_dir))
    del has["source_vocab_size"], has["target_vocab_size"]
    model = dict(given.get("model") or {})
    preset = PRESETS.get(given.get("preset", ""), {})
    _refuse_others(model_dir, has, preset | model, given_by_preset=preset.keys() - model.keys())
    free = {name: value for name, value in model.items() if name in _FREE or name not in has}
    for name in ("encoder", "decoder"):
        free[name] = has[name] | dict(model.get(name) or {})
    vocabulary, _ = read_vocabulary(model_dir)
    given_vocabulary = given.get("vocabulary") or {}
    check_vocabulary(given_vocabulary, vocabulary, model_dir)
    for name in ("source_vectors", "target_vectors"):
        if given_vocabulary.get(name) not in (None, getattr(vocabulary, name)):
            raise InputError(f"{model_dir} has its embeddings; leave out vocabulary.{name}")
    settings = given | {
        "model": has | free,
        "vocabulary": given_vocabulary | dataclasses.asdict(vocabulary),
    }
    former = trained_config(model_dir)
    return make_config(({"preset": former.preset} if former else {}) | settings)


def _refuse_others(model_dir, has, wanted, given_by_preset):
    for name, value in wanted.items():
        if name not in has or name in _FREE:
            continue
        ours = has[name]
        if isinstance(ours, dict) and isinstance(value, dict):
            differs = any(key in ours and ours[key] != value[key] for key in value)
        else:
            differs = ours != value
        if differs:
            kind = "the preset's " if name in given_by_preset else "model."
            raise InputError(
                f"{model_dir} has {name}={ours!r} and keeps its sizes; "
                f"{kind}{name}={value!r} does not fit"
            )


def copy_weights(init_from: pathlib.Path, model_dir: pathlib.Path) -> str:
    """Copies the weights of a model directory into another.

    Returns:
        Their digest.
    """
    config = read_config(init_from)
    digest = weights_digest(init_from, config)
    make_own_folder(model_dir)
    with replacing_own(model_dir / WEIGHTS_NAME) as path:
        shutil.copyfile(init_from / WEIGHTS_NAME, path)
    if weights_digest(model_dir, config) != digest:
        raise InputError(f"{init_from}: the weights have changed while they were read; try again")
    return digest


def describe_fit(corpus: "ParallelText") -> str:
    """How well a vocabulary covers a corpus: one line on unknown and byte pieces of each side."""
    sides = [("target", corpus.target, corpus.target_tokenizer)]
    if corpus.source is not None and corpus.source_tokenizer is not None:
        sides.insert(0, ("source", corpus.source, corpus.source_tokenizer))
    parts = []
    for name, file, tokenizer in sides:
        tokens, unknown, spelled = _count(file.dataset(), tokenizer)
        parts.append(
            f"{name} {100 * unknown / max(tokens, 1):.2f} % unknown and "
            f"{100 * spelled / max(tokens, 1):.2f} % bytes of {tokens:,} tokens"
        )
    return "; ".join(parts)


def _count(lines: "tf.data.Dataset", tokenizer: "Tokenizer") -> Sequence[int]:
    import tensorflow as tf

    is_byte = tf.constant([p.startswith("<0x") and p.endswith(">") for p in tokenizer.pieces])
    totals = [0, 0, 0]
    chunks = lines.batch(1024)
    for chunk in tqdm.tqdm(chunks, "checking the vocabulary", leave=False, disable=None):
        ids = tokenizer.tokenize(chunk).flat_values
        kinds = (tf.ones_like(ids, tf.bool), ids == UNKNOWN_ID, tf.gather(is_byte, ids))
        for kind, found in enumerate(kinds):
            totals[kind] += int(tf.math.count_nonzero(found))
    return totals

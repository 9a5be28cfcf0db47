"""Fine-tuning: initializing a model from another one's sizes, vocabulary and weights."""

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
from tf_transformer.storage.weight_shapes import weight_shapes
from tf_transformer.storage.weights_file import read_arrays, write_arrays
from tf_transformer.text.language_tags import languages_of
from tf_transformer.text.special_ids import UNKNOWN_ID
from training.config import TrainingConfig
from training.prepared.existing_vocabulary import check_vocabulary, read_vocabulary
from training.recorded_config import read_training_config
from training.settings import make_config

if TYPE_CHECKING:  # settings are checked before TensorFlow is imported
    import tensorflow as tf

    from tf_transformer.text.tokenizer import Tokenizer
    from training.data.pipeline import ParallelText

# Folder in a model directory that holds the initial weights until training has ended.
INITIAL_NAME = "initial"
# Model settings that change no translation, so that fine-tuning may change them.
_CHANGEABLE = {
    *("dropout_rate", "attention_dropout_rate", "feed_forward_dropout_rate"),
    "alignment_head",
    "draft_heads",
}


def config_like(
    model_dir: pathlib.Path, given: dict[str, Any], added_pieces: Sequence[str] = ()
) -> TrainingConfig:
    """Returns the settings for fine-tuning a model.

    Args:
        model_dir: the model to initialize from.
        given: settings, nested as in `TrainingConfig`. Those of the model and the vocabulary must
            equal the initial model's, except for dropout rates and the alignment head.
        added_pieces: pieces that are added to the vocabulary, or have been, see `read_pieces`.

    Returns:
        `given`, with the initial model's sizes and vocabulary.

    Raises:
        InputError: a setting is unknown or contradicts the model, or there is no such model.
    """
    initial = dataclasses.asdict(read_config(model_dir))
    del initial["source_vocab_size"], initial["target_vocab_size"]
    # Draft heads fit the weights with which they were trained, and are left out.
    if initial.pop("draft_heads") and (added_pieces or (given.get("lora") or {}).get("rank")):
        raise InputError(
            f"{model_dir} has draft heads, which fit no other weights; for --lora and --add-pieces "
            "give the model that they were trained on"
        )
    model = dict(given.get("model") or {})
    preset = PRESETS.get(given.get("preset", ""), {})
    _check_unchanged(
        model_dir, initial, preset | model, given_by_preset=preset.keys() - model.keys()
    )
    changed = {
        name: value for name, value in model.items() if name in _CHANGEABLE or name not in initial
    }
    if changed.get("draft_heads"):  # they change no translation
        given = given | {"validation": {"translate_every": 0} | dict(given.get("validation") or {})}
    for name in ("encoder", "decoder"):
        changed[name] = initial[name] | dict(model.get(name) or {})
    vocabulary, _ = read_vocabulary(model_dir)
    given_vocabulary = given.get("vocabulary") or {}
    new = languages_of(added_pieces)
    languages = [language for language in vocabulary.languages if language not in new]
    former = dataclasses.replace(vocabulary, languages=languages)
    check_vocabulary(given_vocabulary, former, model_dir)
    vocabulary = dataclasses.replace(vocabulary, languages=[*languages, *new])
    for name in ("source_vectors", "target_vectors"):
        if given_vocabulary.get(name) not in (None, getattr(vocabulary, name)):
            raise InputError(
                f"the embeddings are initialized from {model_dir}; leave out vocabulary.{name}"
            )
    settings = given | {
        "model": initial | changed,
        "vocabulary": given_vocabulary | dataclasses.asdict(vocabulary),
    }
    recorded = read_training_config(model_dir)
    return make_config(({"preset": recorded.preset} if recorded else {}) | settings)


def _check_unchanged(model_dir, initial, given, given_by_preset):
    for name, value in given.items():
        if name not in initial or name in _CHANGEABLE:
            continue
        expected = initial[name]
        if isinstance(expected, dict) and isinstance(value, dict):
            differs = any(key in expected and expected[key] != value[key] for key in value)
        else:
            differs = expected != value
        if differs:
            kind = "the preset's " if name in given_by_preset else "model."
            raise InputError(
                f"{model_dir} has {name}={expected!r}, which cannot change; "
                f"leave out {kind}{name}={value!r}"
            )


def copy_weights(init_from: pathlib.Path, model_dir: pathlib.Path) -> str:
    """Copies the weights of a model directory into another one, which is made if needed.

    Args:
        init_from: the model directory to read.
        model_dir: the directory to write.

    Returns:
        The digest of the weights.

    Raises:
        InputError: `init_from` holds no valid model, or its weights changed meanwhile.
    """
    config = read_config(init_from)
    digest = weights_digest(init_from, config)
    make_own_folder(model_dir)
    if config.draft_heads:
        _copy_without_draft_heads(init_from, model_dir, config)
        copied = weights_digest(init_from, config)
    else:
        with replacing_own(model_dir / WEIGHTS_NAME) as path:
            shutil.copyfile(init_from / WEIGHTS_NAME, path)
        copied = weights_digest(model_dir, config)
    if copied != digest:
        raise InputError(f"{init_from}: the weights changed while they were copied; try again")
    return digest


def _copy_without_draft_heads(init_from, model_dir, config):
    shapes = weight_shapes(dataclasses.replace(config, draft_heads=0))
    arrays = read_arrays(init_from / WEIGHTS_NAME, weight_shapes(config))
    kept = ((name, array) for name, array in arrays if name in shapes)
    write_arrays(model_dir / WEIGHTS_NAME, shapes, kept)


def describe_coverage(corpus: "ParallelText") -> str:
    """Returns one line on the shares of unknown and byte pieces on each side of a corpus."""
    sides = [("target", corpus.target, corpus.target_tokenizer)]
    if corpus.source is not None and corpus.source_tokenizer is not None:
        sides.insert(0, ("source", corpus.source, corpus.source_tokenizer))
    parts = []
    for name, file, tokenizer in sides:
        tokens, unknown, byte_pieces = _count_tokens(file.dataset(), tokenizer)
        parts.append(
            f"{name} {100 * unknown / max(tokens, 1):.2f} % unknown and "
            f"{100 * byte_pieces / max(tokens, 1):.2f} % bytes of {tokens:,} tokens"
        )
    return "; ".join(parts)


def _count_tokens(lines: "tf.data.Dataset", tokenizer: "Tokenizer") -> Sequence[int]:
    """Counts all tokens, unknown tokens, and byte pieces."""
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

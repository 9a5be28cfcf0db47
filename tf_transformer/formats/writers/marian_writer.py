"""Conversion of a model directory to Marian's own format."""

import itertools
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import yaml

import tf_transformer
from tf_transformer.config import TransformerConfig
from tf_transformer.config_checks import SIDES
from tf_transformer.decoding.search_options import DEFAULT_BEAM_SIZE, DEFAULT_LENGTH_PENALTY
from tf_transformer.errors import InputError
from tf_transformer.formats.marian.description import DECODER_NAME
from tf_transformer.formats.marian.folder import MODEL_NAME
from tf_transformer.formats.marian.reader import LAYER_NORM_EPSILON
from tf_transformer.formats.marian.settings import (
    ACTIVATIONS,
    AUTOREGRESSIONS,
    NORM_POSITIONS,
    TIED_EMBEDDINGS,
)
from tf_transformer.formats.marian.vocabularies import write_vocabulary
from tf_transformer.formats.marian.weights import (
    LOGITS,
    LOGITS_BIAS,
    LOGITS_TRANSPOSED,
    SETTINGS_NAME,
    marian_names,
)
from tf_transformer.formats.naming import revert_weights
from tf_transformer.formats.supported import ModelToConvert, check_equal_heads, check_supported
from tf_transformer.formats.writers.npz_writer import write_npz
from tf_transformer.storage.model_dir import WEIGHTS_NAME
from tf_transformer.storage.weight_shapes import weight_shapes
from tf_transformer.storage.weights_file import read_arrays
from tf_transformer.text.special_ids import END_ID, NUM_SPECIAL, UNKNOWN_ID
from tf_transformer.text.vocabulary import Vocabulary

_NAME = "marian"
_SUPPORTED: dict[str, list[Any]] = {
    "norm_type": ["layer"],
    "head_dim": [None],
    "dense_bias": [True],
    "scaled_embeddings": [True],
    "embedding_norm": [False],
    "layer_history": [False],
    "source_end": [True],
    "relative_positions": ["none"],
    "positions": ["concatenated"],
    "first_position": [0],
    "activation": list(ACTIVATIONS.values()),
    "begin_embedding": ["zero"],
    "language_tags": ["source"],
}
_REASONS = {
    ("positions", "marian"): "the value has its name from Hugging Face's MarianMTModel (OPUS-MT), "
    "whose sinusoids have other rates than those that marian-decoder computes; convert the model "
    "to hf or ctranslate2, or import Marian's own files of it"
}
# Marian has one setting for both sides.
_EQUAL_SIDES = ("d_model", "num_heads", "norm_position", "final_norm")
# The version of Marian whose settings these are.
_VERSION = f"v1.12.0 tf_transformer {tf_transformer.__version__}"
_MINI_BATCH = 32


def write_marian(model: ModelToConvert, output: pathlib.Path) -> list[str]:
    """Writes `model.npz`, the vocabularies, and `decoder.yml` for marian-decoder.

    The vocabularies are SentencePiece models, which Marian applies to the text. If their ids are
    not those of their pieces, the vocabularies are YAML files, for text that has been segmented.

    Args:
        model: the model.
        output: an existing folder.

    Returns:
        What the format changes, a sentence each.

    Raises:
        InputError: the format cannot hold the model.
    """
    _, config, source, target = model
    check_convertible(config)
    is_segmented = source.is_renumbered or target.is_renumbered
    suffix = "yml" if is_segmented else "spm"
    vocabularies = {"source": source, "target": target}
    for side, vocabulary in vocabularies.items():
        write_vocabulary(output / f"{side}.{suffix}", vocabulary)
        if is_segmented and not vocabulary.word_separators:
            (output / f"{side}.spm").write_bytes(vocabulary.model)
    decoder = _decoder([f"{side}.{suffix}" for side in vocabularies])
    (output / DECODER_NAME).write_text(yaml.safe_dump(decoder, sort_keys=False))
    settings = _settings(config, [len(_order(vocabulary)) for vocabulary in vocabularies.values()])
    text = yaml.safe_dump(settings).encode() + b"\0"
    stored = (SETTINGS_NAME, np.frombuffer(text, np.int8))
    write_npz(output / MODEL_NAME, itertools.chain([stored], _arrays(model)))
    return _changes(config, is_segmented and not source.word_separators)


def check_convertible(config: TransformerConfig) -> None:
    """Checks that the format can hold a model.

    Raises:
        InputError: it cannot; the message names the setting.
    """
    check_supported(config, _NAME, _SUPPORTED, _REASONS)
    check_equal_heads(config, _NAME)
    encoder, decoder = (config.side(side) for side in SIDES)
    for setting in _EQUAL_SIDES:
        values = getattr(encoder, setting), getattr(decoder, setting)
        if values[0] != values[1]:
            raise InputError(
                f"the format {_NAME} cannot hold a model with encoder.{setting}={values[0]!r} and "
                f"decoder.{setting}={values[1]!r}"
            )
    if decoder.norm_position == "pre" and config.decoder_autoregression == "self_attention":
        raise InputError(
            f"the format {_NAME} cannot hold a model with norm_position='pre' and "
            "decoder_autoregression='self_attention': Marian's decoder does not normalize the keys "
            "of earlier tokens"
        )
    if config.layer_norm_epsilon > LAYER_NORM_EPSILON:
        raise InputError(
            f"the format {_NAME} cannot hold a model with layer_norm_epsilon="
            f"{config.layer_norm_epsilon}, only up to {LAYER_NORM_EPSILON}"
        )


def _order(vocabulary: Vocabulary) -> list[int]:
    """Returns this project's id of each of Marian's, which has neither pad nor begin id."""
    return [END_ID, UNKNOWN_ID, *range(NUM_SPECIAL, vocabulary.vocab_size)]


def _settings(config: TransformerConfig, sizes: list[int]) -> dict[str, Any]:
    encoder, decoder = (config.side(side) for side in SIDES)
    preprocess, postprocess = _key_of(NORM_POSITIONS, decoder.norm_position)
    tied_all, tied_source, tied = TIED_EMBEDDINGS[config.tied_embeddings or "none"]
    return {
        "type": "transformer",
        "version": _VERSION,
        "dim-vocabs": sizes,
        "dim-emb": config.d_model,
        "enc-depth": config.num_encoder_layers,
        "dec-depth": config.num_decoder_layers,
        "dec-cell": "ssru",
        "tied-embeddings-all": tied_all,
        "tied-embeddings-src": tied_source,
        "tied-embeddings": tied,
        "transformer-heads": encoder.num_heads,
        "transformer-dim-ffn": encoder.d_ff,
        "transformer-decoder-dim-ffn": decoder.d_ff,
        "transformer-ffn-activation": _key_of(ACTIVATIONS, config.activation),
        "transformer-decoder-autoreg": _key_of(AUTOREGRESSIONS, config.decoder_autoregression),
        "transformer-preprocess": preprocess,
        "transformer-postprocess": f"d{postprocess}",
        "transformer-postprocess-emb": "d",
        "transformer-postprocess-top": "n" if decoder.final_norm else "",
    }


def _key_of(mapping: Mapping[Any, Any], value: Any) -> Any:
    return next(key for key, found in mapping.items() if found == value)


def _decoder(vocabularies: list[str]) -> dict[str, Any]:
    return {
        "relative-paths": True,
        "models": [MODEL_NAME],
        "vocabs": vocabularies,
        "beam-size": DEFAULT_BEAM_SIZE,
        "normalize": DEFAULT_LENGTH_PENALTY,
        "mini-batch": _MINI_BATCH,
        "maxi-batch": 100,
        "maxi-batch-sort": "src",
    }


def _arrays(model: ModelToConvert) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the weights by Marian's names."""
    config = model.config
    names = marian_names(config.side("decoder").norm_position, config.tied_embeddings)
    weights = read_arrays(model.model_dir / WEIGHTS_NAME, weight_shapes(config))
    for name, array in revert_weights(names, _without_added_rows(model, weights)):
        if name == LOGITS:
            yield LOGITS_TRANSPOSED, array.T
        else:
            yield name, array
    if not config.logits_bias:
        yield LOGITS_BIAS, np.zeros((1, len(_order(model.target))), "float32")


def _without_added_rows(
    model: ModelToConvert, weights: Iterable[tuple[str, np.ndarray]]
) -> Iterator[tuple[str, np.ndarray]]:
    source, target = _order(model.source), _order(model.target)
    for name, array in weights:
        if name == "source_embedding/embeddings":
            yield name, array[source]
        elif name in ("target_embedding/embeddings", "logits_bias", "logits_projection/bias"):
            yield name, array[target]
        elif name == "logits_projection/kernel":
            yield name, array[:, target]
        else:
            yield name, array


def _changes(config: TransformerConfig, is_segmented: bool) -> list[str]:
    changes = [
        "Marian divides scores by length ** normalize, and its softmax is without the pad and "
        "begin ids.",
        "max_length and dropout rates are not kept.",
    ]
    if config.layer_norm_epsilon != LAYER_NORM_EPSILON:
        changes.append(
            f"layer_norm_epsilon={config.layer_norm_epsilon} becomes {LAYER_NORM_EPSILON}."
        )
    if is_segmented:
        changes.append(
            "The text must be split with source.spm (spm_encode) and joined with target.spm "
            "(spm_decode)."
        )
    return changes

"""T5 in Hugging Face's format: `config.json` and weights, the inverse of `formats.hf.t5`."""

import math
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from tf_transformer.config import TransformerConfig
from tf_transformer.config_checks import GATED_ACTIVATIONS
from tf_transformer.errors import InputError
from tf_transformer.formats.hf.t5 import ACTIVATIONS
from tf_transformer.formats.hf.t5_weights import (
    EMBEDDING,
    LOGITS,
    LOGITS_BIAS,
    published_name,
    t5_names,
)
from tf_transformer.formats.naming import revert_weights, reverted_shapes
from tf_transformer.formats.supported import check_equal_heads, check_supported
from tf_transformer.formats.writers.safetensors_writer import write_safetensors
from tf_transformer.storage.weight_shapes import weight_shapes
from tf_transformer.storage.weights_file import read_arrays
from tf_transformer.text.special_ids import SUPPRESSED_IDS

_NAME = "hf"
# Of several names of an activation, the first is written.
_PROJECTIONS = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
_SUPPORTED: dict[str, list[Any]] = {
    "decoder_autoregression": ["self_attention"],
    "source_end": [True],
    "norm_type": ["rms"],
    "norm_position": ["pre"],
    "final_norm": [True],
    "dense_bias": [False],
    "embedding_norm": [False],
    "layer_history": [False],
    "positions": ["none"],
    "activation": list(_PROJECTIONS),
    "tied_embeddings": ["all", "inputs"],
    "begin_embedding": ["own"],
    "language_tags": ["source"],
}


def is_t5(config: TransformerConfig) -> bool:
    """Returns whether only T5 has the self-attention of a model."""
    return config.relative_positions == "buckets"


def check_t5(config: TransformerConfig) -> None:
    """Checks that T5 can hold a model, but for the bias of its logits.

    Raises:
        InputError: it cannot; the message names the setting.
    """
    check_supported(config, _NAME, _SUPPORTED)
    check_equal_heads(config, _NAME)
    encoder, decoder = config.side("encoder"), config.side("decoder")
    for name in ("d_model", "d_ff", "num_heads", "head_dim"):
        values = getattr(encoder, name), getattr(decoder, name)
        if values[0] != values[1]:
            raise InputError(
                f"the format {_NAME} cannot hold a model with encoder.{name}={values[0]} and "
                f"decoder.{name}={values[1]}"
            )


def t5_settings(config: TransformerConfig) -> dict[str, Any]:
    """Returns the settings of `config.json`, without ids."""
    side = config.side("encoder")
    return {
        "architectures": ["T5ForConditionalGeneration"],
        "model_type": "t5",
        "is_encoder_decoder": True,
        "vocab_size": config.source_vocab_size,
        "d_model": side.d_model,
        "d_kv": side.head_dim_of(side.num_heads),
        "d_ff": side.d_ff,
        "num_layers": config.num_encoder_layers,
        "num_decoder_layers": config.num_decoder_layers,
        "num_heads": side.num_heads,
        "relative_attention_num_buckets": config.relative_buckets,
        "relative_attention_max_distance": config.max_relative_distance,
        "dropout_rate": config.dropout_rate,
        "layer_norm_epsilon": config.layer_norm_epsilon,
        "feed_forward_proj": _PROJECTIONS[config.activation],
        "tie_word_embeddings": _scales_logits(config),
        "n_positions": config.max_length,
    }


def write_t5_weights(weights: pathlib.Path, config: TransformerConfig, path: pathlib.Path) -> None:
    """Writes the weights as safetensors.

    Args:
        weights: the file of the model directory.
        config: the settings of the model.
        path: the file to write.

    Raises:
        InputError: the logits have a bias, which T5 has not.
    """
    names = t5_names(config.activation in GATED_ACTIVATIONS)
    shapes = weight_shapes(config)
    copies_embedding = config.tied_embeddings == "all" and not config.scaled_embeddings
    written = {}  # in the order of `arrays`
    for name, shape in reverted_shapes(names, shapes).items():
        if name != LOGITS_BIAS:
            written[published_name(name)] = shape
        if name == EMBEDDING and copies_embedding:
            written[LOGITS] = shape

    def arrays() -> Iterator[tuple[str, np.ndarray]]:
        ours = ((name, _reverted(name, x, config)) for name, x in read_arrays(weights, shapes))
        for name, array in revert_weights(names, ours):
            if name == LOGITS_BIAS:
                _check_bias(array)
                continue
            yield published_name(name), array
            if name == EMBEDDING and copies_embedding:
                yield LOGITS, array

    write_safetensors(path, written, arrays())


def _scales_logits(config: TransformerConfig) -> bool:
    return config.tied_embeddings == "all" and config.scaled_embeddings


def _reverted(name: str, array: np.ndarray, config: TransformerConfig) -> np.ndarray:
    """Returns a weight with the scales of T5, see `T5Weights`."""
    side = config.side("encoder")
    scale = np.float32(1 / math.sqrt(side.head_dim_of(side.num_heads)))
    if name == "target_embedding/embeddings" and config.scaled_embeddings:
        return array * np.float32(math.sqrt(config.d_model))
    if name.endswith("cross_attention/query/kernel"):
        return array * scale
    if name.endswith("self_attention/query_key_value/kernel"):
        query, key, value = np.split(array, 3, axis=-1)
        return np.concatenate([query * scale, key, value], axis=-1)
    return array


def _check_bias(bias: np.ndarray) -> None:
    if np.delete(bias, SUPPRESSED_IDS).any():
        raise InputError(
            f"the format {_NAME} cannot hold a T5 whose logits have a bias, as after training of "
            "all weights; fine-tune with --lora, or --set \"optimization.frozen=['*logits*bias']\""
        )

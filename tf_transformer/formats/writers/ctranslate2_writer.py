"""Conversion of a model directory to CTranslate2, by its own specification classes.

They need the package `ctranslate2`, but no PyTorch.
"""

import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from tf_transformer.config import TransformerConfig
from tf_transformer.errors import InputError
from tf_transformer.formats.position_tables import SINUSOIDS, Layout, sinusoid_table
from tf_transformer.formats.supported import ModelToConvert, check_equal_heads, check_supported
from tf_transformer.storage.model_dir import WEIGHTS_NAME
from tf_transformer.storage.weight_shapes import weight_shapes
from tf_transformer.storage.weights_file import read_arrays
from tf_transformer.text.special_ids import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID

Weights = Mapping[str, np.ndarray]

_NAME = "ctranslate2"
# Its decoder computes the positions of one token more than `max_length`.
_MORE_POSITIONS = 1
_SUPPORTED: dict[str, list[Any]] = {
    "decoder_autoregression": ["self_attention"],
    "norm_type": ["layer"],
    "head_dim": [None],
    "dense_bias": [True],
    "embedding_norm": [False],
    "layer_history": [False],
    "relative_positions": ["none"],
    "positions": [*SINUSOIDS, "learned"],
    "activation": ["relu", "gelu", "swish"],
    "language_tags": ["source", "source_and_target"],
}


def write_ctranslate2(model: ModelToConvert, output: pathlib.Path) -> list[str]:
    """Writes a model for `ctranslate2.Translator`, whose inputs are pieces of SentencePiece.

    Args:
        model: the model.
        output: an existing folder, which also gets the SentencePiece models.

    Returns:
        What the format changes, a sentence each.

    Raises:
        InputError: the format cannot hold the model, or the package `ctranslate2` is not installed.
    """
    model_dir, config, source, target = model
    check_convertible(config)
    weights = dict(read_arrays(model_dir / WEIGHTS_NAME, weight_shapes(config)))
    save_ctranslate2(config, weights, source.pieces, target.pieces, output)
    for name, vocabulary in (("source.spm", source), ("target.spm", target)):
        (output / name).write_bytes(vocabulary.model)
    pieces = [[target.pieces[token_id]] for token_id in (PAD_ID, BEGIN_ID)]
    return [
        "CTranslate2 may produce unknown and special pieces, which disable_unk=True and "
        f"suppress_sequences={pieces} prevent, and divides scores by length ** length_penalty."
    ]


def check_convertible(config: TransformerConfig) -> None:
    """Checks that the format can hold a model.

    Raises:
        InputError: it cannot; the message names the setting.
    """
    check_supported(config, _NAME, _SUPPORTED)
    for name in ("encoder", "decoder"):
        side = config.side(name)
        if side.final_norm != (side.norm_position == "pre"):
            raise InputError(
                f"the format {_NAME} cannot hold a model with {name}.final_norm={side.final_norm} "
                f"and {name}.norm_position={side.norm_position!r}"
            )
    check_equal_heads(config, _NAME)


def save_ctranslate2(
    config: TransformerConfig,
    weights: Weights,
    source_pieces: list[str],
    target_pieces: list[str],
    output: pathlib.Path,
    quantization: str | None = None,
) -> None:
    """Writes a model, given its weights.

    Args:
        config: settings for which `check_convertible` passes.
        weights: this project's weights by name.
        source_pieces: the piece of each source id.
        target_pieces: the piece of each target id.
        output: an existing folder.
        quantization: None for float32, or "int8".

    Raises:
        InputError: the package `ctranslate2` is not installed.
    """
    try:
        from ctranslate2.specs import TransformerSpec
    except ImportError as error:
        raise InputError(
            "the package ctranslate2 is not installed; to install it: pip install ctranslate2"
        ) from error
    spec = TransformerSpec(*(_stack_spec(name, config) for name in ("encoder", "decoder")))
    _set_stack(spec.encoder, "encoder", "source", config, weights)
    _set_stack(spec.decoder, "decoder", "target", config, weights)
    _set_logits(spec.decoder, config, weights)
    spec.register_source_vocabulary(source_pieces)
    spec.register_target_vocabulary(target_pieces)
    spec.config.unk_token = target_pieces[UNKNOWN_ID]
    spec.config.bos_token = target_pieces[BEGIN_ID]
    spec.config.eos_token = target_pieces[END_ID]
    starts_with_end = config.begin_embedding == "end"
    spec.config.decoder_start_token = target_pieces[END_ID if starts_with_end else BEGIN_ID]
    spec.config.add_source_eos = config.source_end
    spec.config.layer_norm_epsilon = config.layer_norm_epsilon
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(output))


def _stack_spec(name: str, config: TransformerConfig) -> Any:
    from ctranslate2.specs import common_spec, transformer_spec

    activations = {
        "relu": common_spec.Activation.RELU,
        "gelu": common_spec.Activation.GELU,
        "swish": common_spec.Activation.SWISH,
    }
    side = config.side(name)
    spec_class = getattr(transformer_spec, f"Transformer{name.capitalize()}Spec")
    spec = spec_class(
        getattr(config, f"num_{name}_layers"),
        side.num_heads,
        pre_norm=side.norm_position == "pre",
        activation=activations[config.activation],
    )
    spec.scale_embeddings = config.scaled_embeddings
    if name == "decoder":
        spec.start_from_zero_embedding = config.begin_embedding == "zero"
    return spec


def _set_stack(
    spec: Any, stack: str, side: str, config: TransformerConfig, weights: Weights
) -> None:
    embeddings = spec.embeddings[0] if isinstance(spec.embeddings, list) else spec.embeddings
    shared = weights["target_embedding/embeddings"]
    embeddings.weight = weights.get(f"{side}_embedding/embeddings", shared)
    if config.positions == "learned":
        spec.position_encodings.encodings = weights[f"{side}_positions/vectors"]
    else:
        layout = Layout(config.positions, config.first_position)
        length, width = config.max_length + _MORE_POSITIONS, config.side(stack).d_model
        spec.position_encodings.encodings = sinusoid_table(layout, length, width)
    if config.side(stack).final_norm:
        _set_norm(spec.layer_norm, f"{stack}/final_norm", weights)
    for index, layer in enumerate(spec.layer):
        name = f"{stack}/layer_{index}"
        _set_norm(layer.self_attention.layer_norm, f"{name}/self_attention_residual/norm", weights)
        parts = ["query_key_value", "output_projection"]
        _set_linears(layer.self_attention, f"{name}/self_attention", parts, weights)
        if stack == "decoder":
            _set_norm(layer.attention.layer_norm, f"{name}/cross_attention_residual/norm", weights)
            parts = ["query", "key_value", "output_projection"]
            _set_linears(layer.attention, f"{name}/cross_attention", parts, weights)
        _set_norm(layer.ffn.layer_norm, f"{name}/feed_forward_residual/norm", weights)
        _set_linear(layer.ffn.linear_0, f"{name}/feed_forward/inner", weights)
        _set_linear(layer.ffn.linear_1, f"{name}/feed_forward/outer", weights)


def _set_logits(spec: Any, config: TransformerConfig, weights: Weights) -> None:
    if not config.logits_tied:
        _set_linear(spec.projection, "logits_projection", weights)
        return
    spec.projection.weight = weights["target_embedding/embeddings"]
    if config.logits_bias:
        spec.projection.bias = weights["logits_bias"]


def _set_linears(spec: Any, name: str, parts: list[str], weights: Weights) -> None:
    for linear, part in zip(spec.linear, parts, strict=True):
        _set_linear(linear, f"{name}/{part}", weights)


def _set_linear(spec: Any, name: str, weights: Weights) -> None:
    spec.weight = np.ascontiguousarray(weights[f"{name}/kernel"].T)
    if f"{name}/bias" in weights:
        spec.bias = weights[f"{name}/bias"]


def _set_norm(spec: Any, name: str, weights: Weights) -> None:
    spec.gamma, spec.beta = weights[f"{name}/gamma"], weights[f"{name}/beta"]

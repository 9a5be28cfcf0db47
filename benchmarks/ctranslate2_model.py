"""Converts a model of this project to CTranslate2's format with its specification API."""

import pathlib

import ctranslate2
import numpy as np
from ctranslate2.specs import common_spec, transformer_spec

from tf_transformer.layers.positions import sinusoidal_positions
from tf_transformer.models.transformer import Transformer

_ACTIVATIONS = {
    "relu": common_spec.Activation.RELU,
    "gelu": common_spec.Activation.GELU,
    "swish": common_spec.Activation.SWISH,
}


def write_ctranslate2(
    model: Transformer,
    source_pieces: list[str],
    target_pieces: list[str],
    directory: pathlib.Path,
    quantization: str | None = None,
) -> None:
    """Writes the model for `ctranslate2.Translator`, whose inputs are pieces.

    Args:
        model: a model with layer norm, sinusoids or learned positions, and an ungated activation.
        source_pieces: pieces of the source vocabulary; id 2 begins, id 3 ends a sentence.
        target_pieces: pieces of the target vocabulary.
        directory: folder to create.
        quantization: None for float32, or "int8".
    """
    config = model.config
    spec = transformer_spec.TransformerSpec.from_config(
        (config.num_encoder_layers, config.num_decoder_layers),
        config.num_heads,
        pre_norm=config.norm_position == "pre",
        activation=_ACTIVATIONS[config.activation],
    )
    _set_stack(spec.encoder, model.encoder, model.source_embedding, _positions(model, "source"))
    _set_stack(spec.decoder, model.decoder, model.target_embedding, _positions(model, "target"))
    if config.logits_tied:
        spec.decoder.projection.weight = _array(model.target_embedding.embeddings)
        if config.logits_bias:
            spec.decoder.projection.bias = _array(model.logits_bias)
    else:
        _set_linear(spec.decoder.projection, model.logits_projection)
    spec.register_source_vocabulary(source_pieces)
    spec.register_target_vocabulary(target_pieces)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = target_pieces[1:4]
    spec.config.decoder_start_token = target_pieces[2]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = config.layer_norm_epsilon
    spec.validate()
    spec.optimize(quantization=quantization)
    directory.mkdir(parents=True)
    spec.save(str(directory))


def load_ctranslate2(
    directory: pathlib.Path, compute_type: str, num_threads: int
) -> ctranslate2.Translator:
    """Loads a model that one thread calls at a time."""
    return ctranslate2.Translator(
        str(directory), compute_type=compute_type, inter_threads=1, intra_threads=num_threads
    )


def _positions(model, side):
    config = model.config
    if config.positions == "learned":
        return _array(getattr(model, f"{side}_positions").vectors)
    positions = np.arange(config.max_length + 1)
    return np.asarray(sinusoidal_positions(positions, config.d_model, config.positions))


def _set_stack(spec, stack, embedding, positions):
    embeddings = spec.embeddings[0] if isinstance(spec.embeddings, list) else spec.embeddings
    embeddings.weight = _array(embedding.embeddings)
    spec.position_encodings.encodings = positions
    if stack.final_norm is not None:
        _set_norm(spec.layer_norm, stack.final_norm)
    for layer_spec, layer in zip(spec.layer, stack.stacked_layers, strict=True):
        own = layer.self_attention
        _set_norm(layer_spec.self_attention.layer_norm, layer.self_attention_residual.norm)
        _set_linears(layer_spec.self_attention, own.query_key_value, own.output_projection)
        if hasattr(layer, "cross_attention"):
            cross = layer.cross_attention
            _set_norm(layer_spec.attention.layer_norm, layer.cross_attention_residual.norm)
            _set_linears(
                layer_spec.attention, cross.query, cross.key_value, cross.output_projection
            )
        _set_norm(layer_spec.ffn.layer_norm, layer.feed_forward_residual.norm)
        _set_linear(layer_spec.ffn.linear_0, layer.feed_forward.inner)
        _set_linear(layer_spec.ffn.linear_1, layer.feed_forward.outer)


def _set_linears(spec, *layers):
    for linear, layer in zip(spec.linear, layers, strict=True):
        _set_linear(linear, layer)


def _set_linear(spec, layer):
    spec.weight = np.ascontiguousarray(_array(layer.kernel).T)
    if layer.bias is not None:
        spec.bias = _array(layer.bias)


def _set_norm(spec, norm):
    spec.gamma, spec.beta = _array(norm.gamma), _array(norm.beta)


def _array(weight):
    return np.asarray(weight, "float32")

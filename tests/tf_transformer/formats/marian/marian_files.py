"""Marian's files, written and edited without the code under test, and a model's weights in them."""

import numpy as np

from tf_transformer.text.special_ids import END_ID, UNKNOWN_ID

SETTINGS = "special:model.yml"
# Settings with which Marian can hold a model.
HELD = dict(positions="concatenated", begin_embedding="zero", logits_bias=True)


def read_npz(path):
    with np.load(path) as file:
        return dict(file)


def write_npz(path, arrays):
    # Marian refuses arrays in column-major order.
    np.savez(path, **{name: np.ascontiguousarray(array) for name, array in arrays.items()})


def as_array(text):
    """The text of `special:model.yml` as Marian stores it."""
    return np.frombuffer(text.encode() + b"\0", np.int8)


def our_ids(vocab_size):
    """This project's id of each of Marian's, which are </s>, <unk>, and the other pieces."""
    return [END_ID, UNKNOWN_ID, *range(4, vocab_size)]


def marian_arrays(model):
    """The weights by Marian's names (its src/models/transformer.h and src/rnn/cells.h)."""
    config = model.config
    source_ids, target_ids = our_ids(config.source_vocab_size), our_ids(config.target_vocab_size)
    target = np.array(model.target_embedding.embeddings)[target_ids]
    arrays = {}
    if config.tied_embeddings in ("all", "inputs"):
        arrays["Wemb"] = target
    else:
        arrays["encoder_Wemb"] = np.array(model.source_embedding.embeddings)[source_ids]
        arrays["decoder_Wemb"] = target
    if config.logits_tied:
        bias = model.logits_bias
    else:
        bias = model.logits_projection.bias
        kernel = np.array(model.logits_projection.kernel)
        arrays["decoder_ff_logit_out_Wt"] = kernel[:, target_ids].T
    arrays["decoder_ff_logit_out_b"] = np.array(bias)[None, target_ids]

    def put_dense(name, suffixes, layer):
        parts = (np.split(np.array(w), len(suffixes), axis=-1) for w in (layer.kernel, layer.bias))
        for suffix, kernel, bias in zip(suffixes, *parts, strict=True):
            arrays[f"{name}_W{suffix}"], arrays[f"{name}_b{suffix}"] = kernel, bias[None]

    def put_norm(name, norm, suffix=""):
        arrays[f"{name}_ln_scale{suffix}"], arrays[f"{name}_ln_bias{suffix}"] = (
            np.array(weight)[None] for weight in (norm.gamma, norm.beta)
        )

    def put_residual(pre_name, post_name, residual):
        if residual.norm_position == "post":
            put_norm(post_name, residual.norm)
        else:
            put_norm(pre_name, residual.norm, "_pre")

    def put_attention(name, attention, residual):
        if hasattr(attention, "query_key_value"):
            put_dense(name, "qkv", attention.query_key_value)
        else:
            put_dense(name, "q", attention.query)
            put_dense(name, "kv", attention.key_value)
        put_dense(name, "o", attention.output_projection)
        put_residual(f"{name}_Wo", f"{name}_Wo", residual)

    def put_ssru(name, layer, residual):
        arrays[f"{name}_W"], arrays[f"{name}_Wf"] = np.split(
            np.array(layer.value_gate.kernel), 2, axis=1
        )
        arrays[f"{name}_bf"] = np.array(layer.gate_bias)[None]
        put_residual(name, f"{name}_ffn", residual)

    for side, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        for number, layer in enumerate(stack.stacked_layers, start=1):
            name = f"{side}_l{number}"
            if hasattr(layer, "ssru"):
                put_ssru(f"{name}_rnn", layer.ssru, layer.ssru_residual)
            else:
                put_attention(f"{name}_self", layer.self_attention, layer.self_attention_residual)
            if side == "decoder":
                put_attention(
                    f"{name}_context", layer.cross_attention, layer.cross_attention_residual
                )
            put_dense(f"{name}_ffn", "1", layer.feed_forward.inner)
            put_dense(f"{name}_ffn", "2", layer.feed_forward.outer)
            put_residual(f"{name}_ffn_ffn", f"{name}_ffn_ffn", layer.feed_forward_residual)
        if stack.final_norm is not None:
            put_norm(f"{side}_top", stack.final_norm)
    return arrays

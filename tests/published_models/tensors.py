"""The tensors of a published model, from its settings: their names and shapes in Transformers."""

from collections.abc import Iterator
from typing import Any

from tf_transformer.storage.weight_shapes import Shapes

# Rows of BART's and mBART's tables of positions that no token has.
_UNUSED_POSITIONS = 2


def tensor_shapes(config: dict[str, Any]) -> Shapes:
    """Returns the shape of each tensor that is stored, a tied one once.

    Args:
        config: the content of `config.json`.
    """
    is_t5 = config["model_type"] in ("t5", "mt5")
    shapes = dict((_t5 if is_t5 else _bart)(config))
    if config["architectures"] == ["BartModel"]:  # without the logits
        shapes = {name.removeprefix("model."): x for name, x in shapes.items() if is_weight(name)}
    return shapes


def is_weight(name: str) -> bool:
    """Returns whether a tensor counts as a weight; Transformers' bias of the logits is a buffer."""
    return name != "final_logits_bias"


def width_of(config: dict[str, Any]) -> int:
    """Returns the width of the embeddings."""
    return config["d_model"] if "d_model" in config else config["encoder_embed_dim"]


def vocab_sizes(config: dict[str, Any]) -> tuple[int, int]:
    """Returns the number of rows of the embeddings of source and target."""
    if config["model_type"] == "IndicTrans":
        return config["encoder_vocab_size"], config["decoder_vocab_size"]
    return (config["vocab_size"],) * 2


def _embeddings(config: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    family, width, sizes = config["model_type"], width_of(config), vocab_sizes(config)
    if family == "IndicTrans":
        for stack, size in zip(("encoder", "decoder"), sizes, strict=True):
            yield f"model.{stack}.embed_tokens.weight", (size, width)
        if not config["share_decoder_input_output_embed"]:
            yield "lm_head.weight", (sizes[1], width)
        return
    yield "model.shared.weight", (sizes[0], width)
    if family != "m2m_100":
        yield "final_logits_bias", (1, sizes[0])


def _bart(config: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    family, width = config["model_type"], width_of(config)
    yield from _embeddings(config)
    for stack in ("encoder", "decoder"):
        where, inner = f"model.{stack}", config[f"{stack}_ffn_dim"]
        norms = [f"{where}.layer_norm"] if family not in ("marian", "bart") else []
        if family in ("bart", "mbart"):
            rows = config["max_position_embeddings"] + _UNUSED_POSITIONS
            yield f"{where}.embed_positions.weight", (rows, width)
        if family in ("bart", "mbart") or config.get("layernorm_embedding"):
            norms.append(f"{where}.layernorm_embedding")
        for index in range(config[f"{stack}_layers"]):
            layer = f"{where}.layers.{index}"
            attentions = ("self_attn", "encoder_attn")[: 1 if stack == "encoder" else 2]
            for attention in attentions:
                for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    yield f"{layer}.{attention}.{name}.weight", (width, width)
                    yield f"{layer}.{attention}.{name}.bias", (width,)
                norms.append(f"{layer}.{attention}_layer_norm")
            norms.append(f"{layer}.final_layer_norm")
            for name, shape in (("fc1", (inner, width)), ("fc2", (width, inner))):
                yield f"{layer}.{name}.weight", shape
                yield f"{layer}.{name}.bias", shape[:1]
        for name in norms:
            yield f"{name}.weight", (width,)
            yield f"{name}.bias", (width,)


def _t5(config: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    width, size = config["d_model"], config["vocab_size"]
    heads, inner = config["num_heads"], config["d_ff"]
    projected = heads * config["d_kv"]
    is_gated = config.get("feed_forward_proj", "relu").startswith("gated-")
    # MADLAD-400's file has the embedding by the name of its copy.
    has_vocabulary_of_t5 = config["eos_token_id"] == 1
    yield (
        "shared.weight" if has_vocabulary_of_t5 else "decoder.embed_tokens.weight",
        (size, width),
    )
    if not config.get("tie_word_embeddings", True):
        yield "lm_head.weight", (size, width)
    num_layers = config["num_layers"]
    for stack, attentions, count in (
        ("encoder", ("SelfAttention",), num_layers),
        ("decoder", ("SelfAttention", "EncDecAttention"), config.get("num_decoder_layers")),
    ):
        yield f"{stack}.final_layer_norm.weight", (width,)
        bias = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        yield bias, (config["relative_attention_num_buckets"], heads)
        for index in range(count or num_layers):
            layer = f"{stack}.block.{index}.layer"
            for number, attention in enumerate(attentions):
                for name in "qkv":
                    yield f"{layer}.{number}.{attention}.{name}.weight", (projected, width)
                yield f"{layer}.{number}.{attention}.o.weight", (width, projected)
                yield f"{layer}.{number}.layer_norm.weight", (width,)
            dense = f"{layer}.{len(attentions)}.DenseReluDense"
            for name in ("wi_0", "wi_1") if is_gated else ("wi",):
                yield f"{dense}.{name}.weight", (inner, width)
            yield f"{dense}.wo.weight", (width, inner)
            yield f"{layer}.{len(attentions)}.layer_norm.weight", (width,)

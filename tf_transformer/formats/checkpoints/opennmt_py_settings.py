"""The settings in checkpoints of OpenNMT-py."""

import pathlib
from collections.abc import Mapping
from typing import Any

import pydantic

from tf_transformer.config_checks import (
    Epsilon,
    InnerWidth,
    NumHeads,
    NumLayers,
    Positions,
    TiedEmbeddings,
    validate,
)
from tf_transformer.errors import InputError
from tf_transformer.formats.checkpoints.files import check_settings
from tf_transformer.printable import shown

# The activation of a layer, and of one that is gated.
_ACTIVATIONS = {"relu": ("relu", "reglu"), "gelu": ("gelu", "geglu"), "silu": ("swish", "swiglu")}
_ACTIVATIONS["gated-gelu"] = _ACTIVATIONS["gelu"]
_POSITIONS: dict[str, Positions] = {
    "SinusoidalInterleaved": "interleaved",
    "SinusoidalConcat": "concatenated",
}
_SELF_ATTENTION = ("scaled-dot", "scaled-dot-flash")
# Values of `max_relative_positions` that select other encodings of positions.
_OTHER_POSITIONS = {-1: "rotary positions", -2: "ALiBi"}
# Settings of other architectures, and the only supported value; None means that it is not set.
_SUPPORTED = {
    "model_type": "text",
    "model_task": "seq2seq",
    "encoder_type": "transformer",
    "decoder_type": "transformer",
    "layer_norm": "standard",
    "generator_function": "softmax",
    "copy_attn": None,
    "n_src_feats": None,
    "multiquery": None,
    "num_kv": None,
    "num_experts": None,
    "parallel_residual": None,
    "shared_layer_norm": None,
    "relative_positions_buckets": None,
    "sliding_window": None,
    "lora_layers": None,
    "lora_embedding": None,
    "quant_layers": None,
}


class OpenNMTPySettings(pydantic.BaseModel):
    """The settings of a model, with OpenNMT-py's defaults."""

    model_config = pydantic.ConfigDict(strict=True, extra="ignore")

    enc_layers: NumLayers
    dec_layers: NumLayers
    heads: NumHeads = 8
    transformer_ff: InnerWidth
    pos_ffn_activation_fn: str = "relu"
    norm_eps: Epsilon = 1e-6
    position_encoding: bool = False
    position_encoding_type: str = "SinusoidalInterleaved"
    max_relative_positions: int = pydantic.Field(default=0, le=2**20)
    share_embeddings: bool = False
    share_decoder_embeddings: bool = False
    dropout: float = pydantic.Field(default=0.1, ge=0, lt=1)
    attention_dropout: float = pydantic.Field(default=0.1, ge=0, lt=1)

    @property
    def tied_embeddings(self) -> TiedEmbeddings:
        """The setting of `TransformerConfig`.

        Embeddings are not scaled in models without sinusoids. Here they always are, and the matrix
        is divided by the scale instead, so that it is not that of the logits.
        """
        if not self.position_encoding:
            return "inputs" if self.share_embeddings else "none"
        if self.share_decoder_embeddings:
            return "all" if self.share_embeddings else "target"
        return "inputs" if self.share_embeddings else "none"

    def model_settings(self, is_gated: bool) -> dict[str, Any]:
        """Returns the settings of `TransformerConfig`, but for widths and vocabularies.

        Args:
            is_gated: whether feed-forward layers have a second matrix.
        """
        is_relative = self.max_relative_positions > 0
        positions = _POSITIONS[self.position_encoding_type]
        return dict(
            num_encoder_layers=self.enc_layers,
            num_decoder_layers=self.dec_layers,
            d_ff=self.transformer_ff,
            num_heads=self.heads,
            norm_position="pre",
            layer_norm_epsilon=self.norm_eps,
            positions=positions if self.position_encoding else "none",
            relative_positions="keys_values" if is_relative else "none",
            max_relative_distance=self.max_relative_positions if is_relative else 16,
            activation=_ACTIVATIONS[self.pos_ffn_activation_fn][is_gated],
            tied_embeddings=self.tied_embeddings,
            logits_bias=True,
            source_end=False,
            max_length=1024,
            dropout_rate=self.dropout,
            attention_dropout_rate=self.attention_dropout,
        )


def read_settings(options: Mapping[str, Any], path: pathlib.Path) -> OpenNMTPySettings:
    """Returns the settings of a checkpoint.

    Args:
        options: the entry `opt` of the checkpoint.
        path: its file, for error messages.

    Raises:
        InputError: a setting is missing, wrong, or not supported.
    """
    values = {name: value for name, value in options.items() if value is not None}
    check_settings(values, _SUPPORTED, path)
    _check_choice(values, "self_attn_type", _SELF_ATTENTION, path)
    _check_choice(values, "pos_ffn_activation_fn", _ACTIVATIONS, path)
    _check_choice(values, "position_encoding_type", _POSITIONS, path)
    relative = values.get("max_relative_positions")
    if isinstance(relative, int) and relative < 0:
        kind = _OTHER_POSITIONS.get(relative, "unknown")
        raise InputError(f"{path}: max_relative_positions={relative} ({kind}) is not supported")
    for name in ("enc_layers", "dec_layers"):
        if isinstance(layers := values.get("layers"), int) and layers > 0:
            values[name] = layers
    for name in ("dropout", "attention_dropout"):  # lists, a value for each phase of training
        if isinstance(rates := values.get(name), list) and rates:
            values[name] = rates[0]
    return validate(OpenNMTPySettings, values, path)


def _check_choice(values: Mapping[str, Any], name: str, supported: Any, path: pathlib.Path) -> None:
    value = values.get(name)
    if value is not None and (not isinstance(value, str) or value not in supported):
        raise InputError(
            f"{path}: {name}={shown(value)} is not supported, only {', '.join(supported)}"
        )

"""The settings in checkpoints of fairseq."""

import pathlib
from collections.abc import Mapping
from typing import Any

import pydantic

from tf_transformer.config_checks import (
    InnerWidth,
    ModelWidth,
    NumHeads,
    NumLayers,
    TiedEmbeddings,
    validate,
)
from tf_transformer.errors import InputError
from tf_transformer.formats.checkpoints.files import check_settings
from tf_transformer.printable import shown

_ACTIVATIONS = ("relu", "gelu")
_TASK = "translation"
# The padding's id, 1, is a position, too; those of tokens follow.
FIRST_POSITION = 2
# Settings of other architectures, and the only supported value; None means that it is not set.
_SUPPORTED = {
    "no_scale_embedding": None,
    "no_token_positional_embeddings": None,
    "layernorm_embedding": None,
    "adaptive_input": None,
    "adaptive_softmax_cutoff": None,
    "char_inputs": None,
    "cross_self_attention": None,
    "no_cross_attention": None,
    "merge_src_tgt_embed": None,
    "lang_tok_replacing_bos_eos": None,
    "base_layers": None,
    "moe_freq": None,
    "scale_attn": None,
    "scale_heads": None,
    "scale_fc": None,
    "scale_resids": None,
    "encoder_xformers_att_config": None,
    "decoder_xformers_att_config": None,
    "encoder_layers_to_keep": None,
    "decoder_layers_to_keep": None,
    # With it, the embeddings pass through one more matrix.
    "quant_noise_pq": None,
    "quant_noise_scalar": None,
}


class FairseqSettings(pydantic.BaseModel):
    """The settings of a model, with fairseq's defaults, those of its `base_architecture`."""

    model_config = pydantic.ConfigDict(strict=True, extra="ignore")

    source_lang: str | None = None
    target_lang: str | None = None
    encoder_layers: NumLayers = 6
    decoder_layers: NumLayers = 6
    encoder_embed_dim: ModelWidth = 512
    decoder_embed_dim: ModelWidth | None = None
    encoder_ffn_embed_dim: InnerWidth = 2048
    decoder_ffn_embed_dim: InnerWidth | None = None
    encoder_attention_heads: NumHeads = 8
    decoder_attention_heads: NumHeads = 8
    encoder_normalize_before: bool = False
    decoder_normalize_before: bool = False
    no_decoder_final_norm: bool = False
    encoder_learned_pos: bool = False
    decoder_learned_pos: bool = False
    max_source_positions: int = pydantic.Field(default=1024, ge=1)
    max_target_positions: int = pydantic.Field(default=1024, ge=1)
    activation_fn: str = "relu"
    dropout: float = pydantic.Field(default=0.1, ge=0, lt=1)
    attention_dropout: float = pydantic.Field(default=0.0, ge=0, lt=1)
    activation_dropout: float = pydantic.Field(default=0.0, ge=0, lt=1)
    relu_dropout: float | None = pydantic.Field(default=0.0, ge=0, lt=1)
    share_all_embeddings: bool = False
    share_decoder_input_output_embed: bool = False

    @property
    def decoder_width(self) -> int:
        """Width of the decoder."""
        return self.decoder_embed_dim or self.encoder_embed_dim

    @property
    def tied_embeddings(self) -> TiedEmbeddings:
        """The setting of `TransformerConfig`."""
        if self.share_all_embeddings:
            return "all"
        return "target" if self.share_decoder_input_output_embed else "none"

    def has_final_norm(self, side: str, version: float) -> bool:
        """Returns whether a norm follows after a stack.

        Args:
            side: the stack, "encoder" or "decoder".
            version: version of the stack; old models have no norm in spite of their settings.
        """
        if side == "encoder":
            return self.encoder_normalize_before and version >= 2
        return self.decoder_normalize_before and version > 2 and not self.no_decoder_final_norm

    def model_settings(self, versions: Mapping[str, float]) -> dict[str, Any]:
        """Returns the settings of `TransformerConfig`, but for the sizes of the vocabularies.

        Args:
            versions: version of each stack.
        """
        return dict(
            num_encoder_layers=self.encoder_layers,
            num_decoder_layers=self.decoder_layers,
            d_model=self.decoder_width,
            d_ff=self.decoder_ffn_embed_dim or self.encoder_ffn_embed_dim,
            num_heads=self.decoder_attention_heads,
            encoder=dict(
                d_model=self.encoder_embed_dim,
                d_ff=self.encoder_ffn_embed_dim,
                num_heads=self.encoder_attention_heads,
                norm_position="pre" if self.encoder_normalize_before else "post",
                final_norm=self.has_final_norm("encoder", versions["encoder"]),
            ),
            norm_position="pre" if self.decoder_normalize_before else "post",
            final_norm=self.has_final_norm("decoder", versions["decoder"]),
            layer_norm_epsilon=1e-5,  # PyTorch's default
            positions="learned" if self.encoder_learned_pos else "concatenated",
            first_position=0 if self.encoder_learned_pos else FIRST_POSITION,
            max_length=min(self.max_source_positions, self.max_target_positions, 2**20),
            activation=self.activation_fn,
            tied_embeddings=self.tied_embeddings,
            logits_bias=False,
            begin_embedding="end",
            dropout_rate=self.dropout,
            attention_dropout_rate=self.attention_dropout,
            feed_forward_dropout_rate=self.activation_dropout or self.relu_dropout or 0.0,
        )


def read_settings(checkpoint: Mapping[str, Any], path: pathlib.Path) -> FairseqSettings:
    """Returns the settings of a checkpoint.

    Args:
        checkpoint: the checkpoint; settings are in `args`, since fairseq 0.10 in `cfg`.
        path: its file, for error messages.

    Raises:
        InputError: a setting is missing, wrong, or not supported.
    """
    # fairseq ignores settings that are None.
    values = {name: value for name, value in _flat(checkpoint, path).items() if value is not None}
    task = values.get("task", _TASK)
    if task != _TASK:
        raise InputError(f"{path}: task={shown(task)} is not supported, only {_TASK}")
    check_settings(values, _SUPPORTED, path)
    settings = validate(FairseqSettings, values, path)
    if settings.activation_fn not in _ACTIVATIONS:
        raise InputError(
            f"{path}: activation_fn={shown(settings.activation_fn)} is not supported, only "
            f"{', '.join(_ACTIVATIONS)}"
        )
    for name in ("decoder_input_dim", "decoder_output_dim"):
        check_settings(values, {name: settings.decoder_width}, path)
    if settings.encoder_learned_pos != settings.decoder_learned_pos:
        raise InputError(
            f"{path}: decoder_learned_pos={settings.decoder_learned_pos} is not supported with "
            f"encoder_learned_pos={settings.encoder_learned_pos}"
        )
    return settings


def _flat(checkpoint: Mapping[str, Any], path: pathlib.Path) -> dict[str, Any]:
    """Returns the settings of model and task in one dict, as in `args`."""
    args, config = checkpoint.get("args"), checkpoint.get("cfg")
    if isinstance(args, dict):
        return args
    if not isinstance(config, dict) or not isinstance(config.get("model"), dict):
        raise InputError(f"{path}: expected a checkpoint of fairseq, with args or cfg")
    values = dict(config["model"])
    for part in ("encoder", "decoder", "quant_noise"):
        if isinstance(nested := values.pop(part, None), dict):
            values |= {f"{part}_{name}": value for name, value in nested.items()}
    task = config.get("task")
    if isinstance(task, dict):
        values |= {name: task.get(name) for name in ("source_lang", "target_lang")}
        values["task"] = task.get("_name", values.get("task", _TASK))
    return values

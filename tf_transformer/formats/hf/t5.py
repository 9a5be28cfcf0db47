"""T5, mT5, Flan-T5 and MADLAD-400 in Hugging Face's format."""

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import pydantic

from tf_transformer.config import TransformerConfig
from tf_transformer.config_checks import (
    Epsilon,
    HeadWidth,
    InnerWidth,
    ModelWidth,
    NumBuckets,
    NumHeads,
    NumLayers,
    NumPositions,
    VocabSize,
)
from tf_transformer.errors import InputError
from tf_transformer.formats.hf.folder import (
    CONFIG_NAME,
    FolderFiles,
    read_files,
    read_model_type,
    validate,
)
from tf_transformer.formats.hf.generation import Generation
from tf_transformer.formats.hf.spiece_vocabulary import read_models, read_t5_vocabulary
from tf_transformer.formats.hf.t5_weights import LOGITS_BIAS, T5Weights
from tf_transformer.formats.imported_model import ImportedModel
from tf_transformer.printable import shown

# `feed_forward_proj` and the setting `activation`; "gated-gelu" has the approximation of GELU.
ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "silu": "swish",
    "gated-relu": "reglu",
    "gated-gelu": "geglu_tanh",
    "gated-gelu_new": "geglu_tanh",
    "gated-silu": "swiglu",
}
# Values of settings that `config.json` lacks: those of Transformers' `T5Config` and `MT5Config`.
DEFAULTS: dict[str, dict[str, Any]] = {
    "t5": {
        "vocab_size": 32128,
        "d_model": 512,
        "d_kv": 64,
        "d_ff": 2048,
        "num_layers": 6,
        "num_decoder_layers": None,
        "num_heads": 8,
        "relative_attention_num_buckets": 32,
        "relative_attention_max_distance": 128,
        "dropout_rate": 0.1,
        "layer_norm_epsilon": 1e-6,
        "feed_forward_proj": "relu",
        "tie_word_embeddings": True,
        "scale_decoder_outputs": None,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "decoder_start_token_id": None,
        "n_positions": 512,
    }
}
DEFAULTS["mt5"] = DEFAULTS["t5"] | {
    "vocab_size": 250112,
    "d_ff": 1024,
    "num_layers": 8,
    "num_heads": 6,
    "feed_forward_proj": "gated-gelu",
}
# Logits of T5 are scaled by 1 / sqrt(d_model) if `tie_word_embeddings`; Transformers 5 writes this
# as `scale_decoder_outputs`, and ties in any case. Those of mT5 never are.
_FIXED: dict[str, dict[str, Any]] = {
    "mt5": {"tie_word_embeddings": False, "scale_decoder_outputs": None}
}
_OF_OTHERS = {
    "bos_token_id": None,
    "decoder_vocab_size": None,
    "share_encoder_decoder_embeddings": True,
}
# Other names of settings, the classes' `attribute_map`.
_ALIASES = {
    "hidden_size": "d_model",
    "num_attention_heads": "num_heads",
    "num_hidden_layers": "num_layers",
    "head_dim": "d_kv",
}
_MAX_PREFIXES = 4


class T5Settings(pydantic.BaseModel):
    """The settings in `config.json`."""

    model_config = pydantic.ConfigDict(strict=True, extra="ignore")

    vocab_size: VocabSize
    d_model: ModelWidth
    d_kv: HeadWidth
    d_ff: InnerWidth
    num_layers: NumLayers
    num_decoder_layers: NumLayers | None
    num_heads: NumHeads
    relative_attention_num_buckets: NumBuckets
    relative_attention_max_distance: NumPositions
    dropout_rate: float = pydantic.Field(ge=0, lt=1)
    layer_norm_epsilon: Epsilon
    feed_forward_proj: str
    tie_word_embeddings: bool
    scale_decoder_outputs: bool | None
    pad_token_id: int
    eos_token_id: int
    decoder_start_token_id: int
    n_positions: NumPositions
    # Settings of `VocabularySettings` that T5 does not have.
    bos_token_id: int | None
    decoder_vocab_size: int | None
    share_encoder_decoder_embeddings: bool

    @property
    def scales_logits(self) -> bool:
        """Whether the logits are scaled by 1 / sqrt(d_model)."""
        scales = self.scale_decoder_outputs
        return self.tie_word_embeddings if scales is None else scales


class HFT5:
    """T5 and its relatives in Hugging Face's format, see `ModelFormat`."""

    name = "hf-t5"

    def recognizes(self, path: pathlib.Path) -> bool:
        """Returns whether `config.json` names this architecture."""
        return read_model_type(path) in DEFAULTS

    def read(self, path: pathlib.Path) -> ImportedModel:
        """Reads a model.

        The decoder starts with the pad id, whose row the begin id gets, too. Deviations from the
        original: in training there is no dropout after the last norm of a stack.

        Args:
            path: the folder.

        Raises:
            InputError: a file is missing or damaged, the files do not fit together, or a setting is
                not supported.
        """
        files = read_files(path)
        settings = _read_settings(files)
        rows, source_model, target_model, notes = read_models(path, settings, read_t5_vocabulary)
        generation = Generation(files)
        generation.check_no_forced_begin()
        target = generation.ban(rows.with_pad_as_output())
        weights = T5Weights(path, settings.scales_logits)
        weights.check_vocabulary(rows)
        weights.keep_bias(target)
        config = TransformerConfig(
            source_vocab_size=rows.vocab_size,
            target_vocab_size=rows.vocab_size,
            tied_embeddings=weights.tied_embeddings,
            scaled_embeddings=weights.scaled_embeddings,
            logits_bias=LOGITS_BIAS in weights,
            **_model_settings(settings),
        )
        return ImportedModel(
            config,
            source_model,
            target_model,
            weights.convert(config, rows, target),
            (*notes, *_prefix_notes(files), *generation.notes),
        )


def _read_settings(files: FolderFiles) -> T5Settings:
    path, values = files.folder / CONFIG_NAME, dict(files.config)
    model_type = values.get("model_type")
    if not isinstance(model_type, str) or model_type not in DEFAULTS:
        raise InputError(
            f"{path}: model_type={shown(model_type)} is not supported, only "
            f"{' or '.join(map(repr, DEFAULTS))}"
        )
    for alias, name in _ALIASES.items():
        if alias in values and values.setdefault(name, values[alias]) != values[alias]:
            raise InputError(
                f"{path}: {alias}={shown(values[alias])} and {name}={shown(values[name])} are the "
                "same setting"
            )
    values = DEFAULTS[model_type] | values
    if values["decoder_start_token_id"] is None:
        values["decoder_start_token_id"] = values["pad_token_id"]
    settings = validate(T5Settings, files, values, _FIXED.get(model_type, {}) | _OF_OTHERS)
    if settings.feed_forward_proj not in ACTIVATIONS:
        raise InputError(
            f"{path}: feed_forward_proj={shown(settings.feed_forward_proj)} is not supported, only "
            f"{', '.join(ACTIVATIONS)}"
        )
    return settings


def _model_settings(settings: T5Settings) -> dict[str, Any]:
    return dict(
        num_encoder_layers=settings.num_layers,
        num_decoder_layers=settings.num_decoder_layers or settings.num_layers,
        d_model=settings.d_model,
        d_ff=settings.d_ff,
        num_heads=settings.num_heads,
        head_dim=settings.d_kv,
        dense_bias=False,
        dropout_rate=settings.dropout_rate,
        norm_position="pre",
        norm_type="rms",
        layer_norm_epsilon=settings.layer_norm_epsilon,
        positions="none",
        relative_positions="buckets",
        relative_buckets=settings.relative_attention_num_buckets,
        max_relative_distance=settings.relative_attention_max_distance,
        activation=ACTIVATIONS[settings.feed_forward_proj],
        max_length=settings.n_positions,
    )


def _prefix_notes(files: FolderFiles) -> Iterator[str]:
    """Yields what the original puts before the source for its tasks."""
    tasks = files.config.get("task_specific_params")
    found = tasks.values() if isinstance(tasks, Mapping) else []
    prefixes = [task.get("prefix") for task in found if isinstance(task, Mapping)]
    texts = [
        repr(prefix) for prefix in prefixes if isinstance(prefix, str) and prefix.isprintable()
    ]
    if texts:
        more = ", ..." if len(texts) > _MAX_PREFIXES else ""
        yield (
            f"a source begins with the prefix of its task: {', '.join(texts[:_MAX_PREFIXES])}{more}"
        )

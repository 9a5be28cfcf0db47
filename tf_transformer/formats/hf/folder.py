"""Folders of Hugging Face's Transformers: `config.json`, vocabularies, and weights.

MarianMT, M2M100, NLLB, BART, mBART and Pegasus share the names of their weights and most
settings.
"""

import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import pydantic

from tf_transformer import config_checks
from tf_transformer.config_checks import (
    InnerWidth,
    LanguageTags,
    ModelWidth,
    NumHeads,
    NumLayers,
    VocabSize,
)
from tf_transformer.errors import InputError
from tf_transformer.printable import shown
from tf_transformer.storage.json_files import parse_json, read_json
from tf_transformer.storage.regular_files import read_regular

CONFIG_NAME, GENERATION_NAME = "config.json", "generation_config.json"
# The largest known vocabulary file, of 256,000 pieces, takes about 10 MB.
MAX_VOCABULARY_BYTES = 2**28
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}


# The values of settings that `config.json` lacks, by `model_type`: those of Transformers' classes
# `MarianConfig` and `M2M100Config`, which `tests/parity/test_hf_defaults.py` compares.
DEFAULTS: dict[str, dict[str, Any]] = {
    "marian": {
        "vocab_size": 58101,
        "decoder_vocab_size": None,
        "d_model": 1024,
        "encoder_layers": 12,
        "decoder_layers": 12,
        "encoder_attention_heads": 16,
        "decoder_attention_heads": 16,
        "encoder_ffn_dim": 4096,
        "decoder_ffn_dim": 4096,
        "activation_function": "gelu",
        "max_position_embeddings": 1024,
        "scale_embedding": False,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "dropout": 0.1,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "pad_token_id": 58100,
        "bos_token_id": None,
        "eos_token_id": 0,
        "decoder_start_token_id": 58100,
    }
}
DEFAULTS["m2m_100"] = DEFAULTS["marian"] | {
    "vocab_size": 128112,
    "activation_function": "relu",
    "scale_embedding": True,
    "attention_dropout": 0.1,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}
DEFAULTS["mbart"] = DEFAULTS["m2m_100"] | {
    "vocab_size": 50265,
    "activation_function": "gelu",
    "scale_embedding": False,
    "attention_dropout": 0.0,
    "decoder_start_token_id": None,
}
DEFAULTS["bart"] = DEFAULTS["mbart"] | {"decoder_start_token_id": 2}
DEFAULTS["pegasus"] = DEFAULTS["mbart"] | {
    "pad_token_id": 0,
    "bos_token_id": None,
    "eos_token_id": 1,
    "decoder_start_token_id": 0,
}
# Settings that the class does not have, in spite of what `config.json` says.
_ONE_VOCABULARY = {"share_encoder_decoder_embeddings": True, "decoder_vocab_size": None}
_FIXED: dict[str, dict[str, Any]] = dict.fromkeys(
    ("m2m_100", "mbart", "bart", "pegasus"), _ONE_VOCABULARY
)
# Other names of settings, the classes' `attribute_map`.
ALIASES = {
    "num_attention_heads": "encoder_attention_heads",
    "hidden_size": "d_model",
    "num_hidden_layers": "encoder_layers",
}


class Seq2SeqSettings(pydantic.BaseModel):
    """The settings in `config.json` that the models have in common."""

    model_config = pydantic.ConfigDict(strict=True, extra="ignore")

    model_type: str
    vocab_size: VocabSize
    decoder_vocab_size: VocabSize | None
    d_model: ModelWidth
    encoder_layers: NumLayers
    decoder_layers: NumLayers
    encoder_attention_heads: NumHeads
    decoder_attention_heads: NumHeads
    encoder_ffn_dim: InnerWidth
    decoder_ffn_dim: InnerWidth
    activation_function: str
    max_position_embeddings: int = pydantic.Field(ge=2, le=2**20)
    scale_embedding: bool
    share_encoder_decoder_embeddings: bool
    tie_word_embeddings: bool
    dropout: float = pydantic.Field(ge=0, lt=1)
    attention_dropout: float = pydantic.Field(ge=0, lt=1)
    activation_dropout: float = pydantic.Field(ge=0, lt=1)
    pad_token_id: int
    bos_token_id: int | None
    eos_token_id: int
    decoder_start_token_id: int
    language_tags: LanguageTags | None = None  # written by `hf_writer`


def read_model_type(folder: pathlib.Path) -> str | None:
    """Returns the `model_type` in a folder's `config.json`; None if there is none."""
    try:
        model_type = read_json(folder / CONFIG_NAME).get("model_type")
    except (OSError, InputError):
        return None
    return model_type if isinstance(model_type, str) else None


class FolderFiles(NamedTuple):
    """The contents of a folder's two files of settings, each read once.

    Attributes:
        folder: the folder.
        config: `config.json`.
        generation: `generation_config.json`; empty if there is no such file.
    """

    folder: pathlib.Path
    config: dict[str, Any]
    generation: dict[str, Any]


def read_files(folder: pathlib.Path) -> FolderFiles:
    """Reads the files of settings of a folder.

    Raises:
        InputError: one is damaged, or has a key twice, or there is no `config.json`.
    """
    path = folder / GENERATION_NAME
    generation = read_json(path, unique_keys=True) if path.exists() else {}
    return FolderFiles(folder, read_json(folder / CONFIG_NAME, unique_keys=True), generation)


def check_settings(
    files: FolderFiles, required: Mapping[str, Any]
) -> tuple[Seq2SeqSettings, dict[str, Any]]:
    """Checks `config.json`, and the ids in `generation_config.json` that replace its own.

    Args:
        files: the contents of the files.
        required: the model type, and the only supported value of settings that select another
            architecture; a setting that is missing has this value.

    Returns:
        The settings, and those of this project's `TransformerConfig` that follow from them.

    Raises:
        InputError: a setting is wrong, or not supported.
    """
    path, values = files.folder / CONFIG_NAME, dict(files.config)
    for name, supported in required.items():
        if (value := values.get(name, supported)) != supported:
            raise InputError(
                f"{path}: {name}={shown(value)} is not supported, only {name}={supported!r}"
            )
    model_type = required["model_type"]
    for alias, name in ALIASES.items():
        if alias in values and values.setdefault(name, values[alias]) != values[alias]:
            raise InputError(
                f"{path}: {alias}={shown(values[alias])} and {name}={shown(values[name])} are the "
                "same setting"
            )
    fixed = _FIXED.get(model_type, {}) | {"model_type": model_type}
    settings = validate(Seq2SeqSettings, files, DEFAULTS[model_type] | values, fixed)
    if settings.activation_function not in ACTIVATIONS:
        raise InputError(
            f"{path}: activation_function={shown(settings.activation_function)} is not supported, "
            f"only {', '.join(ACTIVATIONS)}"
        )
    return settings, _model_settings(settings)


def validate(
    settings_class: type[config_checks.Settings],
    files: FolderFiles,
    values: Mapping[str, Any],
    fixed: Mapping[str, Any],
) -> config_checks.Settings:
    """Checks the types and ranges of settings.

    Args:
        settings_class: their class.
        files: the contents of the files, for the ids in `generation_config.json`, which come first,
            and for messages.
        values: the values in `config.json`, or their defaults.
        fixed: values that replace those of the files.

    Raises:
        InputError: a setting is wrong.
    """
    names = ("decoder_start_token_id", "eos_token_id")
    generation = {x: files.generation[x] for x in names if files.generation.get(x) is not None}
    values = {**values, **generation, **fixed}
    end = values.get("eos_token_id")
    if isinstance(end, list) and len(end) == 1:
        values["eos_token_id"] = end[0]
    return config_checks.validate(
        settings_class,
        values,
        lambda name: files.folder / (GENERATION_NAME if name in generation else CONFIG_NAME),
    )


def _model_settings(settings: Seq2SeqSettings) -> dict[str, Any]:
    return dict(
        num_encoder_layers=settings.encoder_layers,
        num_decoder_layers=settings.decoder_layers,
        d_model=settings.d_model,
        d_ff=settings.encoder_ffn_dim,
        num_heads=settings.encoder_attention_heads,
        decoder={"d_ff": settings.decoder_ffn_dim, "num_heads": settings.decoder_attention_heads},
        activation=ACTIVATIONS[settings.activation_function],
        dropout_rate=settings.dropout,
        attention_dropout_rate=settings.attention_dropout,
        feed_forward_dropout_rate=settings.activation_dropout,
        scaled_embeddings=settings.scale_embedding,
        layer_norm_epsilon=1e-5,  # PyTorch's default, which these models use
        max_length=settings.max_position_embeddings,
    )


def read_vocabulary(path: pathlib.Path) -> list[str]:
    """Reads a JSON object of pieces and their ids.

    Returns:
        The piece of each id.

    Raises:
        InputError: the ids are not 0 to n - 1, each once.
    """
    ids = parse_json(read_regular(path, MAX_VOCABULARY_BYTES), path, unique_keys=True)
    pieces: list[str | None] = [None] * len(ids)
    for piece, token_id in ids.items():
        is_id = type(token_id) is int and 0 <= token_id < len(ids)
        if not is_id or pieces[token_id] is not None:
            raise InputError(
                f"{path}: expected the ids 0 to {len(ids) - 1}, each once, got "
                f"{shown(token_id)} for {shown(piece)}"
            )
        pieces[token_id] = piece
    return [piece for piece in pieces if piece is not None]

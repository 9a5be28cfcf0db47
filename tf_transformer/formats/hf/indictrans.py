"""IndicTrans2 in Hugging Face's format, whose program is published with the models.

A folder with `config.json`, `dict.SRC.json`, `dict.TGT.json`, `model.SRC`, `model.TGT` and the
weights. The program is never run.
"""

import pathlib
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import pydantic

from tf_transformer.config import TransformerConfig
from tf_transformer.config_checks import InnerWidth, ModelWidth, NumHeads, NumLayers, VocabSize
from tf_transformer.errors import InputError
from tf_transformer.formats.hf.added_tokens import TokenIds, read_added_tokens
from tf_transformer.formats.hf.folder import (
    ACTIVATIONS,
    CONFIG_NAME,
    FolderFiles,
    read_files,
    read_model_type,
    read_vocabulary,
    validate,
)
from tf_transformer.formats.hf.generation import Generation
from tf_transformer.formats.hf.weights import FolderWeights, check_rows, keep_bias
from tf_transformer.formats.imported_model import ImportedModel
from tf_transformer.formats.sentencepiece_ids import read_with_ids
from tf_transformer.formats.vocabulary_rows import VocabularyRows
from tf_transformer.printable import shown

_MODEL_TYPE = "IndicTrans"
# The dictionary and the SentencePiece model of a side.
SOURCE_NAMES, TARGET_NAMES = ("dict.SRC.json", "model.SRC"), ("dict.TGT.json", "model.TGT")
_CODE = re.compile("[a-z]{3}_[A-Z][a-z]{3}")
_UNKNOWN = "<unk>"
# Matrices can have been resized to a multiple of 128.
_MAX_UNNAMED = 127
# Tables of positions that old files contain; the original computes them.
_TABLES = ("model.encoder.embed_positions.weights", "model.decoder.embed_positions.weights")
# Another name of a setting, of the class's `attribute_map`. Its other ones are of no use.
_ALIAS, _HEADS = "num_attention_heads", "encoder_attention_heads"
_NOTE = (
    "the original expects sentences that IndicProcessor (of IndicTransToolkit) has normalized and "
    "transliterated, and hands its translations to it; that is no part of the model here: "
    "translate preprocessed lines, see IndicTrans2 in docs/other-toolkits.md"
)


class IndicTransSettings(pydantic.BaseModel):
    """The settings in `config.json`, with the defaults of the original's `IndicTransConfig`."""

    model_config = pydantic.ConfigDict(strict=True, extra="ignore")

    encoder_vocab_size: VocabSize
    decoder_vocab_size: VocabSize
    encoder_embed_dim: ModelWidth = 512
    decoder_embed_dim: ModelWidth = 512
    max_source_positions: int = pydantic.Field(default=210, ge=2, le=2**20)
    max_target_positions: int = pydantic.Field(default=210, ge=2, le=2**20)
    encoder_layers: NumLayers = 6
    decoder_layers: NumLayers = 6
    encoder_attention_heads: NumHeads = 8
    decoder_attention_heads: NumHeads = 8
    encoder_ffn_dim: InnerWidth = 2048
    decoder_ffn_dim: InnerWidth = 2048
    activation_function: str = "relu"
    encoder_normalize_before: bool = False
    decoder_normalize_before: bool = False
    layernorm_embedding: bool = False
    share_decoder_input_output_embed: bool = False
    scale_embedding: bool = True
    dropout: float = pydantic.Field(default=0.1, ge=0, lt=1)
    attention_dropout: float = pydantic.Field(default=0.0, ge=0, lt=1)
    activation_dropout: float = pydantic.Field(default=0.0, ge=0, lt=1)
    pad_token_id: int = 1
    bos_token_id: int = 0
    eos_token_id: int = 2
    decoder_start_token_id: int = 2

    @property
    def d_model(self) -> int:
        """Width of the embeddings."""
        return self.encoder_embed_dim

    @property
    def tie_word_embeddings(self) -> bool:
        """Whether target embedding and logits share a matrix."""
        return self.share_decoder_input_output_embed

    @property
    def share_encoder_decoder_embeddings(self) -> bool:
        """Whether source and target embedding share a matrix."""
        return False


class HFIndicTrans:
    """IndicTrans2, see `ModelFormat`.

    The source begins with the tags of its own language and of the target's; the target with none.
    """

    name = "hf-indictrans"

    def recognizes(self, path: pathlib.Path) -> bool:
        """Returns whether `config.json` names this architecture."""
        return read_model_type(path) == _MODEL_TYPE

    def read(self, path: pathlib.Path) -> ImportedModel:
        """Reads a model.

        The decoder starts with the end id. The begin id gets the row of `<s>`, which the original
        does not use. A code such as `hin_Deva` becomes the tag `>>hin_Deva<<`.

        Args:
            path: the folder.

        Raises:
            InputError: a file is missing or damaged, the files do not fit together, or a setting is
                not supported.
        """
        files = read_files(path)
        settings = read_settings(files)
        vocabulary = _read_vocabulary(path, settings)
        generation = Generation(files)
        generation.check_no_forced_begin()
        source, target = vocabulary.source, generation.ban(vocabulary.target)
        weights = FolderWeights(path, settings)
        for name in _TABLES:
            weights.drop(name)
        check_rows(weights, source, target)
        config = TransformerConfig(
            source_vocab_size=source.vocab_size,
            target_vocab_size=target.vocab_size,
            tied_embeddings=weights.tied_embeddings,
            logits_bias=keep_bias(weights, target),
            **_model_settings(settings),
        )
        return ImportedModel(
            config,
            vocabulary.source_model,
            vocabulary.target_model,
            weights.convert(config, source, target),
            (*vocabulary.notes, *generation.notes, _NOTE),
        )


def read_settings(files: FolderFiles) -> IndicTransSettings:
    """Checks `config.json`, and the ids in `generation_config.json` that replace its own.

    Args:
        files: the contents of the files.

    Raises:
        InputError: a setting is missing, wrong, or not supported.
    """
    path, values = files.folder / CONFIG_NAME, dict(files.config)
    if values.get(_ALIAS) is not None:
        values[_HEADS] = values[_ALIAS]
        if files.config.get(_HEADS, values[_ALIAS]) != values[_ALIAS]:
            raise InputError(
                f"{path}: {_ALIAS}={shown(values[_ALIAS])} and "
                f"{_HEADS}={shown(files.config[_HEADS])} are the same setting"
            )
    settings = validate(IndicTransSettings, files, values, {})
    if settings.encoder_embed_dim != settings.decoder_embed_dim:
        raise InputError(
            f"{path}: encoder_embed_dim={settings.encoder_embed_dim} and "
            f"decoder_embed_dim={settings.decoder_embed_dim} must be equal, since the original's "
            "attention from decoder to encoder has one width"
        )
    if settings.activation_function not in ACTIVATIONS:
        raise InputError(
            f"{path}: activation_function={shown(settings.activation_function)} is not supported, "
            f"only {', '.join(ACTIVATIONS)}"
        )
    return settings


def _model_settings(settings: IndicTransSettings) -> dict[str, Any]:
    positions = {True: "pre", False: "post"}
    return dict(
        num_encoder_layers=settings.encoder_layers,
        num_decoder_layers=settings.decoder_layers,
        d_model=settings.encoder_embed_dim,
        d_ff=settings.encoder_ffn_dim,
        num_heads=settings.encoder_attention_heads,
        norm_position=positions[settings.encoder_normalize_before],
        decoder=dict(
            d_ff=settings.decoder_ffn_dim,
            num_heads=settings.decoder_attention_heads,
            norm_position=positions[settings.decoder_normalize_before],
        ),
        activation=ACTIVATIONS[settings.activation_function],
        dropout_rate=settings.dropout,
        attention_dropout_rate=settings.attention_dropout,
        feed_forward_dropout_rate=settings.activation_dropout,
        scaled_embeddings=settings.scale_embedding,
        embedding_norm=settings.layernorm_embedding,
        positions="concatenated",
        first_position=settings.pad_token_id + 1,  # as in fairseq
        begin_embedding="end",
        language_tags="both_in_source",
        layer_norm_epsilon=1e-5,  # PyTorch's default, which the original uses
        max_length=min(settings.max_source_positions, settings.max_target_positions),
    )


class _Vocabulary(NamedTuple):
    """The vocabularies, their SentencePiece models with these ids, and notes."""

    source: VocabularyRows
    target: VocabularyRows
    source_model: bytes
    target_model: bytes
    notes: tuple[str, ...]


def _read_vocabulary(folder: pathlib.Path, settings: IndicTransSettings) -> _Vocabulary:
    """Reads the vocabularies.

    Args:
        folder: the folder.
        settings: the model's settings.

    Raises:
        InputError: a file is missing or damaged, the files do not fit together, or words were added
            to the tokenizer.
    """
    names = _read_names(folder, SOURCE_NAMES[0], settings)
    ids = TokenIds(folder)
    for token_id, name in enumerate(names):
        ids.state(name, token_id, SOURCE_NAMES[0])
    for token in read_added_tokens(folder):
        if token.name not in ids.by_name:
            raise InputError(
                f"{folder / token.file}: {shown(token.name)} was added to the tokenizer, which is "
                f"not supported for IndicTrans2; expected tokens of {SOURCE_NAMES[0]} only"
            )
        ids.state(token.name, token.token_id, token.file)
    tagged = [f">>{name}<<" if _CODE.fullmatch(name) else name for name in names]
    if tagged == names:
        raise InputError(
            f"{folder / SOURCE_NAMES[0]}: no codes of languages; expected some, such as hin_Deva"
        )
    source = _rows(tagged, settings.encoder_vocab_size, settings)
    names = _read_names(folder, TARGET_NAMES[0], settings)
    target = _rows(names, settings.decoder_vocab_size, settings)
    source_model, source_notes = read_with_ids(folder / SOURCE_NAMES[1], source.pieces)
    target_model, target_notes = read_with_ids(folder / TARGET_NAMES[1], target.pieces)
    notes = source_notes + target_notes
    return _Vocabulary(source, target, source_model, target_model, notes)


def _read_names(folder: pathlib.Path, file: str, settings: IndicTransSettings) -> list[str]:
    """Returns the name of each id of a side, after a check of the special ones."""
    path = folder / file
    names = read_vocabulary(path)
    is_source = file == SOURCE_NAMES[0]
    setting = "encoder_vocab_size" if is_source else "decoder_vocab_size"
    size = getattr(settings, setting)
    if not 0 <= size - len(names) <= _MAX_UNNAMED:
        raise InputError(
            f"{path}: has {len(names)} ids, and {setting}={size}; expected as many, or up to "
            f"{_MAX_UNNAMED} more rows"
        )
    for setting, name in (
        ("pad_token_id", "<pad>"),
        ("bos_token_id", "<s>"),
        ("eos_token_id", "</s>"),
        ("decoder_start_token_id", "</s>"),
    ):
        token_id = getattr(settings, setting)
        if not 0 <= token_id < len(names) or names[token_id] != name:
            raise InputError(f"{path}: {setting} must be the id of {name}. Received: {token_id}")
    if _UNKNOWN not in names:
        raise InputError(f"{path}: expected the piece {_UNKNOWN}")
    return names


def _rows(names: Sequence[str], size: int, settings: IndicTransSettings) -> VocabularyRows:
    unnamed = [f"<row {row}>" for row in range(len(names), size)]
    return VocabularyRows.of(
        [*names, *unnamed],
        pad=settings.pad_token_id,
        unknown=names.index(_UNKNOWN),
        begin=settings.bos_token_id,
        end=settings.eos_token_id,
    )

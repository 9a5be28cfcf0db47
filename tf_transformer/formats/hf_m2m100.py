"""M2M100 and NLLB in Hugging Face's format.

A folder with `config.json`, `sentencepiece.bpe.model`, and the weights. The ids are in `vocab.json`
(M2M100), or those of the SentencePiece model with the special pieces in fairseq's order (NLLB). The
codes of the languages follow; the tokenizer's description names them.
"""

import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import sentencepiece

from tf_transformer.config import TransformerConfig
from tf_transformer.config_checks import BeginEmbedding
from tf_transformer.errors import InputError
from tf_transformer.formats.hf_folder import (
    Seq2SeqSettings,
    read_model_type,
    read_settings,
    read_vocabulary,
)
from tf_transformer.formats.hf_marian import (
    SOURCE_MODEL_NAME,
    TARGET_MODEL_NAME,
    read_marian_rows,
)
from tf_transformer.formats.hf_weights import (
    NAMES,
    TARGET_EMBEDDING,
    FolderWeights,
    check_rows,
    keep_bias,
)
from tf_transformer.formats.imported_model import ImportedModel
from tf_transformer.formats.naming import convert_weights
from tf_transformer.formats.position_tables import Layout
from tf_transformer.formats.sentencepiece_ids import with_ids
from tf_transformer.formats.vocabulary_rows import VocabularyRows, row_edits
from tf_transformer.printable import shown
from tf_transformer.storage.json_files import read_json
from tf_transformer.storage.regular_files import read_regular
from tf_transformer.storage.weight_shapes import weight_shapes
from tf_transformer.text.language_tags import is_tag
from tf_transformer.text.vocabulary import MAX_MODEL_BYTES

MODEL_NAME, VOCABULARY_NAME = "sentencepiece.bpe.model", "vocab.json"
# The descriptions of a tokenizer, in which older and newer versions of Transformers name the codes.
_DESCRIPTIONS = ("tokenizer_config.json", "special_tokens_map.json")
_CODES = ("extra_special_tokens", "additional_special_tokens")
# fairseq's special pieces, which the ids begin with.
_SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
_MASK = "<mask>"
_REQUIRED = {"model_type": "m2m_100", "scale_embedding": True}
# The sinusoids of fairseq: the padding's id, 1, is a position, too.
_POSITIONS = Layout("concatenated", 2)
# Tables of positions that old files contain; Transformers does not read them.
_TABLES = ("model.encoder.embed_positions.weights", "model.decoder.embed_positions.weights")


class HFM2M100:
    """M2M100 and NLLB in Hugging Face's format, see `ModelFormat`."""

    name = "hf-m2m100"

    def recognizes(self, path: pathlib.Path) -> bool:
        """Returns whether `config.json` names this architecture."""
        return read_model_type(path) == "m2m_100"

    def read(self, path: pathlib.Path) -> ImportedModel:
        """Reads a model.

        The decoder starts with the end id. The begin id gets the row of `<s>`, which the original
        does not use. A code such as `fra_Latn` or `__fr__` becomes the tag
        `>>fra_Latn<<` or `>>fr<<`.

        Args:
            path: the folder.

        Raises:
            InputError: a file is missing or damaged, the files do not fit together, or a setting is
                not supported.
        """
        settings, model_settings = read_settings(path, _REQUIRED)
        read = _read_marian_vocabulary if _has_marian_tokenizer(path) else _read_vocabulary
        rows, source_model, target_model = read(path, settings)
        weights = FolderWeights(path, settings)
        for name in _TABLES:
            weights.drop(name)
        check_rows(weights, rows, rows)
        config = TransformerConfig(
            source_vocab_size=rows.vocab_size,
            target_vocab_size=rows.vocab_size,
            tied_embeddings=weights.tied_embeddings,
            logits_bias=keep_bias(weights, rows),
            norm_position="pre",
            begin_embedding=_begin_embedding(settings, weights),
            language_tags=settings.language_tags or "source_and_target",
            **_POSITIONS._asdict(),
            **model_settings,
        )
        return ImportedModel(
            config,
            with_ids(source_model, rows.pieces),
            with_ids(target_model, rows.pieces),
            convert_weights(weight_shapes(config), NAMES, weights, row_edits(rows, rows)),
        )


def _has_marian_tokenizer(folder: pathlib.Path) -> bool:
    return (folder / SOURCE_MODEL_NAME).exists()


def _read_marian_vocabulary(
    folder: pathlib.Path, settings: Seq2SeqSettings
) -> tuple[VocabularyRows, bytes, bytes]:
    """Reads the vocabulary and the SentencePiece models that `hf_writer` writes."""
    rows, _ = read_marian_rows(folder, settings)
    source, target = (
        read_regular(folder / name, MAX_MODEL_BYTES)
        for name in (SOURCE_MODEL_NAME, TARGET_MODEL_NAME)
    )
    return rows, source, target


def _read_vocabulary(
    folder: pathlib.Path, settings: Seq2SeqSettings
) -> tuple[VocabularyRows, bytes, bytes]:
    """Reads the vocabulary of M2M100 or NLLB and its SentencePiece model, twice."""
    model = read_regular(folder / MODEL_NAME, MAX_MODEL_BYTES)
    return _read_rows(folder, model, settings), model, model


def _begin_embedding(settings: Seq2SeqSettings, weights: FolderWeights) -> BeginEmbedding:
    if settings.decoder_start_token_id == settings.eos_token_id:
        return "end"
    return "own" if weights[TARGET_EMBEDDING][settings.decoder_start_token_id].any() else "zero"


def _read_rows(folder: pathlib.Path, model: bytes, settings: Seq2SeqSettings) -> VocabularyRows:
    names = _read_names(folder, model)
    if len(names) > settings.vocab_size:
        raise InputError(
            f"{folder}: the tokenizer has {len(names)} ids, more than vocab_size="
            f"{settings.vocab_size}"
        )
    # The matrix has more rows than there are names: 8 in M2M100, 2 in NLLB.
    pieces = names + [f"<row {row}>" for row in range(len(names), settings.vocab_size)]
    special = {
        "pad": (settings.pad_token_id, "<pad>"),
        "eos": (settings.eos_token_id, "</s>"),
        "decoder_start": (settings.decoder_start_token_id, "</s>"),
    }
    for name, (token_id, piece) in special.items():
        if not 0 <= token_id < len(names) or names[token_id] != piece:
            raise InputError(
                f"{folder}: {name}_token_id must be the id of {piece}. Received: {token_id}"
            )
    for piece in ("<s>", "<unk>"):
        if piece not in names:
            raise InputError(f"{folder}: expected the piece {piece}")
    return VocabularyRows.of(
        pieces,
        pad=settings.pad_token_id,
        unknown=names.index("<unk>"),
        begin=names.index("<s>"),
        end=settings.eos_token_id,
    )


def _read_names(folder: pathlib.Path, model: bytes) -> list[str]:
    """Returns the name of each id; codes of languages are tags."""
    codes = _read_codes(folder)
    if (folder / VOCABULARY_NAME).exists():
        return read_vocabulary(folder / VOCABULARY_NAME) + [_tag(code, folder) for code in codes]
    try:
        processor = sentencepiece.SentencePieceProcessor()
        processor.LoadFromSerializedProto(model)
        pieces = processor.id_to_piece(list(range(processor.vocab_size())))
    except (RuntimeError, UnicodeDecodeError) as error:
        raise InputError(f"{folder / MODEL_NAME}: not a SentencePiece model") from error
    ordinary = [piece for piece in pieces if piece not in _SPECIAL]
    return [*_SPECIAL, *ordinary, *(_tag(code, folder) for code in codes), _MASK]


def _read_codes(folder: pathlib.Path) -> Sequence[str]:
    """Returns the codes of the languages, in the order of their ids."""
    for name in _DESCRIPTIONS:
        if (folder / name).exists():
            description = read_json(folder / name)
            for key in _CODES:
                if codes := [_content(token) for token in _listed(description.get(key))]:
                    return [code for code in codes if code != _MASK]
    raise InputError(
        f"{folder}: no codes of languages; expected {' or '.join(_CODES)} in "
        f"{' or '.join(_DESCRIPTIONS)}"
    )


def _listed(tokens: Any) -> Iterable[Any]:
    return tokens if isinstance(tokens, list) else []


def _content(token: Any) -> Any:
    """Returns the text of a token, which is a string, or an object with other settings."""
    return token.get("content") if isinstance(token, dict) else token


def _tag(code: Any, folder: pathlib.Path) -> str:
    """Returns the tag of a code: `>>fr<<` for `__fr__`, `>>fra_Latn<<` for `fra_Latn`."""
    is_text = isinstance(code, str)
    tag = f">>{code.removeprefix('__').removesuffix('__')}<<" if is_text else ""
    if not is_tag(tag):
        raise InputError(f"{folder}: expected the code of a language. Received: {shown(code)}")
    return tag

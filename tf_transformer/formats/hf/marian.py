"""Marian models in Hugging Face's format, such as OPUS-MT.

A folder with `config.json`, `source.spm`, `target.spm`, `vocab.json`, and the weights. With
separate vocabularies, `vocab.json` is the source's, and `target_vocab.json` the target's.
"""

import pathlib

from tf_transformer.config import TransformerConfig
from tf_transformer.errors import InputError
from tf_transformer.formats.hf.folder import (
    Seq2SeqSettings,
    read_model_type,
    read_settings,
    read_vocabulary,
)
from tf_transformer.formats.hf.weights import (
    NAMES,
    TARGET_EMBEDDING,
    FolderWeights,
    check_rows,
    keep_bias,
)
from tf_transformer.formats.imported_model import ImportedModel
from tf_transformer.formats.naming import convert_weights
from tf_transformer.formats.position_tables import Layout
from tf_transformer.formats.sentencepiece_ids import read_with_ids
from tf_transformer.formats.vocabulary_rows import VocabularyRows, row_edits
from tf_transformer.storage.weight_shapes import weight_shapes

SOURCE_MODEL_NAME, TARGET_MODEL_NAME = "source.spm", "target.spm"
VOCABULARY_NAME, TARGET_VOCABULARY_NAME = "vocab.json", "target_vocab.json"
UNKNOWN_PIECE, PAD_PIECE = "<unk>", "<pad>"
# Transformers ignores these settings of the original's configuration; others than these would be
# another architecture.
_REQUIRED = {
    "model_type": "marian",
    "scale_embedding": True,
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
}


class HFMarian:
    """Marian models in Hugging Face's format, see `ModelFormat`."""

    name = "hf-marian"

    def recognizes(self, path: pathlib.Path) -> bool:
        """Returns whether `config.json` names this architecture."""
        return read_model_type(path) == "marian"

    def read(self, path: pathlib.Path) -> ImportedModel:
        """Reads a model.

        The decoder starts with the embedding of the pad id, which is zero in published models and
        stays zero in fine-tuning. Ids that the original's logits have only for this purpose get the
        bias `NO_OUTPUT`.

        Args:
            path: the folder.

        Raises:
            InputError: a file is missing or damaged, the files do not fit together, or a setting is
                not supported.
        """
        settings, model_settings = read_settings(path, _REQUIRED)
        source, target = read_marian_rows(path, settings)
        weights = FolderWeights(path, settings)
        check_rows(weights, source, target)
        begin_row = weights[TARGET_EMBEDDING][settings.decoder_start_token_id]
        config = TransformerConfig(
            source_vocab_size=source.vocab_size,
            target_vocab_size=target.vocab_size,
            tied_embeddings=weights.tied_embeddings,
            logits_bias=keep_bias(weights, target),
            begin_embedding="own" if begin_row.any() else "zero",
            **(weights.positions or Layout("marian"))._asdict(),
            **model_settings,
        )
        source_model, source_notes = read_with_ids(path / SOURCE_MODEL_NAME, source.pieces)
        target_model, target_notes = read_with_ids(path / TARGET_MODEL_NAME, target.pieces)
        return ImportedModel(
            config,
            source_model,
            target_model,
            convert_weights(weight_shapes(config), NAMES, weights, row_edits(source, target)),
            source_notes + target_notes,
        )


def read_marian_rows(
    folder: pathlib.Path, settings: Seq2SeqSettings
) -> tuple[VocabularyRows, VocabularyRows]:
    """Reads the vocabularies of Marian's tokenizer.

    Args:
        folder: the folder.
        settings: the model's settings.

    Returns:
        The vocabularies of source and target, the same one twice if it is shared.

    Raises:
        InputError: a file is missing, damaged, or does not fit the settings.
    """
    source = _read_side(folder / VOCABULARY_NAME, settings.vocab_size, settings)
    if settings.share_encoder_decoder_embeddings:
        return source, source
    size = settings.decoder_vocab_size or settings.vocab_size
    return source, _read_side(folder / TARGET_VOCABULARY_NAME, size, settings)


def _read_side(path: pathlib.Path, size: int, settings: Seq2SeqSettings) -> VocabularyRows:
    pieces = read_vocabulary(path)
    if len(pieces) != size:
        raise InputError(f"{path}: expected {size} pieces, the model's number, got {len(pieces)}")
    if UNKNOWN_PIECE not in pieces:
        raise InputError(f"{path}: expected the piece {UNKNOWN_PIECE}")
    # With separate vocabularies, the settings name the pad id of the source.
    pad = pieces.index(PAD_PIECE) if PAD_PIECE in pieces else settings.pad_token_id
    begin, end = settings.decoder_start_token_id, settings.eos_token_id
    if begin == end and settings.bos_token_id is not None:
        begin = settings.bos_token_id
    for name, token_id in (("pad", pad), ("decoder_start", begin), ("eos", end)):
        if not 0 <= token_id < size:
            raise InputError(
                f"{path.parent}: {name}_token_id must be one of the {size} ids. "
                f"Received: {token_id}"
            )
    return VocabularyRows.of(
        pieces, pad=pad, unknown=pieces.index(UNKNOWN_PIECE), begin=begin, end=end
    )

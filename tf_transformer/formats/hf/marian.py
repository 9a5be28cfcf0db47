"""Marian models in Hugging Face's format, such as OPUS-MT.

A folder with `config.json`, `source.spm`, `target.spm`, `vocab.json`, and the weights. With
separate vocabularies, `vocab.json` is the source's, and `target_vocab.json` the target's.
"""

import pathlib
from typing import NamedTuple, Protocol

from tf_transformer.config import TransformerConfig
from tf_transformer.errors import InputError
from tf_transformer.formats.added_words import AddedWord
from tf_transformer.formats.hf.added_tokens import TokenIds, find_words, read_added_tokens
from tf_transformer.formats.hf.folder import (
    check_settings,
    read_files,
    read_model_type,
    read_vocabulary,
)
from tf_transformer.formats.hf.generation import Generation
from tf_transformer.formats.hf.weights import (
    TARGET_EMBEDDING,
    FolderWeights,
    check_rows,
    keep_bias,
)
from tf_transformer.formats.imported_model import ImportedModel
from tf_transformer.formats.position_tables import Layout
from tf_transformer.formats.sentencepiece_ids import read_with_ids
from tf_transformer.formats.vocabulary_rows import VocabularyRows
from tf_transformer.text.language_tags import is_tag

SOURCE_MODEL_NAME, TARGET_MODEL_NAME = "source.spm", "target.spm"
VOCABULARY_NAME, TARGET_VOCABULARY_NAME = "vocab.json", "target_vocab.json"
UNKNOWN_PIECE, PAD_PIECE = "<unk>", "<pad>"
# Transformers ignores these settings of the original's configuration; others than these would be
# another architecture.
_REQUIRED = {
    "model_type": "marian",
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
        files = read_files(path)
        settings, model_settings = check_settings(files, _REQUIRED)
        vocabulary = read_marian_vocabulary(path, settings)
        generation = Generation(files)
        generation.check_no_forced_begin()
        source, target = vocabulary.source, generation.ban(vocabulary.target)
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
        source_model, target_model, notes = vocabulary.read_models(path)
        return ImportedModel(
            config,
            source_model,
            target_model,
            weights.convert(config, source, target),
            notes + generation.notes,
        )


class VocabularySettings(Protocol):
    """The settings of `config.json` that belong to the vocabulary."""

    vocab_size: int
    decoder_vocab_size: int | None
    share_encoder_decoder_embeddings: bool
    pad_token_id: int
    bos_token_id: int | None
    eos_token_id: int
    decoder_start_token_id: int


class MarianVocabulary(NamedTuple):
    """The vocabularies of Marian's tokenizer, the same one twice if it is shared.

    Attributes:
        source: that of the source.
        target: that of the target.
        words: the words that were added to the tokenizer.
        notes: see `ImportedModel`.
    """

    source: VocabularyRows
    target: VocabularyRows
    words: tuple[AddedWord, ...]
    notes: tuple[str, ...]

    def read_models(self, folder: pathlib.Path) -> tuple[bytes, bytes, tuple[str, ...]]:
        """Reads the SentencePiece models of source and target with the ids of the vocabularies.

        Args:
            folder: the folder.

        Returns:
            Both models, and all notes.

        Raises:
            InputError: see `read_with_ids`.
        """
        source, source_notes = read_with_ids(
            folder / SOURCE_MODEL_NAME, self.source.pieces, self.words
        )
        target, target_notes = read_with_ids(
            folder / TARGET_MODEL_NAME, self.target.pieces, self.words
        )
        return source, target, self.notes + source_notes + target_notes


def read_marian_vocabulary(folder: pathlib.Path, settings: VocabularySettings) -> MarianVocabulary:
    """Reads the vocabularies of Marian's tokenizer.

    Args:
        folder: the folder.
        settings: the model's settings.

    Raises:
        InputError: a file is missing, damaged, or does not fit the settings or another file.
    """
    added = read_added_tokens(folder)
    special = {"</s>", UNKNOWN_PIECE, PAD_PIECE}
    tags = [token.name for token in added if isinstance(token.name, str) and is_tag(token.name)]
    words = find_words(folder, added, {*special, *tags})
    sides = [(VOCABULARY_NAME, settings.vocab_size)]
    if not settings.share_encoder_decoder_embeddings:
        size = settings.decoder_vocab_size or settings.vocab_size
        sides.append((TARGET_VOCABULARY_NAME, size))
    rows, notes = [], []
    for file, size in sides:
        ids = TokenIds(folder)
        for token_id, name in enumerate(read_vocabulary(folder / file)):
            ids.state(name, token_id, file)
        for token in added:
            # Of separate vocabularies, the ids of special tokens are those of the source.
            if file == VOCABULARY_NAME or token.name not in special:
                ids.state(token.name, token.token_id, token.file)
        names = [words[name].piece if name in words else name for name in ids.names()]
        rows.append(_read_rows(folder / file, names, size, settings))
        if len(names) < size:
            notes.append(f"{size - len(names)} of the {size} rows for {file} have no name")
    return MarianVocabulary(rows[0], rows[-1], tuple(words.values()), tuple(notes))


def _read_rows(
    path: pathlib.Path, names: list[str], size: int, settings: VocabularySettings
) -> VocabularyRows:
    # Embeddings can have been resized to a multiple of up to 128.
    if size % 8 == 0 and 0 < size - len(names) < 128:
        names = names + [f"<row {row}>" for row in range(len(names), size)]
    if len(names) != size:
        raise InputError(
            f"{path}: expected {size} pieces, the model's number, got {len(names)} with the added "
            "tokens"
        )
    if UNKNOWN_PIECE not in names:
        raise InputError(f"{path}: expected the piece {UNKNOWN_PIECE}")
    # With separate vocabularies, the settings name the pad id of the source.
    pad = names.index(PAD_PIECE) if PAD_PIECE in names else settings.pad_token_id
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
        names, pad=pad, unknown=names.index(UNKNOWN_PIECE), begin=begin, end=end
    )

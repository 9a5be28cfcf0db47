"""BART, which writes summaries, in Hugging Face's format."""

import pathlib
from collections.abc import Iterator
from typing import Any

from tf_transformer.config import TransformerConfig
from tf_transformer.errors import InputError
from tf_transformer.formats.hf.byte_vocabulary import ByteVocabulary
from tf_transformer.formats.hf.folder import (
    FolderFiles,
    Seq2SeqSettings,
    check_settings,
    read_files,
    read_model_type,
)
from tf_transformer.formats.hf.generation import FORCED_BEGIN, Generation
from tf_transformer.formats.hf.tokenizer import MASK
from tf_transformer.formats.hf.weights import FolderWeights, check_rows, keep_bias
from tf_transformer.formats.imported_model import ImportedModel
from tf_transformer.formats.vocabulary_rows import VocabularyRows

# Of BART and mBART.
COMMON: dict[str, Any] = {"normalize_embedding": True, "static_position_embeddings": False}
_BART = COMMON | {
    "model_type": "bart",
    "normalize_before": False,
    "add_final_layer_norm": False,
}
# The learned positions begin behind as many rows, which no token has.
UNUSED_POSITIONS = 2
# Rows that no token has: of matrices whose size was rounded up.
_MAX_UNNAMED = 127


class HFBart:
    """BART in Hugging Face's format, see `ModelFormat`.

    Source and target begin with `<s>`, where those of mBART-50 have the code of their language.
    """

    name = "hf-bart"

    def recognizes(self, path: pathlib.Path) -> bool:
        """Returns whether `config.json` names this architecture."""
        return read_model_type(path) == "bart"

    def read(self, path: pathlib.Path) -> ImportedModel:
        """Reads a model.

        The decoder starts with the end id. The `<s>` after it is given, which the original may
        choose unless `forced_bos_token_id` says so, too.

        Args:
            path: the folder.

        Raises:
            InputError: a file is missing or damaged, the files do not fit together, or a setting is
                not supported.
        """
        files = read_files(path)
        settings, model_settings = check_settings(files, _BART)
        generation = Generation(files)
        vocabulary = ByteVocabulary(path)
        rows = _bart_rows(vocabulary, settings)
        weights = FolderWeights(path, settings, UNUSED_POSITIONS)
        check_rows(weights, rows, rows)
        target = generation.ban(rows.with_pad_as_output())
        # The `<s>` of the target takes one of the positions.
        model_settings["max_length"] = settings.max_position_embeddings - 1
        config = TransformerConfig(
            source_vocab_size=rows.vocab_size,
            target_vocab_size=rows.vocab_size,
            tied_embeddings=weights.tied_embeddings,
            logits_bias=keep_bias(weights, target),
            norm_position="post",
            embedding_norm=True,
            positions="learned",
            begin_embedding="end",
            language_tags="source_and_target",
            **model_settings,
        )
        return ImportedModel(
            config,
            vocabulary.sentencepiece_model(rows, begins_twice=True),
            vocabulary.sentencepiece_model(rows, begins_twice=False),
            weights.convert(config, rows, target),
            (*_begin_note(files, generation, settings), *generation.notes),
        )


def _bart_rows(vocabulary: ByteVocabulary, settings: Seq2SeqSettings) -> VocabularyRows:
    """Returns the order of the vocabulary.

    Raises:
        InputError: it has more ids than the matrix has rows, except a mask as the last one, far
            fewer, or other special ids than the settings.
    """
    folder, names, size = vocabulary.folder, list(vocabulary.names), settings.vocab_size
    if len(names) == size + 1 and names[-1] == MASK:  # as in bart-large-cnn
        names.pop()
    if not 0 <= size - len(names) <= _MAX_UNNAMED:
        raise InputError(
            f"{folder}: the tokenizer has {len(names)} ids, and vocab_size={size}; expected as "
            "many, or some more rows"
        )
    for name, token_id, piece in (
        ("bos", settings.bos_token_id, "<s>"),
        ("pad", settings.pad_token_id, "<pad>"),
        ("eos", settings.eos_token_id, "</s>"),
        ("decoder_start", settings.decoder_start_token_id, "</s>"),
    ):
        if token_id is None or not 0 <= token_id < len(names) or names[token_id] != piece:
            raise InputError(
                f"{folder}: {name}_token_id must be the id of {piece}. Received: {token_id}"
            )
    if "<unk>" not in names:
        raise InputError(f"{folder}: expected the piece <unk>")
    return VocabularyRows.of(
        names + [f"<row {row}>" for row in range(len(names), size)],
        pad=settings.pad_token_id,
        unknown=names.index("<unk>"),
        begin=settings.decoder_start_token_id,
        end=settings.eos_token_id,
    )


def _begin_note(
    files: FolderFiles, generation: Generation, settings: Seq2SeqSettings
) -> Iterator[str]:
    """Yields what the user must know of the `<s>` that outputs begin with.

    Raises:
        InputError: they begin with another token.
    """
    forced = generation.forced_begin()
    if forced is None:
        yield (
            "outputs here begin with <s>, as in the training of BART; the original lets the model "
            f"choose the first token, since {FORCED_BEGIN} is not set"
        )
    elif forced != settings.bos_token_id:
        raise InputError(
            f"{files.folder}: {FORCED_BEGIN} must be the id of <s>. Received: {forced}"
        )

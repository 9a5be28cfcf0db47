"""mBART-50 in Hugging Face's format."""

import pathlib
from typing import Any

from tf_transformer.config import TransformerConfig
from tf_transformer.errors import InputError
from tf_transformer.formats.hf.added_tokens import DESCRIPTION_NAME, read_description
from tf_transformer.formats.hf.fairseq_vocabulary import begin_notes, read_fairseq_vocabulary
from tf_transformer.formats.hf.folder import (
    FolderFiles,
    check_settings,
    read_files,
    read_model_type,
)
from tf_transformer.formats.hf.generation import Generation
from tf_transformer.formats.hf.weights import FolderWeights, check_rows, keep_bias
from tf_transformer.formats.imported_model import ImportedModel

_REQUIRED: dict[str, Any] = {
    "model_type": "mbart",
    "normalize_before": True,
    "add_final_layer_norm": True,
    "normalize_embedding": True,
    "static_position_embeddings": False,
}
# The learned positions begin behind as many rows, which no token has.
_UNUSED_POSITIONS = 2
# The tokenizers of mbart-large-cc25.
_CODES_BEHIND = ("MBartTokenizer", "MBartTokenizerFast")


class HFMBart:
    """mBART-50 in Hugging Face's format, see `ModelFormat`.

    Source and target begin with the code of their language, as in M2M100.
    """

    name = "hf-mbart"

    def recognizes(self, path: pathlib.Path) -> bool:
        """Returns whether `config.json` names this architecture."""
        return read_model_type(path) in ("mbart", "bart")

    def read(self, path: pathlib.Path) -> ImportedModel:
        """Reads a model.

        The decoder starts with the end id. A code such as `de_DE` becomes the tag `>>de_DE<<`.

        Args:
            path: the folder.

        Raises:
            InputError: a file is missing or damaged, the files do not fit together, or a setting is
                not supported.
        """
        files = read_files(path)
        if files.config.get("model_type") == "bart":
            raise InputError(
                f"{path}: BART is not supported: its tokenizer splits text into bytes (vocab.json "
                "and merges.txt), and is no SentencePiece model"
            )
        _check_codes(files)
        settings, model_settings = check_settings(files, _REQUIRED)
        if settings.decoder_start_token_id != settings.eos_token_id:
            raise _not_supported(path)
        rows, source_model, target_model, notes = read_fairseq_vocabulary(path, settings)
        weights = FolderWeights(path, settings, _UNUSED_POSITIONS)
        check_rows(weights, rows, rows)
        generation = Generation(files)
        target = generation.ban(rows)
        # The tag of the target takes one of the positions.
        model_settings["max_length"] = settings.max_position_embeddings - 1
        config = TransformerConfig(
            source_vocab_size=rows.vocab_size,
            target_vocab_size=rows.vocab_size,
            tied_embeddings=weights.tied_embeddings,
            logits_bias=keep_bias(weights, target),
            norm_position="pre",
            embedding_norm=True,
            positions="learned",
            begin_embedding="end",
            language_tags="source_and_target",
            **model_settings,
        )
        return ImportedModel(
            config,
            source_model,
            target_model,
            weights.convert(config, rows, target),
            (*notes, *begin_notes(path, generation, rows), *generation.notes),
        )


def _check_codes(files: FolderFiles) -> None:
    """Raises an error if the codes of languages are behind the text, as in mbart-large-cc25.

    Its `config.json` names neither a tokenizer nor the id that the decoder starts with, which is
    the code of the target.
    """
    start = "decoder_start_token_id"
    if files.config.get(start) is None and files.generation.get(start) is None:
        raise _not_supported(files.folder)
    path = files.folder / DESCRIPTION_NAME
    description = read_description(path) if path.exists() else {}
    for settings in (files.config, description):
        if settings.get("tokenizer_class") in _CODES_BEHIND:
            raise _not_supported(files.folder)


def _not_supported(folder: pathlib.Path) -> InputError:
    return InputError(
        f"{folder}: a model of mBART whose languages' codes are behind the text (mbart-large-cc25, "
        "and what was fine-tuned from it) is not supported, only mBART-50"
    )

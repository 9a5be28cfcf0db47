"""M2M100, NLLB and SMaLL-100 in Hugging Face's format.

A folder with `config.json`, `sentencepiece.bpe.model`, the tokenizer's description and the weights.
"""

import pathlib

from tf_transformer.config import TransformerConfig
from tf_transformer.config_checks import BeginEmbedding, LanguageTags
from tf_transformer.formats.hf.added_tokens import DESCRIPTION_NAME, read_description
from tf_transformer.formats.hf.fairseq_vocabulary import begin_notes, read_fairseq_vocabulary
from tf_transformer.formats.hf.folder import (
    FolderFiles,
    Seq2SeqSettings,
    check_settings,
    read_files,
    read_model_type,
)
from tf_transformer.formats.hf.generation import Generation
from tf_transformer.formats.hf.weights import (
    TARGET_EMBEDDING,
    FolderWeights,
    check_rows,
    keep_bias,
)
from tf_transformer.formats.imported_model import ImportedModel

_REQUIRED = {"model_type": "m2m_100"}
# The tokenizer of SMaLL-100, whose program is published with the model; it is never run.
_SMALL100, SMALL100_NAME = "SMALL100", "tokenization_small100.py"
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
        does not use. The tag of the target is the decoder's second input, of SMaLL-100 the source's
        first. A code such as `fra_Latn` or `__fr__` becomes the tag
        `>>fra_Latn<<` or `>>fr<<`.

        Args:
            path: the folder.

        Raises:
            InputError: a file is missing or damaged, the files do not fit together, or a setting is
                not supported.
        """
        files = read_files(path)
        settings, model_settings = check_settings(files, _REQUIRED)
        rows, source_model, target_model, notes = read_fairseq_vocabulary(path, settings)
        weights = FolderWeights(path, settings)
        for name in _TABLES:
            weights.drop(name)
        check_rows(weights, rows, rows)
        generation = Generation(files)
        target = generation.ban(rows)
        config = TransformerConfig(
            source_vocab_size=rows.vocab_size,
            target_vocab_size=rows.vocab_size,
            tied_embeddings=weights.tied_embeddings,
            logits_bias=keep_bias(weights, target),
            norm_position="pre",
            begin_embedding=_begin_embedding(settings, weights),
            language_tags=settings.language_tags or _language_tags(files),
            positions="concatenated",
            first_position=settings.pad_token_id + 1,  # as in fairseq
            **model_settings,
        )
        return ImportedModel(
            config,
            source_model,
            target_model,
            weights.convert(config, rows, target),
            (*notes, *begin_notes(path, generation, rows), *generation.notes),
        )


def _language_tags(files: FolderFiles) -> LanguageTags:
    """Returns where the tags are: SMaLL-100 has the target's before the source, and no other."""
    path = files.folder / DESCRIPTION_NAME
    description = read_description(path) if path.exists() else {}
    classes = [x.get("tokenizer_class") for x in (files.config, description)]
    is_small = any(isinstance(x, str) and x.startswith(_SMALL100) for x in classes)
    return "source" if is_small or (files.folder / SMALL100_NAME).exists() else "source_and_target"


def _begin_embedding(settings: Seq2SeqSettings, weights: FolderWeights) -> BeginEmbedding:
    if settings.decoder_start_token_id == settings.eos_token_id:
        return "end"
    return "own" if weights[TARGET_EMBEDDING][settings.decoder_start_token_id].any() else "zero"

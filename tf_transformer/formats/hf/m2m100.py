"""M2M100 and NLLB in Hugging Face's format.

A folder with `config.json`, `sentencepiece.bpe.model`, the tokenizer's description and the weights.
"""

import pathlib

from tf_transformer.config import TransformerConfig
from tf_transformer.config_checks import BeginEmbedding
from tf_transformer.formats.hf.fairseq_vocabulary import begin_notes, read_fairseq_vocabulary
from tf_transformer.formats.hf.folder import (
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
            language_tags=settings.language_tags or "source_and_target",
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


def _begin_embedding(settings: Seq2SeqSettings, weights: FolderWeights) -> BeginEmbedding:
    if settings.decoder_start_token_id == settings.eos_token_id:
        return "end"
    return "own" if weights[TARGET_EMBEDDING][settings.decoder_start_token_id].any() else "zero"

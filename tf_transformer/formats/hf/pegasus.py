"""Pegasus in Hugging Face's format."""

import pathlib
from typing import Any

from tf_transformer.config import TransformerConfig
from tf_transformer.formats.hf.folder import (
    check_settings,
    read_files,
    read_model_type,
)
from tf_transformer.formats.hf.generation import Generation
from tf_transformer.formats.hf.spiece_vocabulary import read_models, read_pegasus_vocabulary
from tf_transformer.formats.hf.weights import (
    TARGET_EMBEDDING,
    FolderWeights,
    check_rows,
    keep_bias,
)
from tf_transformer.formats.imported_model import ImportedModel
from tf_transformer.formats.position_tables import Layout

_REQUIRED: dict[str, Any] = {
    "model_type": "pegasus",
    "normalize_before": True,
    "add_final_layer_norm": True,
    "normalize_embedding": False,
    "static_position_embeddings": True,
}


class HFPegasus:
    """Pegasus, which writes summaries, in Hugging Face's format, see `ModelFormat`."""

    name = "hf-pegasus"

    def recognizes(self, path: pathlib.Path) -> bool:
        """Returns whether `config.json` names this architecture."""
        return read_model_type(path) == "pegasus"

    def read(self, path: pathlib.Path) -> ImportedModel:
        """Reads a model.

        The decoder starts with the pad id, whose row the begin id gets, too.

        Args:
            path: the folder.

        Raises:
            InputError: a file is missing or damaged, the files do not fit together, or a setting is
                not supported.
        """
        files = read_files(path)
        settings, model_settings = check_settings(files, _REQUIRED)
        rows, source_model, target_model, notes = read_models(
            path, settings, read_pegasus_vocabulary
        )
        generation = Generation(files)
        generation.check_no_forced_begin()
        target = generation.ban(rows.with_pad_as_output())
        weights = FolderWeights(path, settings)
        check_rows(weights, rows, rows)
        begin_row = weights[TARGET_EMBEDDING][settings.decoder_start_token_id]
        config = TransformerConfig(
            source_vocab_size=rows.vocab_size,
            target_vocab_size=rows.vocab_size,
            tied_embeddings=weights.tied_embeddings,
            logits_bias=keep_bias(weights, target),
            norm_position="pre",
            begin_embedding="own" if begin_row.any() else "zero",
            **(weights.positions or Layout("marian"))._asdict(),
            **model_settings,
        )
        return ImportedModel(
            config,
            source_model,
            target_model,
            weights.convert(config, rows, target),
            (*notes, *generation.notes),
        )

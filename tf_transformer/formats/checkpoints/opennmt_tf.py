"""Translation models of OpenNMT-tf: a checkpoint of TensorFlow, with its vocabularies."""

import pathlib
from collections.abc import Mapping
from typing import Any

from tf_transformer.config import TransformerConfig
from tf_transformer.config_checks import Positions
from tf_transformer.errors import InputError
from tf_transformer.formats.bundles.bundle import INDEX_SUFFIX, is_index, open_bundle
from tf_transformer.formats.checkpoints.opennmt_tf_folder import (
    find_index,
    find_vocabularies,
    read_vocabulary,
)
from tf_transformer.formats.checkpoints.opennmt_tf_settings import (
    OpenNMTTFSettings,
    check_settings,
    complete_settings,
)
from tf_transformer.formats.checkpoints.opennmt_tf_weights import (
    SOURCE,
    TARGET,
    Architecture,
    add_missing_biases,
    edits_of,
    names_of,
    read_architecture,
    select_weights,
)
from tf_transformer.formats.checkpoints.sentencepiece_files import make_tokenizers
from tf_transformer.formats.imported_model import ImportedModel
from tf_transformer.formats.naming import convert_weights
from tf_transformer.formats.vocabulary_rows import VocabularyRows
from tf_transformer.storage.regular_files import read_regular
from tf_transformer.storage.weight_shapes import weight_shapes

# A part of the names in an index, where a beginning that names share is stored once.
_MARK = b"xamples_inputter/"
_MAX_INDEX_BYTES = 2**25


class OpenNMTTF:
    """Translation models of OpenNMT-tf, see `ModelFormat`.

    Args:
        settings: what a checkpoint does not contain, fields of `OpenNMTTFSettings`.

    Raises:
        InputError: a setting is unknown or wrong.
    """

    name = "opennmt-tf"

    def __init__(self, settings: Mapping[str, Any] | None = None):
        self._given = dict(settings or {})
        check_settings(self._given, self.name)

    def recognizes(self, path: pathlib.Path) -> bool:
        """Returns whether a file is the index of such a checkpoint, or a folder has one."""
        try:
            index = find_index(path)
            if index.suffix != INDEX_SUFFIX or not is_index(index):
                return False
            return _MARK in read_regular(index, _MAX_INDEX_BYTES)
        except (InputError, OSError):
            return False

    def read(self, path: pathlib.Path) -> ImportedModel:
        """Reads a model.

        Args:
            path: the index of the checkpoint, or its folder.

        Raises:
            InputError: a file is missing or damaged, the files do not fit together, a feature is
                not supported, or a setting must be given.
        """
        index = find_index(path)
        if index.suffix != INDEX_SUFFIX:
            raise InputError(
                f"{path}: expected a folder, or a file *{INDEX_SUFFIX} of a checkpoint"
            )
        weights = select_weights(open_bundle(index))
        architecture = read_architecture(weights)
        files = find_vocabularies(index)
        source = read_vocabulary(files.paths[0], is_target=False)
        target = read_vocabulary(files.paths[1], is_target=True)
        weights.check_rows(SOURCE, source.original_size)
        if architecture.tied_embeddings in ("none", "target"):
            weights.check_rows(TARGET, target.original_size)
        elif source.pieces != target.pieces:
            raise InputError(f"{index}: the sides share embeddings, which needs equal vocabularies")
        settings, notes = complete_settings(self._given, architecture, index, files.run)
        config = _config(architecture, settings, source, target)
        tokenizers = make_tokenizers(
            files.folder, source, target, (None, None), "ASCII white space"
        )
        add_missing_biases(weights)
        edits = edits_of(source, target)
        return ImportedModel(
            config,
            tokenizers.source,
            tokenizers.target,
            convert_weights(weight_shapes(config), names_of(architecture), weights, edits),
            (*notes, *tokenizers.notes),
        )


def _config(
    architecture: Architecture,
    settings: OpenNMTTFSettings,
    source: VocabularyRows,
    target: VocabularyRows,
) -> TransformerConfig:
    is_relative = architecture.relative_distance > 0
    positions: Positions = settings.positions or ("none" if is_relative else "concatenated")
    if architecture.num_positions:
        positions = "learned"
    num_encoder_layers, num_decoder_layers = architecture.num_layers
    return TransformerConfig(
        source_vocab_size=source.vocab_size,
        target_vocab_size=target.vocab_size,
        num_encoder_layers=num_encoder_layers,
        num_decoder_layers=num_decoder_layers,
        d_model=architecture.d_model,
        d_ff=architecture.d_ff,
        num_heads=settings.num_heads,
        norm_position=architecture.norm_position,
        layer_norm_epsilon=settings.layer_norm_epsilon,
        positions=positions,
        first_position=1 if positions == "concatenated" else 0,
        relative_positions="keys_values" if is_relative else "none",
        max_relative_distance=architecture.relative_distance if is_relative else 16,
        activation=settings.activation,
        tied_embeddings=architecture.tied_embeddings,
        logits_bias=architecture.logits_bias,
        source_end=settings.source_end,
        max_length=architecture.max_length,
        dropout_rate=settings.dropout_rate,
        attention_dropout_rate=settings.attention_dropout_rate,
        feed_forward_dropout_rate=settings.feed_forward_dropout_rate,
    )

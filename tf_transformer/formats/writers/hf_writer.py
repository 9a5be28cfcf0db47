"""Conversion of a model directory to Hugging Face's format.

Post-norm models become Marian, pre-norm models M2M100, and others what they were imported from.
Their tokenizers are those of `hf_tokenizers`.
"""

import itertools
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tf_transformer.config import TransformerConfig
from tf_transformer.decoding.search_options import DEFAULT_BEAM_SIZE
from tf_transformer.errors import InputError
from tf_transformer.formats.hf.folder import CONFIG_NAME
from tf_transformer.formats.hf.weights import (
    LOGITS_BIAS,
    NAMES,
    POSITIONS,
    SHARED_EMBEDDING,
    SOURCE_EMBEDDING,
    TARGET_EMBEDDING,
    WEIGHTS_NAMES,
)
from tf_transformer.formats.naming import revert_weights, reverted_shapes
from tf_transformer.formats.position_tables import SINUSOIDS, Layout, sinusoid_table
from tf_transformer.formats.supported import ModelToConvert, check_equal_heads, check_supported
from tf_transformer.formats.writers.hf_architectures import architecture_of
from tf_transformer.formats.writers.hf_t5_writer import (
    check_t5,
    is_t5,
    t5_settings,
    write_t5_weights,
)
from tf_transformer.formats.writers.hf_tokenizers import TokenizerFiles, names_of, tokenizer_files
from tf_transformer.formats.writers.safetensors_writer import write_safetensors
from tf_transformer.storage.json_files import write_json
from tf_transformer.storage.model_dir import WEIGHTS_NAME
from tf_transformer.storage.weight_shapes import weight_shapes
from tf_transformer.storage.weights_file import read_arrays
from tf_transformer.text.special_ids import BEGIN_ID, END_ID, PAD_ID, SUPPRESSED_IDS, UNKNOWN_ID
from tf_transformer.text.vocabulary import Vocabulary

_NAME = "hf"


# The names of a shared embedding: Transformers writes the first of a tied weight's. It does not tie
# the embeddings of source and target if the logits have a matrix of their own.
_TIED_NAMES: dict[str | None, dict[str, list[str]]] = {
    "all": {TARGET_EMBEDDING: [SHARED_EMBEDDING]},
    "inputs": {TARGET_EMBEDDING: [SHARED_EMBEDDING, SOURCE_EMBEDDING, TARGET_EMBEDDING]},
}
_EPSILON = 1e-5  # of Transformers, not a setting


def write_hf(model: ModelToConvert, output: pathlib.Path) -> list[str]:
    """Writes the files that a model of Transformers and `MarianTokenizer` load.

    If its embeddings are normalized, the model is an `MBartForConditionalGeneration` with the norms
    before the sublayers, and a `BartForConditionalGeneration` with the norms behind them; otherwise
    a `PegasusForConditionalGeneration` or `M2M100ForConditionalGeneration`, by its positions, or
    a `MarianMTModel`. With `relative_positions="buckets"` it is a `T5ForConditionalGeneration`.

    Args:
        model: the model.
        output: an existing folder.

    Returns:
        What the format changes, a sentence each.

    Raises:
        InputError: the format cannot hold the model.
    """
    model_dir, config, source, target = model
    check_convertible(config)
    _check_tokenizer(config, target)
    if config.tied_embeddings in ("all", "inputs") and names_of(source) != names_of(target):
        raise InputError(
            f"{model_dir}: source and target share an embedding, so that the format {_NAME} needs "
            "the same pieces in source.spm and target.spm"
        )
    files = tokenizer_files(model, _order(config))
    own = t5_settings(config) if is_t5(config) else _settings(config, files)
    ids = _ids(files)
    length = {"model_max_length": config.max_length}
    write_json(output / CONFIG_NAME, own | ids)
    write_json(output / "generation_config.json", _generation(config, files.rows) | ids)
    write_json(output / "tokenizer_config.json", files.description() | length)
    files.write(output)
    if is_t5(config):
        write_t5_weights(model_dir / WEIGHTS_NAME, config, output / WEIGHTS_NAMES[0])
    else:
        _write_weights(model_dir, config, output / WEIGHTS_NAMES[0], files.rows)
    return [*_changes(config), *files.notes()]


def check_convertible(config: TransformerConfig) -> None:
    """Checks that the format can hold a model.

    Raises:
        InputError: it cannot; the message names the setting.
    """
    if is_t5(config):
        check_t5(config)
        return
    check_supported(config, _NAME, architecture_of(config).supported)
    encoder, decoder = config.side("encoder"), config.side("decoder")
    if encoder.d_model != decoder.d_model:
        raise InputError(
            f"the format {_NAME} cannot hold a model with encoder.d_model={encoder.d_model} and "
            f"decoder.d_model={decoder.d_model}"
        )
    check_equal_heads(config, _NAME)
    if config.layer_norm_epsilon > _EPSILON:
        raise InputError(
            f"the format {_NAME} cannot hold a model with layer_norm_epsilon="
            f"{config.layer_norm_epsilon}, only up to {_EPSILON}"
        )


def _check_tokenizer(config: TransformerConfig, target: Vocabulary) -> None:
    """Checks that byte-level BPE is that of a BART: other models have no such tokenizer."""
    if target.is_byte_level and (is_t5(config) or architecture_of(config).model_type != "bart"):
        raise InputError(
            f"the format {_NAME} cannot hold byte-level BPE in any model but BART's, which has "
            "norm_position='post' and embedding_norm=True"
        )


def _settings(config: TransformerConfig, files: TokenizerFiles) -> dict[str, Any]:
    encoder, decoder = config.side("encoder"), config.side("decoder")
    architecture = architecture_of(config)
    return {
        "architectures": [architecture.class_name],
        "model_type": architecture.model_type,
        "is_encoder_decoder": True,
        "vocab_size": len(files.source_rows),
        "decoder_vocab_size": len(files.rows),
        "share_encoder_decoder_embeddings": config.tied_embeddings in ("all", "inputs"),
        "tie_word_embeddings": config.logits_tied,
        "d_model": config.d_model,
        "encoder_layers": config.num_encoder_layers,
        "decoder_layers": config.num_decoder_layers,
        "encoder_attention_heads": encoder.num_heads,
        "decoder_attention_heads": decoder.num_heads,
        "encoder_ffn_dim": encoder.d_ff,
        "decoder_ffn_dim": decoder.d_ff,
        "activation_function": config.activation,
        "dropout": config.dropout_rate,
        "attention_dropout": config.dropout_rate_of("attention"),
        "activation_dropout": config.dropout_rate_of("feed_forward"),
        "max_position_embeddings": config.num_positions
        if config.positions == "learned"
        else config.max_length,
        "scale_embedding": config.scaled_embeddings,
        "language_tags": config.language_tags,  # not a setting of Transformers
    }


def _order(config: TransformerConfig) -> list[int]:
    """Returns our id of each of their first ids; all others are the same.

    M2M100 counts positions from the pad id + 1.
    """
    if is_t5(config):
        return [PAD_ID, UNKNOWN_ID]
    is_second = not architecture_of(config).stores_positions and config.first_position == 2
    return [UNKNOWN_ID, PAD_ID] if is_second else [PAD_ID, UNKNOWN_ID]


def _ids(files: TokenizerFiles) -> dict[str, int]:
    pad, end = (files.rows.index(token_id) for token_id in (PAD_ID, END_ID))
    return {"pad_token_id": pad, "eos_token_id": end, "forced_eos_token_id": end, **files.ids()}


def _generation(config: TransformerConfig, rows: Sequence[int]) -> dict[str, Any]:
    """Returns settings of `generate`: what this project's search never produces is suppressed."""
    return {
        "max_length": config.max_length,
        "num_beams": DEFAULT_BEAM_SIZE,
        "suppress_tokens": [row for row, own in enumerate(rows) if own in SUPPRESSED_IDS],
    }


def _write_weights(
    model_dir: pathlib.Path, config: TransformerConfig, path: pathlib.Path, rows: Sequence[int]
) -> None:
    shapes = weight_shapes(config)
    added = {}
    architecture = architecture_of(config)
    if architecture.has_bias and not config.logits_bias:
        added[LOGITS_BIAS] = np.zeros(config.target_vocab_size, "float32")
    if architecture.stores_positions and config.positions in SINUSOIDS:
        layout = Layout(config.positions, config.first_position)
        table = sinusoid_table(layout, config.max_length, config.d_model)
        added |= dict.fromkeys(POSITIONS, table)
    as_row = (1, len(rows))  # of the bias

    def arrays() -> Iterator[tuple[str, np.ndarray]]:
        weights = read_arrays(model_dir / WEIGHTS_NAME, shapes)
        for name, array in itertools.chain(revert_weights(NAMES, weights), added.items()):
            if name == TARGET_EMBEDDING:
                array = _embedding(array, config, rows)
            if name == LOGITS_BIAS:
                array = array[rows].reshape(as_row)
            if name in learned:
                array = np.pad(array, ((architecture.unused_positions, 0), (0, 0)))
            for written_name in renamed.get(name, [name]):
                yield written_name, array

    renamed = _TIED_NAMES.get(config.tied_embeddings, {})
    learned = POSITIONS if config.positions == "learned" else ()
    original = reverted_shapes(NAMES, shapes) | {name: x.shape for name, x in added.items()}
    for name in learned:
        length, width = original[name]
        original[name] = (length + architecture.unused_positions, width)
    original[TARGET_EMBEDDING] = (len(rows), *original[TARGET_EMBEDDING][1:])
    written = {
        written_name: as_row if name == LOGITS_BIAS else shape
        for name, shape in original.items()
        for written_name in renamed.get(name, [name])
    }
    write_safetensors(path, written, arrays())


def _embedding(matrix: np.ndarray, config: TransformerConfig, rows: Sequence[int]) -> np.ndarray:
    """Returns the rows of the target embedding in the order of the written ids."""
    matrix = matrix[rows]
    if config.begin_embedding == "zero":
        matrix[rows.index(BEGIN_ID)] = 0
    return matrix


def _changes(config: TransformerConfig) -> list[str]:
    changes = ["Transformers divides scores by length ** length_penalty, not ((5 + length) / 6)."]
    if is_t5(config):
        return [*changes, "The logits of the begin id, which starts the decoder, count."]
    if config.layer_norm_epsilon != _EPSILON:
        changes.append(f"layer_norm_epsilon={config.layer_norm_epsilon} becomes {_EPSILON}.")
    if config.begin_embedding == "zero":
        changes.append("The embedding of the begin id is zero in the logits, too.")
    return changes

"""Translation models of OpenNMT-py: a checkpoint, with its vocabularies."""

import dataclasses
import math
import pathlib
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from tf_transformer.config import TransformerConfig
from tf_transformer.errors import InputError
from tf_transformer.formats.checkpoints.files import (
    SUFFIX,
    find_checkpoint,
    read_checkpoint,
    tensors_of,
)
from tf_transformer.formats.checkpoints.opennmt_py_settings import (
    OpenNMTPySettings,
    read_settings,
)
from tf_transformer.formats.checkpoints.sentencepiece_files import make_tokenizers
from tf_transformer.formats.imported_model import ImportedModel
from tf_transformer.formats.naming import Edits, Naming, convert_weights
from tf_transformer.formats.tensors.opening import open_tensors, pickle_begin
from tf_transformer.formats.tensors.renamed_tensors import RenamedTensors
from tf_transformer.formats.tensors.tensor_file import TensorFile
from tf_transformer.formats.vocabulary_rows import VocabularyRows, row_edits
from tf_transformer.printable import shown
from tf_transformer.storage.weight_shapes import weight_shapes

_PROGRAM = "OpenNMT-py"
_SAFETENSORS = ".safetensors"  # of the weights, beside a checkpoint without them
_PAD, _UNKNOWN, _BEGIN, _END = "<blank>", "<unk>", "<s>", "</s>"
_EMBEDDING = "make_embedding.emb_luts.0.weight"
_SOURCE, _TARGET = f"encoder.embeddings.{_EMBEDDING}", f"decoder.embeddings.{_EMBEDDING}"
_LOGITS = "generator.weight"
NAMES = Naming(
    layer="encoder.transformer.{index}",
    decoder_layer="decoder.transformer_layers.{index}",
    self_attention="{layer}.self_attn",
    cross_attention="{layer}.context_attn",
    projections=tuple(
        f"{{attention}}.{name}"
        for name in ("linear_query", "linear_keys", "linear_values", "final_linear")
    ),
    # The same vectors for keys and values.
    relative=("{attention}.relative_positions_embeddings.weight",) * 2,
    norms={
        "encoder": ("{layer}.layer_norm", "", "{layer}.feed_forward.layer_norm"),
        "decoder": (
            "{layer}.layer_norm_1",
            "{layer}.layer_norm_2",
            "{layer}.feed_forward.layer_norm",
        ),
    },
    final_norm="{stack}.layer_norm",
    inner="{layer}.feed_forward.w_1",
    outer="{layer}.feed_forward.w_2",
    matrix=".weight",
    vector=".bias",
    gain=".weight",
    shift=".bias",
    embeddings=(_SOURCE, _TARGET),
    logits="generator",
    logits_bias="generator.bias",
)
_GATED = dataclasses.replace(NAMES, gated="{layer}.feed_forward.w_3")
# The names of versions 1 and 2, and what they were renamed to.
_OLD_NAMES = (
    (r"^generator\.0\.", "generator."),
    (r"(\.layer_norm(_\d)?)\.a_2$", r"\1.weight"),
    (r"(\.layer_norm(_\d)?)\.b_2$", r"\1.bias"),
)
# Dense layers that have biases only if an option says so: those of attention, and of feed-forward.
_WITHOUT_BIAS = (
    r".*_attn\.(linear_query|linear_keys|linear_values|final_linear)",
    r".*\.feed_forward\.w_[123]",
)
# Names of weights are in the first bytes of a checkpoint.
_NUM_BEGIN_BYTES = 2**20


class OpenNMTPy:
    """Translation models of OpenNMT-py, see `ModelFormat`."""

    name = "opennmt-py"

    def recognizes(self, path: pathlib.Path) -> bool:
        """Returns whether a file, or the only checkpoint of a folder, has such weights."""
        try:
            path = find_checkpoint(path)
            if path.suffix != SUFFIX:
                return False
            begin = pickle_begin(path, _NUM_BEGIN_BYTES)
        except (InputError, OSError):
            return False
        has_weights = path.with_suffix(_SAFETENSORS).exists() and b"decoder_start_token" in begin
        return has_weights or _TARGET.encode() in begin

    def read(self, path: pathlib.Path) -> ImportedModel:
        """Reads a model.

        Sources have no end in this program: the setting `source_end` is False.

        Args:
            path: the checkpoint, or its folder.

        Raises:
            InputError: a file is missing or damaged, the files do not fit together, or a setting is
                not supported.
        """
        path = find_checkpoint(path)
        checkpoint = read_checkpoint(path, _PROGRAM, ["vocab", "opt"])
        settings = read_settings(_options(checkpoint, path), path)
        source, target, begin = _read_vocabularies(checkpoint, path)
        weights = RenamedTensors(_tensors(checkpoint, path), _renamed)
        if settings.share_embeddings and source.pieces != target.pieces:
            raise InputError(f"{path}: share_embeddings needs equal vocabularies of both sides")
        _remove_copies(weights, settings)
        weights.check_rows(_TARGET, target.original_size)
        if not settings.share_embeddings:
            weights.check_rows(_SOURCE, source.original_size)
        _add_missing_biases(weights)
        is_gated = any(".w_3." in name for name in weights)
        config = TransformerConfig(
            source_vocab_size=source.vocab_size,
            target_vocab_size=target.vocab_size,
            d_model=(weights.shape(_TARGET) or (0, 0))[1],
            begin_embedding="end" if begin == _END else "own",
            **settings.model_settings(is_gated),
        )
        tokenizers = make_tokenizers(path.parent, source, target, (None, None), "spaces")
        naming = _GATED if is_gated else NAMES
        edits = _edits(config, settings, source, target)
        return ImportedModel(
            config,
            tokenizers.source,
            tokenizers.target,
            convert_weights(weight_shapes(config), naming, weights, edits),
            tokenizers.notes,
        )


def _options(checkpoint: Mapping[str, Any], path: pathlib.Path) -> dict[str, Any]:
    options = checkpoint["opt"]
    if not isinstance(options, dict):
        raise InputError(f"{path}: opt must be a namespace, got {shown(options)}")
    return options


def _read_vocabularies(
    checkpoint: Mapping[str, Any], path: pathlib.Path
) -> tuple[VocabularyRows, VocabularyRows, str]:
    """Returns the vocabularies of source and target, and the token that starts the decoder."""
    vocabularies = checkpoint["vocab"]
    if not isinstance(vocabularies, dict):
        raise InputError(f"{path}: vocab is of a version before 1.0, not supported")
    if vocabularies.get("src_feats"):
        raise InputError(f"{path}: src_feats (features of words) are not supported")
    begin = vocabularies.get("decoder_start_token", _BEGIN)
    if begin not in (_BEGIN, _END):
        raise InputError(
            f"{path}: decoder_start_token={shown(begin)} is not supported, only {_BEGIN} or {_END}"
        )
    source, target = (_tokens(vocabularies.get(side), side, path) for side in ("src", "tgt"))
    # In versions 1 and 2 the source has neither begin nor end; no computation reads their rows.
    missing = {token: _PAD for token in (_BEGIN, _END) if token not in source}
    return (
        _rows(source, missing.get(_BEGIN, _BEGIN), missing.get(_END, _END), path),
        _rows(target, _BEGIN if _BEGIN in target else begin, _END, path),
        begin,
    )


def _tokens(vocabulary: Any, side: str, path: pathlib.Path) -> list[str]:
    """Returns the tokens by id: a list, or in versions 1 and 2 that in an object of torchtext."""
    match vocabulary:
        case {"fields": [(_, {"vocab": {"itos": list(tokens)}}), *_]}:
            pass
        case list(tokens) | tuple(tokens):
            pass
        case _:
            raise InputError(f"{path}: vocab: {side} must be a list of tokens")
    if not all(isinstance(token, str) for token in tokens) or len(set(tokens)) != len(tokens):
        raise InputError(f"{path}: vocab: the tokens of {side} must be different strings")
    return list(tokens)


def _rows(tokens: list[str], begin: str, end: str, path: pathlib.Path) -> VocabularyRows:
    for token in (_PAD, _UNKNOWN, begin, end):
        if token not in tokens:
            raise InputError(f"{path}: vocab: expected the token {token}")
    return VocabularyRows.of(
        tokens,
        pad=tokens.index(_PAD),
        unknown=tokens.index(_UNKNOWN),
        begin=tokens.index(begin),
        end=tokens.index(end),
    )


def _tensors(checkpoint: Mapping[str, Any], path: pathlib.Path) -> TensorFile:
    """Returns the weights, which version 3.4 can store in a file of their own."""
    if checkpoint.get("model") is not None:
        if checkpoint.get("generator") is None:
            raise InputError(f"{path}: expected a checkpoint of {_PROGRAM}, with generator")
        return tensors_of(checkpoint, path, "model", "generator")
    if path.with_suffix(_SAFETENSORS).exists():
        return open_tensors(path.with_suffix(_SAFETENSORS))
    raise InputError(
        f"{path}: no weights; expected the entry model, or {path.stem}{_SAFETENSORS} beside it"
    )


def _renamed(name: str) -> str | None:
    """Returns the name that an entry has in version 3; None if it is a table of sinusoids."""
    if name.endswith(".embeddings.make_embedding.pe.pe"):
        return None
    for pattern, replacement in _OLD_NAMES:
        name = re.sub(pattern, replacement, name)
    return name


def _remove_copies(weights: RenamedTensors, settings: OpenNMTPySettings) -> None:
    names = [_TARGET]
    if settings.share_embeddings:
        names.append(_SOURCE)
    if settings.tied_embeddings in ("target", "all"):
        names.append(_LOGITS)
    weights.keep_one(names)


def _add_missing_biases(weights: RenamedTensors) -> None:
    """Adds zeros for the biases of dense layers, if none of their kind has one."""
    for layer in _WITHOUT_BIAS:
        if not any(re.fullmatch(rf"{layer}\.bias", name) for name in weights):
            for name in [name for name in weights if re.fullmatch(rf"{layer}\.weight", name)]:
                shape = weights.shape(name) or (0,)
                weights.add(f"{name.removesuffix('weight')}bias", np.zeros(shape[0], "float32"))


def _edits(
    config: TransformerConfig,
    settings: OpenNMTPySettings,
    source: VocabularyRows,
    target: VocabularyRows,
) -> Edits:
    edits = row_edits(source, target)
    if settings.position_encoding:
        return edits
    scale = np.float32(1 / math.sqrt(config.d_model))
    return {
        **edits,
        "source_embedding/embeddings": lambda matrix: matrix[source.rows] * scale,
        "target_embedding/embeddings": lambda matrix: matrix[target.rows] * scale,
    }

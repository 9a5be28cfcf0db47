"""Translation models of fairseq: a checkpoint, and the dictionaries beside it."""

import dataclasses
import pathlib
import re

from tf_transformer.config import TransformerConfig
from tf_transformer.config_checks import SIDES
from tf_transformer.errors import InputError
from tf_transformer.formats.checkpoints.fairseq_dictionary import (
    PATTERN,
    find_languages,
    read_dictionary,
)
from tf_transformer.formats.checkpoints.fairseq_settings import (
    FIRST_POSITION,
    FairseqSettings,
    read_settings,
)
from tf_transformer.formats.checkpoints.files import (
    SUFFIX,
    find_checkpoint,
    read_checkpoint,
    tensors_of,
)
from tf_transformer.formats.checkpoints.sentencepiece_files import make_tokenizers
from tf_transformer.formats.imported_model import ImportedModel
from tf_transformer.formats.naming import Edits, Naming, convert_weights
from tf_transformer.formats.tensors.renamed_tensors import RenamedTensors
from tf_transformer.formats.tensors.tensor_file import TensorFile
from tf_transformer.formats.vocabulary_rows import VocabularyRows, row_edits
from tf_transformer.storage.weight_shapes import weight_shapes

_CHECKPOINTS = ("model.pt", "checkpoint_best.pt", "checkpoint_last.pt")
_SOURCE, _TARGET = "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"
_LOGITS = "decoder.output_projection.weight"
NAMES = Naming(
    layer="{stack}.layers.{index}",
    self_attention="{layer}.self_attn",
    cross_attention="{layer}.encoder_attn",
    projections=tuple(f"{{attention}}.{name}_proj" for name in ("q", "k", "v", "out")),
    norms={
        "encoder": ("{layer}.self_attn_layer_norm", "", "{layer}.final_layer_norm"),
        "decoder": (
            "{layer}.self_attn_layer_norm",
            "{layer}.encoder_attn_layer_norm",
            "{layer}.final_layer_norm",
        ),
    },
    final_norm="{stack}.layer_norm",
    inner="{layer}.fc1",
    outer="{layer}.fc2",
    matrix=".weight",
    vector=".bias",
    gain=".weight",
    shift=".bias",
    embeddings=(_SOURCE, _TARGET),
    logits="decoder.output_projection",
    positions=("encoder.embed_positions.weight", "decoder.embed_positions.weight"),
)
# Entries that are no weights: versions, tables of sinusoids, and a tensor that stands for a type.
_NO_WEIGHT = re.compile(
    r"(encoder|decoder)\.(version|_future_mask|embed_positions\.(weights|_float_tensor))"
)
# Names of fairseq before 0.8, and what they were renamed to.
_OLD_NAMES = (
    (r"^decoder\.embed_out$", _LOGITS),
    (r"\.in_proj_(weight|bias)$", r".in_proj.\1"),
    (r"^(encoder\..*|decoder\..*)\.layer_norms\.0\.", r"\1.self_attn_layer_norm."),
    (r"^(encoder\..*)\.layer_norms\.1\.", r"\1.final_layer_norm."),
    (r"^(decoder\..*)\.layer_norms\.1\.", r"\1.encoder_attn_layer_norm."),
    (r"^(decoder\..*)\.layer_norms\.2\.", r"\1.final_layer_norm."),
)
_OLD_PROJECTIONS = (*(f"{{attention}}.in_proj[{i}/3]" for i in range(3)), "{attention}.out_proj")


class Fairseq:
    """Translation models of fairseq, see `ModelFormat`."""

    name = "fairseq"

    def recognizes(self, path: pathlib.Path) -> bool:
        """Returns whether there are a checkpoint and, beside it, dictionaries."""
        folder = path if path.is_dir() else path.parent
        checkpoints = folder.glob(f"*{SUFFIX}") if path.is_dir() else [path]
        has_checkpoint = any(file.suffix == SUFFIX and file.is_file() for file in checkpoints)
        return has_checkpoint and any(folder.glob(PATTERN))

    def read(self, path: pathlib.Path) -> ImportedModel:
        """Reads a model.

        The decoder starts with the end id. The begin id gets the row of `<s>`, which the original
        does not use.

        Args:
            path: the checkpoint, or its folder.

        Raises:
            InputError: a file is missing or damaged, the files do not fit together, or a setting is
                not supported.
        """
        path = find_checkpoint(path, _CHECKPOINTS)
        checkpoint = read_checkpoint(path, "fairseq", ["model"])
        settings = read_settings(checkpoint, path)
        tensors = tensors_of(checkpoint, path, "model")
        weights = RenamedTensors(tensors, _renamed)
        languages = _languages(weights, settings)
        source, target = (read_dictionary(path.parent, language) for language in languages)
        _check_sizes(weights, settings, source, target)
        config = TransformerConfig(
            source_vocab_size=source.vocab_size,
            target_vocab_size=target.vocab_size,
            **settings.model_settings({side: _version(tensors, side) for side in SIDES}),
        )
        edits = {**row_edits(source, target), **_position_edits(config)}
        tokenizers = make_tokenizers(path.parent, source, target, languages, "white space")
        return ImportedModel(
            config,
            tokenizers.source,
            tokenizers.target,
            convert_weights(weight_shapes(config), _naming(weights), weights, edits),
            tokenizers.notes,
        )


def _renamed(name: str) -> str | None:
    """Returns the name that an entry has in new checkpoints; None if it is not a weight."""
    if _NO_WEIGHT.fullmatch(name):
        return None
    for pattern, replacement in _OLD_NAMES:
        name = re.sub(pattern, replacement, name)
    return name


def _naming(weights: RenamedTensors) -> Naming:
    is_old = any(name.endswith(".in_proj.weight") for name in weights)
    return dataclasses.replace(NAMES, projections=_OLD_PROJECTIONS) if is_old else NAMES


def _version(tensors: TensorFile, side: str) -> float:
    """Returns the version of a stack; old models have none."""
    name = f"{side}.version"
    return float(tensors[name].ravel()[0]) if tensors.shapes.get(name) in ((), (1,)) else 1.0


def _languages(weights: RenamedTensors, settings: FairseqSettings) -> tuple[str, str]:
    """Returns the languages, which fairseq stores only if they were options of its command."""
    if settings.source_lang is not None and settings.target_lang is not None:
        return settings.source_lang, settings.target_lang
    sizes = [(weights.shape(name) or (0,))[0] for name in (_SOURCE, _TARGET)]
    return find_languages(weights.path.parent, sizes[0], sizes[1])


def _check_sizes(
    weights: RenamedTensors,
    settings: FairseqSettings,
    source: VocabularyRows,
    target: VocabularyRows,
) -> None:
    """Checks the embeddings, and leaves out the copies of those that are shared."""
    if settings.tied_embeddings == "all":
        if source.pieces != target.pieces:
            raise InputError(
                f"{weights.path}: share_all_embeddings needs equal dictionaries of both languages"
            )
        weights.keep_one([_TARGET, _SOURCE, _LOGITS])
    else:
        weights.check_rows(_SOURCE, source.original_size)
        if settings.tied_embeddings == "target":
            weights.keep_one([_TARGET, _LOGITS])
    weights.check_rows(_TARGET, target.original_size)


def _position_edits(config: TransformerConfig) -> Edits:
    """Returns the edits that leave the positions of tokens, of which both sides have as many."""
    rows = slice(FIRST_POSITION, FIRST_POSITION + config.max_length)
    return {f"{side}_positions/vectors": lambda table: table[rows] for side in ("source", "target")}

"""Weights in folders of Hugging Face's Transformers."""

import pathlib
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from tf_transformer.config import TransformerConfig
from tf_transformer.config_checks import TiedEmbeddings
from tf_transformer.errors import InputError
from tf_transformer.formats.naming import Naming, convert_weights
from tf_transformer.formats.position_tables import Layout, recognize_sinusoids
from tf_transformer.formats.tensors.opening import open_tensors
from tf_transformer.formats.tensors.renamed_tensors import RenamedTensors
from tf_transformer.formats.tensors.tensor_file import TensorFile
from tf_transformer.formats.vocabulary_rows import VocabularyRows, row_edits
from tf_transformer.storage.weight_shapes import weight_shapes

# In the order in which Transformers looks for them.
WEIGHTS_NAMES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
LEARNED = Layout("learned")
# Tables of positions, which Transformers computes if a file has none.
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")

_PREFIX = "model."
SHARED_EMBEDDING = "model.shared.weight"
SOURCE_EMBEDDING = "model.encoder.embed_tokens.weight"
TARGET_EMBEDDING = "model.decoder.embed_tokens.weight"
LOGITS, LOGITS_BIAS = "lm_head.weight", "final_logits_bias"

NAMES = Naming(
    layer="model.{stack}.layers.{index}",
    self_attention="{layer}.self_attn",
    cross_attention="{layer}.encoder_attn",
    projections=tuple(f"{{attention}}.{name}_proj" for name in ("q", "k", "v", "out")),
    norms={
        stack: (
            "{layer}.self_attn_layer_norm",
            "{layer}.encoder_attn_layer_norm",
            "{layer}.final_layer_norm",
        )
        for stack in ("encoder", "decoder")
    },
    final_norm="model.{stack}.layer_norm",
    inner="{layer}.fc1",
    outer="{layer}.fc2",
    matrix=".weight",
    vector=".bias",
    gain=".weight",
    shift=".bias",
    embeddings=(SOURCE_EMBEDDING, TARGET_EMBEDDING),
    logits="lm_head",
    logits_bias=LOGITS_BIAS,
    positions=POSITIONS,
    embedding_norms=("model.encoder.layernorm_embedding", "model.decoder.layernorm_embedding"),
)


def open_weights(folder: pathlib.Path) -> TensorFile:
    """Opens the weights of a folder.

    Raises:
        InputError: there are none, or the file is damaged.
    """
    paths = [folder / name for name in WEIGHTS_NAMES if (folder / name).exists()]
    if not paths:
        raise InputError(f"{folder}: no weights; expected {' or '.join(WEIGHTS_NAMES[::2])}")
    return open_tensors(paths[0])


class EmbeddingSettings(Protocol):
    """What the settings of a folder say of its embeddings."""

    @property
    def d_model(self) -> int:
        """Width."""

    @property
    def tie_word_embeddings(self) -> bool:
        """Whether target embedding and logits share a matrix."""

    @property
    def share_encoder_decoder_embeddings(self) -> bool:
        """Whether source and target embedding share a matrix."""


def _lacks_prefix(file: TensorFile) -> bool:
    """Returns whether a file is of a model without its logits, such as that of bart-base."""
    return not any(name.startswith(_PREFIX) for name in file)


def _rename(name: str) -> str:
    return name if name in (LOGITS, LOGITS_BIAS) else _PREFIX + name


class FolderWeights(RenamedTensors):
    """The arrays of a folder, with each tied weight once and without tables of sinusoids.

    Files contain one or several of the names of a tied weight; copies must be equal. Transformers 5
    shares no embedding unless `tie_word_embeddings`, in spite of
    `share_encoder_decoder_embeddings`.

    Args:
        folder: folder of the model.
        settings: the model's settings.
        unused_positions: number of rows of learned positions that no token has.

    Attributes:
        positions: the layout of the tables of sinusoids, `LEARNED` if they are others, or None if
            there are none.
        tied_embeddings: the setting of `TransformerConfig`.

    Raises:
        InputError: there are no weights, the file is damaged, or a copy has other values.
    """

    def __init__(
        self, folder: pathlib.Path, settings: EmbeddingSettings, unused_positions: int = 0
    ):
        file = open_weights(folder)
        super().__init__(file, _rename if _lacks_prefix(file) else None)
        self._unused_positions = unused_positions
        self.tied_embeddings = self._remove_copies(settings)
        self.positions = self._recognize_positions(settings.d_model)
        if self.positions != LEARNED:
            for name in POSITIONS:
                self.drop(name)

    def _remove_copies(self, settings: EmbeddingSettings) -> TiedEmbeddings:
        is_shared = settings.share_encoder_decoder_embeddings
        if settings.tie_word_embeddings:
            inputs = [SHARED_EMBEDDING, SOURCE_EMBEDDING] if is_shared else []
            self.keep_one([TARGET_EMBEDDING, *inputs, LOGITS])
            return "all" if is_shared else "target"
        shared = self._stored_names.pop(SHARED_EMBEDDING, None)
        if shared is not None:
            for name in (SOURCE_EMBEDDING, TARGET_EMBEDDING):
                self._stored_names.setdefault(name, shared)
        if is_shared and self.equal(SOURCE_EMBEDDING, TARGET_EMBEDDING):
            del self._stored_names[SOURCE_EMBEDDING]
            return "inputs"
        return "none"

    def convert(
        self, config: TransformerConfig, source: VocabularyRows, target: VocabularyRows
    ) -> Iterator[tuple[str, np.ndarray]]:
        """Returns the name and the value of each weight of the model, see `convert_weights`.

        Args:
            config: the settings of the model.
            source: the vocabulary of the source.
            target: the vocabulary of the target.

        Raises:
            InputError: see `convert_weights`.
        """
        edits = dict(row_edits(source, target))
        for side in ("source", "target"):
            edits[f"{side}_positions/vectors"] = lambda table: table[self._unused_positions :]
        return convert_weights(weight_shapes(config), NAMES, self, edits)

    def _recognize_positions(self, width: int) -> Layout | None:
        layouts: set[Layout] = set()
        for name in POSITIONS:
            if (shape := self.shape(name)) is not None:
                if len(shape) != 2 or shape[1] != width:
                    raise InputError(
                        f"{self.path}: {name} must be {width} columns wide, got the shape {shape}"
                    )
                layouts.add(recognize_sinusoids(self[name]) or LEARNED)
        if not layouts:
            return None
        return layouts.pop() if len(layouts) == 1 else LEARNED


def check_rows(weights: FolderWeights, source: VocabularyRows, target: VocabularyRows) -> None:
    """Checks that the embeddings have a row for each entry of the vocabularies.

    Raises:
        InputError: an embedding is missing or has another number of rows.
    """
    weights.check_rows(TARGET_EMBEDDING, target.original_size)
    if weights.shape(SOURCE_EMBEDDING) is not None:  # which is not shared
        weights.check_rows(SOURCE_EMBEDDING, source.original_size)


def keep_bias(weights: FolderWeights, target: VocabularyRows) -> bool:
    """Returns whether the logits need a bias: one of zeros may be stored, or left out.

    Args:
        weights: the arrays, to which a needed bias is added and from which zeros are removed.
        target: the vocabulary of the logits.
    """
    if target.added:
        weights.add(LOGITS_BIAS, np.zeros(target.original_size, "float32"))
    elif not np.any(weights.get(LOGITS_BIAS, 0)):
        weights.drop(LOGITS_BIAS)
    return LOGITS_BIAS in weights

"""Weights in folders of Hugging Face's Transformers."""

import itertools
import pathlib
from collections.abc import Iterator, Mapping

import numpy as np

from tf_transformer.config_checks import TiedEmbeddings
from tf_transformer.errors import InputError
from tf_transformer.formats.hf_folder import Seq2SeqSettings
from tf_transformer.formats.naming import Naming
from tf_transformer.formats.position_tables import Layout, recognize_sinusoids
from tf_transformer.formats.tensors.opening import open_tensors
from tf_transformer.formats.vocabulary_rows import VocabularyRows

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
)


class FolderWeights(Mapping[str, np.ndarray]):
    """The arrays of a folder, with each tied weight once and without tables of sinusoids.

    Files contain one or several of the names of a tied weight; copies must be equal. Transformers 5
    shares no embedding unless `tie_word_embeddings`, in spite of
    `share_encoder_decoder_embeddings`.

    Args:
        folder: folder of the model.
        settings: the model's settings.

    Attributes:
        path: the file of the weights.
        positions: the layout of the tables of sinusoids, `LEARNED` if they are others, or None if
            there are none.
        tied_embeddings: the setting of `TransformerConfig`.

    Raises:
        InputError: there are no weights, the file is damaged, or a copy has other values.
    """

    def __init__(self, folder: pathlib.Path, settings: Seq2SeqSettings):
        paths = [folder / name for name in WEIGHTS_NAMES if (folder / name).exists()]
        if not paths:
            raise InputError(f"{folder}: no weights; expected {' or '.join(WEIGHTS_NAMES[::2])}")
        self.path = paths[0]
        self._file = open_tensors(self.path)
        self._stored_names = {name: name for name in self._file}
        self._added: dict[str, np.ndarray] = {}
        self.tied_embeddings = self._remove_copies(settings)
        self.positions = self._recognize_positions(settings.d_model)
        if self.positions != LEARNED:
            for name in POSITIONS:
                self.drop(name)

    def drop(self, name: str) -> None:
        """Leaves out an array, if there is one of this name."""
        self._stored_names.pop(name, None)

    def add(self, name: str, array: np.ndarray) -> None:
        """Adds an array, unless there is one of this name."""
        if name not in self:
            self._added[name] = array

    def _remove_copies(self, settings: Seq2SeqSettings) -> TiedEmbeddings:
        is_shared = settings.share_encoder_decoder_embeddings
        if settings.tie_word_embeddings:
            inputs = [SHARED_EMBEDDING, SOURCE_EMBEDDING] if is_shared else []
            self._keep_one([TARGET_EMBEDDING, *inputs, LOGITS])
            return "all" if is_shared else "target"
        shared = self._stored_names.pop(SHARED_EMBEDDING, None)
        if shared is not None:
            for name in (SOURCE_EMBEDDING, TARGET_EMBEDDING):
                self._stored_names.setdefault(name, shared)
        if is_shared and self._equal(SOURCE_EMBEDDING, TARGET_EMBEDDING):
            del self._stored_names[SOURCE_EMBEDDING]
            return "inputs"
        return "none"

    def _keep_one(self, names: list[str]) -> None:
        """Keeps one of the copies of a tied weight, by its first name."""
        found = [name for name in names if name in self._stored_names]
        for name in found[1:]:
            if not self._equal(name, found[0]):
                raise InputError(f"{self.path}: {name} must equal {found[0]}, which it is tied to")
        for name in found:
            del self._stored_names[name]
        if found:
            self._stored_names[names[0]] = found[0]

    def _equal(self, first: str, second: str) -> bool:
        if first not in self or second not in self:
            return False
        return np.array_equal(self[first], self[second])

    def _recognize_positions(self, width: int) -> Layout | None:
        layouts: set[Layout] = set()
        for name in POSITIONS:
            if name in self._file:
                shape = self._file.shapes[name]
                if len(shape) != 2 or shape[1] != width:
                    raise InputError(
                        f"{self.path}: {name} must be {width} columns wide, got the shape {shape}"
                    )
                layouts.add(recognize_sinusoids(self._file[name]) or LEARNED)
        if not layouts:
            return None
        return layouts.pop() if len(layouts) == 1 else LEARNED

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Returns the shape of an array of the file; None if there is no such array."""
        stored_name = self._stored_names.get(name)
        return None if stored_name is None else self._file.shapes[stored_name]

    def __getitem__(self, name: str) -> np.ndarray:
        if name in self._added:
            return self._added[name]
        return self._file[self._stored_names[name]]

    def __iter__(self) -> Iterator[str]:
        return itertools.chain(self._stored_names, self._added)

    def __len__(self) -> int:
        return len(self._stored_names) + len(self._added)


def check_rows(weights: FolderWeights, source: VocabularyRows, target: VocabularyRows) -> None:
    """Checks that the embeddings have a row for each entry of the vocabularies.

    Raises:
        InputError: an embedding is missing or has another number of rows.
    """
    for name, size in (
        (SOURCE_EMBEDDING, source.original_size),
        (TARGET_EMBEDDING, target.original_size),
    ):
        shape = weights.shape(name)
        is_shared = name == SOURCE_EMBEDDING and shape is None
        if not is_shared and (shape is None or len(shape) != 2 or shape[0] != size):
            raise InputError(
                f"{weights.path}: {name} must have a row for each of the {size} entries of the "
                f"vocabulary, got the shape {shape}"
            )


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

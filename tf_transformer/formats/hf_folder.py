"""Folders of Hugging Face's Transformers: `config.json`, vocabularies, and weights.

MarianMT, M2M100 and NLLB share the names of their weights and most settings.
"""

import itertools
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pydantic

from tf_transformer.config_checks import (
    InnerWidth,
    ModelWidth,
    NumHeads,
    NumLayers,
    TiedEmbeddings,
    VocabSize,
)
from tf_transformer.errors import InputError
from tf_transformer.formats.naming import Naming
from tf_transformer.formats.position_tables import Layout, recognize_sinusoids
from tf_transformer.formats.tensors.opening import open_tensors
from tf_transformer.printable import shown
from tf_transformer.storage.json_files import parse_json, read_json
from tf_transformer.storage.regular_files import read_regular

CONFIG_NAME = "config.json"
# In the order in which Transformers looks for them.
WEIGHTS_NAMES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
# The largest known vocabulary file, of 256,000 pieces, takes about 10 MB.
MAX_VOCABULARY_BYTES = 2**28
LEARNED = Layout("learned")
# Tables of positions, which Transformers computes if a file has none.
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}

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


class Seq2SeqSettings(pydantic.BaseModel):
    """The settings in `config.json` that the models have in common, with Transformers' defaults."""

    model_config = pydantic.ConfigDict(strict=True, extra="ignore")

    model_type: str
    vocab_size: VocabSize
    d_model: ModelWidth
    encoder_layers: NumLayers
    decoder_layers: NumLayers
    encoder_attention_heads: NumHeads
    decoder_attention_heads: NumHeads
    encoder_ffn_dim: InnerWidth
    decoder_ffn_dim: InnerWidth
    activation_function: str
    max_position_embeddings: int = pydantic.Field(default=1024, ge=2, le=2**20)
    scale_embedding: bool = False
    pad_token_id: int
    eos_token_id: int
    decoder_start_token_id: int
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    decoder_vocab_size: VocabSize | None = None
    dropout: float = pydantic.Field(default=0.1, ge=0, lt=1)
    attention_dropout: float = pydantic.Field(default=0.0, ge=0, lt=1)
    activation_dropout: float = pydantic.Field(default=0.0, ge=0, lt=1)


def read_model_type(folder: pathlib.Path) -> str | None:
    """Returns the `model_type` in a folder's `config.json`; None if there is none."""
    try:
        model_type = read_json(folder / CONFIG_NAME).get("model_type")
    except (OSError, InputError):
        return None
    return model_type if isinstance(model_type, str) else None


def read_settings(
    folder: pathlib.Path, required: Mapping[str, Any]
) -> tuple[Seq2SeqSettings, dict[str, Any]]:
    """Reads `config.json`.

    Args:
        folder: folder of the model.
        required: the only supported value of settings that select another architecture; a setting
            that is missing has this value.

    Returns:
        The settings, and those of this project's `TransformerConfig` that follow from them.

    Raises:
        InputError: a setting is missing, wrong, or not supported.
    """
    path = folder / CONFIG_NAME
    values = read_json(path)
    for name, supported in required.items():
        if (value := values.get(name, supported)) != supported:
            raise InputError(
                f"{path}: {name}={shown(value)} is not supported, only {name}={supported!r}"
            )
    try:
        settings = Seq2SeqSettings.model_validate(values)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise InputError(f"{path}: {name}: {first['msg']}") from error
    if settings.activation_function not in ACTIVATIONS:
        raise InputError(
            f"{path}: activation_function={shown(settings.activation_function)} is not supported, "
            f"only {', '.join(ACTIVATIONS)}"
        )
    return settings, _model_settings(settings)


def _model_settings(settings: Seq2SeqSettings) -> dict[str, Any]:
    return dict(
        num_encoder_layers=settings.encoder_layers,
        num_decoder_layers=settings.decoder_layers,
        d_model=settings.d_model,
        d_ff=settings.encoder_ffn_dim,
        num_heads=settings.encoder_attention_heads,
        decoder={"d_ff": settings.decoder_ffn_dim, "num_heads": settings.decoder_attention_heads},
        activation=ACTIVATIONS[settings.activation_function],
        dropout_rate=settings.dropout,
        attention_dropout_rate=settings.attention_dropout,
        feed_forward_dropout_rate=settings.activation_dropout,
        layer_norm_epsilon=1e-5,  # PyTorch's default, which these models use
        max_length=settings.max_position_embeddings,
    )


def read_vocabulary(path: pathlib.Path) -> list[str]:
    """Reads a JSON object of pieces and their ids.

    Returns:
        The piece of each id.

    Raises:
        InputError: the ids are not 0 to n - 1, each once.
    """
    ids = parse_json(read_regular(path, MAX_VOCABULARY_BYTES), path, unique_keys=True)
    pieces: list[str | None] = [None] * len(ids)
    for piece, token_id in ids.items():
        is_id = type(token_id) is int and 0 <= token_id < len(ids)
        if not is_id or pieces[token_id] is not None:
            raise InputError(
                f"{path}: expected the ids 0 to {len(ids) - 1}, each once, got "
                f"{shown(token_id)} for {shown(piece)}"
            )
        pieces[token_id] = piece
    return [piece for piece in pieces if piece is not None]


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

"""The weights in a checkpoint of OpenNMT-tf, and what follows from their names and shapes."""

import re
from typing import NamedTuple

import numpy as np

from tf_transformer.config_checks import NormPosition, TiedEmbeddings
from tf_transformer.errors import InputError
from tf_transformer.formats.naming import Edits, Naming
from tf_transformer.formats.tensors.renamed_tensors import RenamedTensors
from tf_transformer.formats.tensors.tensor_file import TensorFile
from tf_transformer.formats.vocabulary_rows import VocabularyRows, row_edits
from tf_transformer.printable import shown

SOURCE = "model/examples_inputter/features_inputter/embedding"
TARGET = "model/examples_inputter/labels_inputter/embedding"
_LOGITS = "model/decoder/output_layer"
_POSITIONS = (
    "model/encoder/position_encoder/position_embedding",
    "model/decoder/position_encoder/position_embedding",
)
_NORMS: dict[NormPosition, str] = {"pre": "input_layer_norm", "post": "output_layer_norm"}
_PROJECTIONS = ("linear_queries", "linear_keys", "linear_values", "linear_output")
_FLOATS = ("float16", "bfloat16", "float32", "float64")
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
# What else a run stores: the state of training, and two values of the optimizer for each weight.
_OF_TRAINING = re.compile(r"(optimizer|save_counter)/.*|.*/\.OPTIMIZER_SLOT/.*")
# The names of weights in other models, and what these are.
_OTHER_MODELS = {
    r"model/examples_inputter/.*/inputters/.*": "models of several sources or features",
    r"model/decoder/layers/\d+/attention/[1-9].*": "models of several sources",
    r"model/encoder/encoders/.*": "models of several encoders",
    r"model/examples_inputter/embedding": "language models and classifiers",
    r"model/examples_inputter/.*char_embedding": "embeddings of characters",
    r"model/(encoder|decoder)/(?!layers/\d|layer_norm/|position_encoder/|output_layer/).*": (
        "encoders and decoders that are no Transformers"
    ),
}
_MAX_LENGTH = 1024


class Architecture(NamedTuple):
    """What the names and shapes of weights determine.

    Attributes:
        num_layers: number of layers of encoder and decoder.
        d_model: width.
        d_ff: inner width of the feed-forward layers.
        norm_position: a setting of `TransformerConfig`.
        tied_embeddings: another one.
        logits_bias: another one.
        num_positions: number of learned positions, 0 if there are none.
        relative_distance: largest relative position, 0 if there are none.
        num_heads: number of heads; None unless vectors of relative positions tell it.
    """

    num_layers: tuple[int, int]
    d_model: int
    d_ff: int
    norm_position: NormPosition
    tied_embeddings: TiedEmbeddings
    logits_bias: bool
    num_positions: int
    relative_distance: int
    num_heads: int | None

    @property
    def max_length(self) -> int:
        """The setting of `TransformerConfig`; sinusoids have no limit."""
        return self.num_positions or _MAX_LENGTH


def select_weights(file: TensorFile) -> RenamedTensors:
    """Returns the weights of a translation model, without what belongs to its training.

    Raises:
        InputError: the checkpoint is of another program, or of another kind of model.
    """
    weights = RenamedTensors(file, _renamed)
    if not any(name.startswith("model/") for name in weights):
        raise InputError(
            f"{file.path}: no variables model/...; expected a checkpoint of OpenNMT-tf 2, which "
            "also upgrades those of version 1"
        )
    for name in weights:
        for pattern, kind in _OTHER_MODELS.items():
            if re.fullmatch(pattern, name):
                raise InputError(f"{file.path}: {shown(name)}: {kind} are not supported")
        dtype = file.dtypes[name + _VALUE]
        if dtype not in _FLOATS:
            raise InputError(f"{file.path}: {shown(name)} is of type {dtype}, not floating-point")
    return weights


def _renamed(name: str) -> str | None:
    return None if _OF_TRAINING.fullmatch(name) else name.removesuffix(_VALUE)


def read_architecture(weights: RenamedTensors) -> Architecture:
    """Returns what the names and shapes of weights determine.

    Raises:
        InputError: a weight that is needed for it is missing, or has another number of axes.
    """
    self_attention = "model/encoder/layers/0/self_attention"
    d_model = _shape(weights, SOURCE)[1]
    relative = f"{self_attention}/layer/relative_position_keys"
    num_vectors, head_size = _shape(weights, relative) if relative in weights else (1, 0)
    has_target, has_logits = TARGET in weights, f"{_LOGITS}/kernel" in weights
    if has_logits:
        tied: TiedEmbeddings = "none" if has_target else "inputs"
    else:
        tied = "target" if has_target else "all"
    return Architecture(
        (_num_layers(weights, "encoder"), _num_layers(weights, "decoder")),
        d_model,
        _shape(weights, "model/encoder/layers/0/ffn/layer/inner/kernel")[1],
        "pre" if f"{self_attention}/{_NORMS['pre']}/gamma" in weights else "post",
        tied,
        f"{_LOGITS}/bias" in weights,
        _shape(weights, _POSITIONS[0])[0] - 1 if _POSITIONS[0] in weights else 0,
        num_vectors // 2,
        d_model // head_size if head_size else None,
    )


def _shape(weights: RenamedTensors, name: str) -> tuple[int, int]:
    shape = weights.shape(name)
    if shape is None or len(shape) != 2:
        found = "no such variable" if shape is None else f"the shape {shape}"
        raise InputError(f"{weights.path}: expected a matrix {name}, got {found}")
    return shape[0], shape[1]


def _num_layers(weights: RenamedTensors, stack: str) -> int:
    matches = (re.match(rf"model/{stack}/layers/(\d{{1,4}})/", name) for name in weights)
    return 1 + max((int(match[1]) for match in matches if match), default=-1)


def names_of(architecture: Architecture) -> Naming:
    """Returns the names of the weights."""
    norm = _NORMS[architecture.norm_position]
    attention, cross, feed_forward = (
        f"{{layer}}/{sublayer}/{norm}" for sublayer in ("self_attention", "attention/0", "ffn")
    )
    has_target = architecture.tied_embeddings in ("none", "target")
    return Naming(
        layer="model/{stack}/layers/{index}",
        self_attention="{layer}/self_attention/layer",
        cross_attention="{layer}/attention/0/layer",
        projections=tuple(f"{{attention}}/{name}" for name in _PROJECTIONS),
        relative=("{attention}/relative_position_keys", "{attention}/relative_position_values"),
        norms={
            "encoder": (attention, "", feed_forward),
            "decoder": (attention, cross, feed_forward),
        },
        final_norm="model/{stack}/layer_norm",
        inner="{layer}/ffn/layer/inner",
        outer="{layer}/ffn/layer/outer",
        matrix="/kernel",
        vector="/bias",
        gain="/gamma",
        shift="/beta",
        embeddings=(SOURCE, TARGET if has_target else SOURCE),
        positions=_POSITIONS,
        logits=_LOGITS,
        logits_bias=f"{_LOGITS}/bias",
        transposed=False,
    )


def add_missing_biases(weights: RenamedTensors) -> None:
    """Adds zeros for the biases of attention, if there are none."""
    layer = r".*/layer/linear_\w+"
    if any(re.fullmatch(rf"{layer}/bias", name) for name in weights):
        return
    for name in [name for name in weights if re.fullmatch(rf"{layer}/kernel", name)]:
        shape = weights.shape(name) or (0,)
        weights.add(f"{name.removesuffix('kernel')}bias", np.zeros(shape[-1], "float32"))


def edits_of(source: VocabularyRows, target: VocabularyRows) -> Edits:
    """Returns the edits for `convert_weights`. Learned positions are counted from 1."""

    def without_first(vectors: np.ndarray) -> np.ndarray:
        return vectors[1:]

    positions = dict.fromkeys(
        ("source_positions/vectors", "target_positions/vectors"), without_first
    )
    return {**row_edits(source, target), **positions}

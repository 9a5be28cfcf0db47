"""Names and layout of the weights in Marian's files.

The names are those of Marian's `src/models/transformer.h`, `src/rnn/cells.h` (SSRU),
`src/layers/embedding.cpp` and `output.cpp`.
"""

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np

from tf_transformer.config_checks import NormPosition, TiedEmbeddings
from tf_transformer.errors import InputError
from tf_transformer.formats.marian.binary_model import QUANTIZED_NAMES
from tf_transformer.formats.naming import Naming
from tf_transformer.formats.tensors.tensor_file import TensorFile

SETTINGS_NAME = "special:model.yml"
LOGITS_BIAS = "decoder_ff_logit_out_b"
# The matrix of the logits, and its transpose, which Marian has written since version 1.9.
LOGITS, LOGITS_TRANSPOSED = "decoder_ff_logit_out_W", "decoder_ff_logit_out_Wt"
# Scales of activations in 8-bit integers, which float weights do not need.
_ACTIVATION_SCALE = "_QuantMultA"
# The embeddings of source and target.
_SHARED, _SEPARATE = ("Wemb", "Wemb"), ("encoder_Wemb", "decoder_Wemb")

_NORMS = (
    "{layer}_self_Wo_ln_{kind}",
    "{layer}_context_Wo_ln_{kind}",
    "{layer}_ffn_ffn_ln_{kind}",
)
_POST_NORM = Naming(
    layer="{stack}_l{number}",
    self_attention="{layer}_self",
    cross_attention="{layer}_context",
    projections=tuple(f"{{attention}}_{{kind}}{name}" for name in "qkvo"),
    norms=dict.fromkeys(("encoder", "decoder"), _NORMS),
    final_norm="{stack}_top_ln_{kind}",
    inner="{layer}_ffn_{kind}1",
    outer="{layer}_ffn_{kind}2",
    matrix="W",
    vector="b",
    gain="scale",
    shift="bias",
    logits="decoder_ff_logit_out_{kind}",
    logits_bias=LOGITS_BIAS,
    ssru=("{layer}_rnn_{kind}", "{layer}_rnn_{kind}f"),
    ssru_norm="{layer}_rnn_ffn_ln_{kind}",
    transposed=False,
    vectors_as_rows=True,
)
_PRE_NORM = dataclasses.replace(
    _POST_NORM,
    norms=dict.fromkeys(("encoder", "decoder"), tuple(f"{name}_pre" for name in _NORMS)),
    ssru_norm="{layer}_rnn_ln_{kind}_pre",
)


def marian_names(norm_position: NormPosition, tied_embeddings: TiedEmbeddings | None) -> Naming:
    """Returns the names of a model's weights, which depend on its settings."""
    names = _POST_NORM if norm_position == "post" else _PRE_NORM
    is_shared = tied_embeddings in ("inputs", "all")
    return dataclasses.replace(names, embeddings=_SHARED if is_shared else _SEPARATE)


class MarianWeights(Mapping[str, np.ndarray]):
    """The weights of a file, with the matrix of the logits as `LOGITS`.

    Args:
        file: the file.
        names: the names of the weights.
        sizes: number of entries of the vocabularies of source and target.
        has_logits_bias: whether the logits have a bias; without one, `LOGITS_BIAS` is zeros.

    Raises:
        InputError: a weight is neither of a floating-point type nor quantized, or an embedding is
            missing or has not a row for each entry of its vocabulary.
    """

    def __init__(
        self, file: TensorFile, names: Naming, sizes: tuple[int, int], *, has_logits_bias: bool
    ):
        self._file = file
        is_transposed = LOGITS_TRANSPOSED in file and LOGITS not in file
        self._stored_names = {
            LOGITS if name == LOGITS_TRANSPOSED and is_transposed else name: name
            for name in file
            if name != SETTINGS_NAME and not name.endswith(_ACTIVATION_SCALE)
        }
        for name in self._stored_names.values():
            if "float" not in file.dtypes[name] and file.dtypes[name] not in QUANTIZED_NAMES:
                raise InputError(
                    f"{file.path}: {name} is of type {file.dtypes[name]}; only floating-point "
                    "weights are supported"
                )
        self._added = {}
        if not has_logits_bias:
            self._added[LOGITS_BIAS] = np.zeros(sizes[1], "float32")
        for name, size in zip(names.embeddings, sizes, strict=True):
            shape = file.shapes.get(name)
            if shape is None or len(shape) != 2 or shape[0] != size:
                raise InputError(
                    f"{file.path}: {name} must have a row for each of the {size} entries of the "
                    f"vocabulary, got the shape {shape}"
                )

    def __getitem__(self, name: str) -> np.ndarray:
        if name in self._added:
            return self._added[name]
        stored_name = self._stored_names[name]
        array = self._file[stored_name]
        return array.T if name == LOGITS != stored_name else array

    def __contains__(self, name: object) -> bool:
        return name in self._added or name in self._stored_names  # that of `Mapping` reads arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored_names | self._added)

    def __len__(self) -> int:
        return len(self._stored_names | self._added)

"""The weights of a model of CTranslate2 by name, each read when it is needed."""

import re
from collections.abc import Iterator, Mapping

import numpy as np

from tf_transformer.errors import InputError
from tf_transformer.formats.naming import Naming
from tf_transformer.formats.tensors.tensor_file import Tensor, TensorFile

SOURCE_EMBEDDING = "encoder/embeddings_0/weight"
TARGET_EMBEDDING = "decoder/embeddings/weight"
LOGITS, LOGITS_BIAS = "decoder/projection/weight", "decoder/projection/bias"
POSITIONS = ("encoder/position_encodings/encodings", "decoder/position_encodings/encodings")
# The parts of the dense layers of attention, by its name and that of the layer.
_PARTS = {
    ("self_attention", "linear_0"): ("query", "key", "value"),
    ("self_attention", "linear_1"): ("output",),
    ("attention", "linear_0"): ("query",),
    ("attention", "linear_1"): ("key", "value"),
    ("attention", "linear_2"): ("output",),
}
_ATTENTION = re.compile(r"(.*/(self_attention|attention))/(linear_\d)/(weight|bias)")
_SCALE = "_scale"
NAMES = Naming(
    layer="{stack}/layer_{index}",
    self_attention="{layer}/self_attention",
    cross_attention="{layer}/attention",
    projections=tuple(f"{{attention}}/{name}" for name in ("query", "key", "value", "output")),
    norms={
        stack: tuple(f"{{layer}}/{name}/layer_norm" for name in ("self_attention", *others, "ffn"))
        for stack, others in (("encoder", ("",)), ("decoder", ("attention",)))
    },
    final_norm="{stack}/layer_norm",
    inner="{layer}/ffn/linear_0",
    outer="{layer}/ffn/linear_1",
    matrix="/weight",
    vector="/bias",
    gain="/gamma",
    shift="/beta",
    embeddings=(SOURCE_EMBEDDING, TARGET_EMBEDDING),
    logits="decoder/projection",
    logits_bias=LOGITS_BIAS,
    positions=POSITIONS,
)


class CTranslate2Weights(Mapping[str, np.ndarray]):
    """The weights, with the concatenated projections apart, and 8-bit ones as floats.

    A quantized matrix is W / s with a scale s for each row, or for all. Dense layers without a bias
    get one of zeros.

    Args:
        file: the variables.
        tensors: the variables that are in it; aliases have the same one.
    """

    def __init__(self, file: TensorFile, tensors: Mapping[str, Tensor]):
        self._file, self._tensors = file, tensors
        self._entries: dict[str, tuple[str, int, int]] = {}
        self._zeros: dict[str, int] = {}
        for name, shape in file.shapes.items():
            if shape == () or name.endswith((_SCALE, "_token", "alignment_heads")):
                continue
            for entry in _entries(name):
                self._entries[entry[0]] = (name, *entry[1:])
        if "encoder/embeddings/weight" in self._entries:  # of older revisions
            self._entries[SOURCE_EMBEDDING] = self._entries.pop("encoder/embeddings/weight")
        for name in [name for name in self._entries if name.endswith("/weight")]:
            bias = name.removesuffix("weight") + "bias"
            if "embeddings" not in name and bias not in self._entries:
                self._zeros[bias] = self.rows(name)

    def rows(self, name: str) -> int:
        """Returns the number of rows of a matrix."""
        stored, _, parts = self._entries[name]
        shape = self._file.shapes[stored]
        return shape[0] // parts if shape else 0

    def is_alias(self, first: str, second: str) -> bool:
        """Returns whether two names are those of the same variable."""
        if first not in self._entries or second not in self._entries:
            return False
        stored = [self._entries[name][0] for name in (first, second)]
        return self._tensors[stored[0]] is self._tensors[stored[1]]

    def drop(self, name: str) -> None:
        """Removes a weight, if there is one of this name."""
        self._entries.pop(name, None)

    def copy(self, name: str, target: str) -> None:
        """Gives a weight a second name."""
        self._entries[target] = self._entries[name]

    def __getitem__(self, name: str) -> np.ndarray:
        if name in self._zeros:
            return np.zeros(self._zeros[name], "float32")
        stored, part, parts = self._entries[name]
        array = self._read(stored)
        if parts == 1:
            return array
        if array.shape[0] % parts:
            raise InputError(f"{self._file.path}: {stored}: expected {parts} equal parts")
        return np.split(array, parts)[part]

    def _read(self, name):
        array, scale = self._file[name], f"{name}{_SCALE}"
        if array.dtype.kind == "f":
            return array
        if scale not in self._file:
            raise InputError(f"{self._file.path}: {name} is of type {array.dtype}, without a scale")
        scales = np.asarray(self._file[scale], "float32")
        if scales.shape not in ((), (1,), array.shape[:1]) or not (scales > 0).all():
            raise InputError(f"{self._file.path}: {scale} does not fit {name}")
        scales = scales.reshape(-1, *[1] * (array.ndim - 1))
        return array.astype("float32") / scales

    def __iter__(self) -> Iterator[str]:
        yield from self._entries
        yield from self._zeros

    def __contains__(self, name: object) -> bool:
        return name in self._entries or name in self._zeros

    def __len__(self) -> int:
        return len(self._entries) + len(self._zeros)


def _entries(name):
    """Returns the name, index and number of the parts of a variable."""
    match = _ATTENTION.fullmatch(name)
    parts = _PARTS.get((match[2], match[3])) if match else None
    if match is None or parts is None:
        return [(name, 0, 1)]
    return [(f"{match[1]}/{part}/{match[4]}", i, len(parts)) for i, part in enumerate(parts)]

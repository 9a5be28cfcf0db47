"""Adapters: small HDF5 files with the matrices A and B of LoRA, for a model with known weights.

    NAME/lora_kernel_a    A, (inputs, rank)      of the layer with the weight NAME/kernel
    NAME/lora_kernel_b    B, (rank, outputs)
    attributes            format_version; alpha, see `models/lora.py`; base_digest, the
                          `weights_digest` of the model whose kernels A and B change

The file is checked as `weights_file` checks one of weights: names and sizes before values.
"""

import dataclasses
import hashlib
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from tf_transformer.config import TransformerConfig
from tf_transformer.errors import InputError
from tf_transformer.storage.weight_shapes import Shapes, weight_shapes
from tf_transformer.storage.weights_file import (
    check_arrays,
    check_finite,
    model_digest,
    present_shapes,
    read_arrays,
    read_attributes,
    write_arrays,
)

if TYPE_CHECKING:  # checks must not import TensorFlow
    import keras

ADAPTER_NAME = "adapter.h5"
FORMAT_VERSION = 1
LARGEST_RANK, LARGEST_ALPHA = 2**16, 2**20

_DTYPES = {
    "format_version": np.dtype("int64"),
    "alpha": np.dtype("float64"),
    "base_digest": np.dtype("S32"),
}
_PARTS = ("lora_kernel_a", "lora_kernel_b")
_KERNEL = "/kernel"


def kernel_shapes(config: TransformerConfig) -> Shapes:
    """Returns the shapes of the kernels that LoRA can adapt, by the names of their layers."""
    shapes = weight_shapes(config)
    return {
        name.removesuffix(_KERNEL): shape
        for name, shape in shapes.items()
        if name.endswith(_KERNEL)
    }


def lora_shapes(kernels: Shapes, rank: int) -> Shapes:
    """Returns the shapes of A and B of layers, by name.

    Args:
        kernels: shapes of the kernels, by the names of their layers.
        rank: number of columns of A.
    """
    shapes: Shapes = {}
    for name, (num_inputs, num_outputs) in kernels.items():
        shapes[f"{name}/{_PARTS[0]}"] = (num_inputs, rank)
        shapes[f"{name}/{_PARTS[1]}"] = (rank, num_outputs)
    return shapes


@dataclasses.dataclass(frozen=True)
class Adapter:
    """A and B of some layers.

    Args:
        path: the file.
        alpha: factor of the update, which is divided by the rank.
        base_digest: digest of the weights that are adapted.
        arrays: A and B, by name.
    """

    path: pathlib.Path
    alpha: float
    base_digest: str
    arrays: Mapping[str, np.ndarray]

    @property
    def layers(self) -> list[str]:
        """The names of the adapted layers."""
        return [name.removesuffix(f"/{_PARTS[0]}") for name in self.arrays if name.endswith("_a")]

    def matrices(self, layer: str) -> tuple[np.ndarray, np.ndarray]:
        """Returns A and B of a layer; the factor alpha / rank is part of A."""
        a, b = (self.arrays[f"{layer}/{part}"] for part in _PARTS)
        return np.float32(self.alpha / a.shape[1]) * a, b

    def of_layers(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Returns the `matrices` of all adapted layers, by their names."""
        return {layer: self.matrices(layer) for layer in self.layers}

    def added_to(self, name: str, parts: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """Yields the parts of a weight with (alpha / rank) A B added, if it is an adapted kernel.

        Args:
            name: name of the weight.
            parts: the weight in parts along its first axis.
        """
        layer = name.removesuffix(_KERNEL)
        if layer == name or f"{layer}/{_PARTS[0]}" not in self.arrays:
            yield from parts
            return
        a, b = self.matrices(layer)
        start = 0
        for part in parts:
            yield part + a[start : start + len(part)] @ b
            start += len(part)

    def digest(self) -> str:
        """Returns a digest of names, values and alpha."""
        digest = hashlib.blake2b(repr(self.alpha).encode(), digest_size=16)
        for name in sorted(self.arrays):
            digest.update(f"{name} {self.arrays[name].shape}\n".encode())
            digest.update(np.ascontiguousarray(self.arrays[name]).data)
        return digest.hexdigest()


def write_adapter(path: pathlib.Path, model: "keras.Model") -> None:
    """Writes A and B of a model with LoRA, and replaces an existing file.

    Args:
        path: the file.
        model: the model; its other weights are those of the model that is adapted.
    """
    from tf_transformer.models.lora import adapted_layers, lora_variables

    variables = lora_variables(model)
    alpha = next(iter(adapted_layers(model).values())).lora_alpha
    attributes = {
        "format_version": FORMAT_VERSION,
        "alpha": alpha,
        "base_digest": model_digest(model).encode(),
    }
    write_arrays(
        path,
        {name: tuple(variable.shape) for name, variable in variables.items()},
        ((name, np.asarray(variable, "float32")) for name, variable in variables.items()),
        {name: np.array(value, _DTYPES[name]) for name, value in attributes.items()},
    )


def read_adapter(path: pathlib.Path, config: TransformerConfig) -> Adapter:
    """Reads an adapter for a model.

    Args:
        path: the file.
        config: settings of the model.

    Raises:
        InputError: the file is missing, damaged or no adapter, a layer or a shape is not one of the
            model, or values are not finite.
    """
    try:
        attributes = _checked_attributes(path)
        shapes = _checked_shapes(path, config)
        arrays = dict(read_arrays(path, shapes))
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    for name, array in arrays.items():
        check_finite(name, array, path)
    return Adapter(path, float(attributes["alpha"]), attributes["base_digest"].decode(), arrays)


def _checked_attributes(path):
    attributes = read_attributes(path, _DTYPES)
    if not attributes:
        raise InputError(f"{path}: no adapter of `train --lora`; it lacks alpha and base_digest")
    if attributes["format_version"] != FORMAT_VERSION:
        raise InputError(
            f"{path}: this version reads adapters of format {FORMAT_VERSION}, got format "
            f"{attributes['format_version']}"
        )
    alpha, digest = attributes["alpha"], attributes["base_digest"]
    if not 0 < alpha <= LARGEST_ALPHA:
        raise InputError(f"{path}: expected an alpha above 0 to {LARGEST_ALPHA:,}, got {alpha:g}")
    if len(digest) != 32 or set(digest) - set(b"0123456789abcdef"):
        raise InputError(f"{path}: damaged; base_digest is not a digest of weights")
    return attributes


def _checked_shapes(path, config):
    """Returns the shapes of the arrays in a file, which are those of layers of the model."""
    kernels = kernel_shapes(config)
    possible = [f"{name}/{part}" for name in kernels for part in _PARTS]
    present = present_shapes(path, possible)
    a = next((shape for name, shape in present.items() if name.endswith(_PARTS[0])), ())
    rank = a[1] if len(a) == 2 else 0
    if not 1 <= rank <= LARGEST_RANK:
        raise InputError(f"{path}: expected A and B of layers of this model, got a rank of {rank}")
    layers = {name.rpartition("/")[0] for name in present}
    shapes = lora_shapes({name: kernels[name] for name in kernels if name in layers}, rank)
    check_arrays(path, shapes)
    return shapes

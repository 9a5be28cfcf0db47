"""LoRA (Hu et al., 2022): kernels W + alpha / rank A B, of which A and B are trained.

Keras computes it (`keras.layers.Dense.enable_lora`), with alpha = rank. This module merges and
stores it. A file of LoRA weights contains, for each layer, the arrays `NAME/lora_kernel_a`,
`(inputs, rank)`, and `NAME/lora_kernel_b`, `(rank, outputs)`, float32, where `NAME/kernel` is the
kernel's name in `model.weights.h5`. KerasHub's own files have numbers for names, which change with
the model's structure.
"""

import contextlib
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from tf_transformer.argument_types import is_whole
from tf_transformer.errors import InputError
from tf_transformer.models.lora import (
    PARTS,
    adapted_layers,
    inner_name,
    lora_variables,
    merged_values,
    projections,
)
from tf_transformer.models.transformer import Transformer
from tf_transformer.printable import shown
from tf_transformer.storage.adapter_file import LARGEST_RANK, lora_shapes
from tf_transformer.storage.weights_file import (
    check_arrays,
    check_finite,
    present_shapes,
    read_arrays,
    read_attributes,
    write_arrays,
)

# Names of the layers that compute queries, keys and values.
ATTENTION_INPUTS = ("query_key_value", "query", "key_value")


def has_lora(transformer: Transformer) -> bool:
    """Returns whether a layer of the model has A and B."""
    return bool(adapted_layers(transformer))


def check_lora_arguments(transformer: Transformer, rank: Any, names: Any) -> None:
    """Checks the arguments of `TransformerBackbone.enable_lora`.

    Raises:
        InputError: one is invalid, or LoRA is enabled already.
    """
    if not is_whole(rank) or not 1 <= rank <= LARGEST_RANK:
        raise InputError(
            f"`rank` must be an integer between 1 and {LARGEST_RANK}. Received: rank={shown(rank)}"
        )
    known = {layer.name for layer in projections(transformer).values()}
    if isinstance(names, str) or not names or not set(names) <= known:
        raise InputError(
            f"`target_layer_names` must be a list of names from {sorted(known)}. "
            f"Received: target_layer_names={shown(names)}"
        )
    if has_lora(transformer):
        raise InputError("LoRA is enabled already, which can only be done once")


def freeze_biases(transformer: Transformer) -> None:
    """Freezes the biases of the layers with A and B."""
    for layer in adapted_layers(transformer).values():
        if layer.bias is not None:
            layer.bias.trainable = False


def merge_lora(transformer: Transformer, dtype: Any = None) -> Transformer:
    """Returns a new `Transformer` with kernels W + A B and no A and B.

    Args:
        transformer: the model with or without LoRA.
        dtype: dtype or dtype policy of the new model; None means that of `transformer`.
    """
    copy = Transformer(transformer.config, dtype=dtype or transformer.dtype_policy)
    weights = {inner_name(weight.path): weight for weight in copy.weights}
    for name, value in merged_values(transformer):
        weights[name].assign(value)
    return copy


def write_lora(path: pathlib.Path, transformer: Transformer) -> None:
    """Writes A and B of every layer, and replaces an existing file.

    Raises:
        InputError: LoRA is not enabled.
    """
    if not has_lora(transformer):
        raise InputError("No layer has LoRA weights. Call `enable_lora(rank)` first")
    variables = lora_variables(transformer)
    shapes = {name: tuple(variable.shape) for name, variable in variables.items()}
    arrays = ((name, np.asarray(variable)) for name, variable in variables.items())
    write_arrays(path, shapes, arrays)


def read_rank_and_layers(path: pathlib.Path, transformer: Transformer) -> tuple[int, list[str]]:
    """Checks a file, and returns the rank and the names of the layers with which it was written.

    Args:
        path: the file.
        transformer: the model, without LoRA.

    Raises:
        InputError: the file is missing, damaged or of another model.
    """
    _check_no_alpha(path)
    layers = projections(transformer)
    possible = [f"{name}/{part}" for name in layers for part in PARTS]
    with _named(path):
        present = present_shapes(path, possible)
    shape = next((shape for name, shape in present.items() if name.endswith(PARTS[0])), ())
    rank = shape[1] if len(shape) == 2 else 0
    names = sorted({name.split("/")[-2] for name in present})
    if not 1 <= rank <= LARGEST_RANK:
        raise InputError(f"{path}: expected LoRA weights of this model, got a rank of {rank}")
    chosen = {
        name: tuple(layer.kernel.shape) for name, layer in layers.items() if layer.name in names
    }
    with _named(path):
        check_arrays(path, lora_shapes(chosen, rank))
    return rank, names


def read_lora(path: pathlib.Path, transformer: Transformer) -> None:
    """Assigns A and B of a file to a model with LoRA.

    Args:
        path: the file.
        transformer: the model.

    Raises:
        InputError: the file is missing, damaged, of another model, rank or choice of layers, or has
            weights that are not finite.
    """
    _check_no_alpha(path)
    variables = lora_variables(transformer)
    shapes = {name: tuple(variable.shape) for name, variable in variables.items()}
    with _named(path):
        arrays = dict(read_arrays(path, shapes))
        for name, array in arrays.items():
            check_finite(name, array, path)
    for name, array in arrays.items():  # a file that is refused has changed nothing
        variables[name].assign(array)


def _check_no_alpha(path: pathlib.Path) -> None:
    """Refuses adapters of `train --lora`, whose alpha need not be the rank."""
    with _named(path):
        read_attributes(path, {})


@contextlib.contextmanager
def _named(path: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error

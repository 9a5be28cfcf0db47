"""LoRA (Hu et al., 2022): dense layers whose kernel W gets a trained update of low rank.

Equation 3 of the paper, with row vectors as everywhere in this project:

h = x W + (alpha / rank) x A B,    A (inputs, rank), B (rank, outputs)

W is frozen. A starts Kaiming-uniform (He et al., 2015) and B at zero, so that at first the model is
unchanged; the paper draws A from a normal distribution. Deviation from the paper: a layer that
computes queries, keys and values in one product has one A for all of them.
"""

from collections.abc import Collection, Iterator

import keras
import numpy as np

from tf_transformer.layers.dense import Projection
from tf_transformer.private_interfaces import sublayers

# Names of A and B, after the name of their layer.
PARTS = ("lora_kernel_a", "lora_kernel_b")


def projections(model: keras.Model) -> dict[str, Projection]:
    """Returns the layers with a kernel, by their paths in the model."""
    layers = [layer for layer in sublayers(model) if isinstance(layer, Projection)]
    return {inner_name(layer.path): layer for layer in layers}


def adapted_layers(model: keras.Model) -> dict[str, Projection]:
    """Returns the layers with A and B, by their paths in the model."""
    return {name: layer for name, layer in projections(model).items() if layer.lora_enabled}


def inner_name(path: str) -> str:
    """Returns a path without the model's name, which is its first part."""
    return path.partition("/")[2]


def enable_lora(
    model: keras.Model, rank: int, names: Collection[str], alpha: float | None = None
) -> None:
    """Freezes all weights of a model, and adds trainable A and B to some of its layers.

    Args:
        model: the model, before its optimizer is built.
        rank: number of columns of A.
        names: paths of the layers, see `projections`.
        alpha: factor of the update, which is divided by the rank; None means the rank.
    """
    for weight in model.weights:
        weight.trainable = False
    for name, layer in projections(model).items():
        if name in names:
            layer.enable_lora(rank, lora_alpha=alpha)


def lora_variables(model: keras.Model) -> dict[str, keras.Variable]:
    """Returns A and B of all layers, by name."""
    return {
        f"{name}/{part}": getattr(layer, part)
        for name, layer in adapted_layers(model).items()
        for part in PARTS
    }


def base_weights(model: keras.Model) -> dict[str, keras.Variable]:
    """Returns all weights but A and B, by their paths without the model's name."""
    weights = {inner_name(weight.path): weight for weight in model.weights}
    return {name: weight for name, weight in weights.items() if not name.endswith(PARTS)}


def merged_values(model: keras.Model) -> Iterator[tuple[str, np.ndarray]]:
    """Yields names and float32 values of the weights, W + (alpha / rank) A B in place of W."""
    layers = {f"{name}/kernel": layer for name, layer in adapted_layers(model).items()}
    for name, weight in base_weights(model).items():
        value = np.asarray(weight, "float32")
        if name in layers:
            a, b = (np.asarray(getattr(layers[name], part), "float32") for part in PARTS)
            value = value + kernel_update(a, b, layers[name].lora_alpha)
        yield name, value


def kernel_update(a: np.ndarray, b: np.ndarray, alpha: float) -> np.ndarray:
    """Returns (alpha / rank) A B, `(inputs, outputs)` float32."""
    return (np.float32(alpha / a.shape[1]) * a) @ b

"""Adapters with random weights, one of each kind."""

import pathlib

import numpy as np

from tf_transformer.models.lora import enable_lora, lora_variables
from tf_transformer.storage.adapter_file import kernel_shapes, write_adapter
from tf_transformer.storage.model_dir import load_model

# Names, ranks and layers of the adapters.
ADAPTERS = {"legal": (2, ""), "medical": (3, "decoder/"), "it": (1, "feed_forward")}


def adapter_path(folder: pathlib.Path, name: str) -> pathlib.Path:
    return folder / f"{name}.h5"


def write_adapters(
    model_dir: pathlib.Path, folder: pathlib.Path, scale: float = 0.3
) -> dict[str, pathlib.Path]:
    """Writes an adapter of each kind; returns the paths by name."""
    paths = {}
    for seed, (name, (rank, part)) in enumerate(ADAPTERS.items()):
        model = load_model(model_dir)[0]
        layers = [layer for layer in kernel_shapes(model.config) if part in layer]
        enable_lora(model, rank, layers, alpha=2.0 * rank)
        random = np.random.default_rng(seed)
        for variable in lora_variables(model).values():
            variable.assign(random.normal(size=variable.shape, scale=scale))
        paths[name] = adapter_path(folder, name)
        write_adapter(paths[name], model)
    return paths

"""Checks of presets, which are untrusted: what KerasHub's loader reads of them, and makes."""

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from tf_transformer.errors import InputError
from tf_transformer.printable import shown
from tf_transformer.storage.json_files import read_json
from tf_transformer.storage.model_dir import CONFIG_NAME, WEIGHTS_NAME, config_from_settings
from tf_transformer.storage.weight_shapes import weight_shapes
from tf_transformer.storage.weights_file import check_arrays

# Arguments of a backbone that are not settings of the model.
KERAS_ARGUMENTS = ("name", "trainable", "dtype")
# The files that KerasHub's loader makes objects from, and the classes of these.
_CLASSES = {
    CONFIG_NAME: "TransformerBackbone",
    "preprocessor.json": "TransformerSeq2SeqLMPreprocessor",
    "target_tokenizer.json": "TransformerTokenizer",
    "task.json": "TransformerSeq2SeqLM",
    "tokenizer.json": "TransformerTokenizer",
}


def check_preset(preset: str | os.PathLike, with_weights: bool = True) -> None:
    """Checks the files of a local preset before memory is allocated for its model.

    Args:
        preset: the folder; any other name is not checked.
        with_weights: whether to check the weights' names, shapes and sizes.

    Raises:
        InputError: the folder is no preset of `TransformerBackbone`, or a file is invalid.
    """
    folder = pathlib.Path(preset)
    if not folder.is_dir():
        return
    path = folder / CONFIG_NAME
    if not path.exists():
        raise InputError(f"{folder} is not a preset: it has no {CONFIG_NAME}")
    files = {
        name: _config_in(read_json(folder / name), expected, folder / name)
        for name, expected in _CLASSES.items()
        if (folder / name).exists()
    }
    settings = _settings(files[CONFIG_NAME])
    shapes = weight_shapes(config_from_settings(settings, path))
    if "task.json" in files:
        task = folder / "task.json"
        backbone = _config_in(files["task.json"].get("backbone"), _CLASSES[CONFIG_NAME], task)
        if _settings(backbone) != settings:
            raise InputError(f"{task}: expected the settings in {CONFIG_NAME}")
    if with_weights:
        if not (folder / WEIGHTS_NAME).exists():
            raise InputError(f"{folder} is not a preset: it has no {WEIGHTS_NAME}")
        check_arrays(folder / WEIGHTS_NAME, shapes)


def _config_in(description: Any, expected: str, path: pathlib.Path) -> dict[str, Any]:
    """Returns the configuration of an object that a preset describes."""
    if not isinstance(description, dict):
        description = {"registered_name": description}
    found, config = description.get("registered_name"), description.get("config")
    if found != f"tf_transformer>{expected}":
        raise InputError(
            f"{path}: expected the description of a tf_transformer>{expected}, got {shown(found)}"
        )
    if not isinstance(config, dict):
        raise InputError(f"{path}: expected the settings of a {expected}, got {shown(config)}")
    return config


def _settings(config):
    """Returns the settings of the model in the configuration of a backbone."""
    checked_dtype(config.get("dtype"))
    return {name: config[name] for name in config if name not in KERAS_ARGUMENTS}


def checked_dtype(dtype: Any) -> Any:
    """Returns a dtype or policy as it is, and of the description of a policy only the name.

    Keras itself would make an object of any class that the description names.

    Raises:
        InputError: it describes something else than a floating-point policy.
    """
    if not isinstance(dtype, dict):
        return dtype
    config = dtype.get("config")
    name = config.get("name") if isinstance(config, dict) else None
    if dtype.get("class_name") != "DTypePolicy" or not isinstance(name, str):
        raise InputError(f"`dtype` must be a floating-point policy. Received: dtype={shown(dtype)}")
    return name


def described(value: Any, expected: type[keras.layers.Layer]) -> Any:
    """Returns the object of a class of this package that a description of Keras names.

    Keras itself would make an object of any class that the description names.

    Args:
        value: the description; None and objects are returned as they are.
        expected: the class.

    Raises:
        InputError: it describes something else.
    """
    if value is None or isinstance(value, expected):
        return value
    registered = f"tf_transformer>{expected.__name__}"
    config = value.get("config") if isinstance(value, Mapping) else None
    if not isinstance(config, dict) or value.get("registered_name") != registered:
        raise InputError(f"expected the description of a {registered}. Received: {shown(value)}")
    return expected.from_config(config)


def known_entries(config: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Returns the entries of an untrusted configuration that a class of this package has.

    Args:
        config: the configuration.
        names: the arguments of the class.

    Raises:
        InputError: there are other entries, except for those of every layer of Keras.
    """
    unknown = sorted(set(config) - {*names, "dtype", "trainable", "config_file"})
    if unknown:
        raise InputError(f"unknown setting: {shown(unknown[0])}. Expected some of {names}")
    return {name: config[name] for name in names if name in config}

"""Conversion of a model directory to the formats of other toolkits."""

import os
import pathlib
from collections.abc import Callable

from tf_transformer.config import nearest
from tf_transformer.errors import InputError
from tf_transformer.formats.keras_hub.writer import write_keras_hub
from tf_transformer.formats.supported import ModelToConvert
from tf_transformer.formats.writers.ctranslate2_writer import write_ctranslate2
from tf_transformer.formats.writers.hf_writer import write_hf
from tf_transformer.formats.writers.marian_writer import write_marian
from tf_transformer.storage.model_dir import check_model_dir, read_config
from tf_transformer.storage.new_folder import check_new_folder, new_folder

# Each writes the model of a model directory into a folder, and returns what the format changes.
WRITERS: dict[str, Callable[[ModelToConvert, pathlib.Path], list[str]]] = {
    "ctranslate2": write_ctranslate2,
    "hf": write_hf,
    "keras-hub": write_keras_hub,
    "marian": write_marian,
}


def convert_model(
    model_dir: str | os.PathLike, format_name: str, output: str | os.PathLike
) -> list[str]:
    """Converts a model directory to the format of another toolkit.

    Args:
        model_dir: the model directory.
        format_name: one of `format_names.EXPORTED`.
        output: the folder to write; it must not exist, or be empty.

    Returns:
        What the format changes, a sentence each.

    Raises:
        InputError: there is no such format, it cannot hold the model, or the model directory is
            damaged.
    """
    if format_name not in WRITERS:
        raise InputError(
            f"unknown format {format_name!r}, expected one of {', '.join(WRITERS)}"
            f"{nearest(format_name, WRITERS)}"
        )
    model_dir, output = pathlib.Path(model_dir), pathlib.Path(output)
    check_new_folder(output)
    source, target = check_model_dir(model_dir)
    if source is None:
        raise InputError(f"{model_dir}: a LanguageModel cannot be converted, only a translator")
    model = ModelToConvert(model_dir, read_config(model_dir), source, target)
    with new_folder(output) as folder:
        return WRITERS[format_name](model, folder)

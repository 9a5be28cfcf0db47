"""Conversion of a model directory to the formats of other toolkits."""

import os
import pathlib
from collections.abc import Callable

from tf_transformer.errors import InputError
from tf_transformer.formats.format_names import WEIGHT_DTYPES
from tf_transformer.formats.keras_hub.writer import write_keras_hub
from tf_transformer.formats.supported import ModelToConvert
from tf_transformer.formats.writers.ctranslate2_writer import write_ctranslate2
from tf_transformer.formats.writers.hf_writer import write_hf
from tf_transformer.formats.writers.litert_writer import write_litert
from tf_transformer.formats.writers.marian_writer import write_marian
from tf_transformer.known_names import nearest
from tf_transformer.printable import shown
from tf_transformer.storage.model_dir import check_model_dir, read_config
from tf_transformer.storage.new_folder import check_new_folder, new_folder

# Each writes the model of a model directory into a folder, and returns what the format changes.
# Those in `WEIGHT_DTYPES` also take the dtype of the weights.
WRITERS: dict[str, Callable[..., list[str]]] = {
    "ctranslate2": write_ctranslate2,
    "hf": write_hf,
    "keras-hub": write_keras_hub,
    "litert": write_litert,
    "marian": write_marian,
}


def convert_model(
    model_dir: str | os.PathLike,
    format_name: str,
    output: str | os.PathLike,
    dtype: str = "float32",
) -> list[str]:
    """Converts a model directory to the format of another toolkit.

    Args:
        model_dir: the model directory.
        format_name: one of `format_names.EXPORTED`.
        output: the folder to write; it must not exist, or be empty.
        dtype: dtype of the weights that are written, see `format_names.WEIGHT_DTYPES`.

    Returns:
        What the format changes, a sentence each.

    Raises:
        InputError: there is no such format, it cannot hold the model or weights of this dtype, or
            the model directory is damaged.
    """
    if format_name not in WRITERS:
        raise InputError(
            f"unknown format {format_name!r}, expected one of {', '.join(WRITERS)}"
            f"{nearest(format_name, WRITERS)}"
        )
    options = _writer_options(format_name, dtype)
    model_dir, output = pathlib.Path(model_dir), pathlib.Path(output)
    check_new_folder(output)
    source, target = check_model_dir(model_dir)
    if source is None:
        raise InputError(f"{model_dir}: a LanguageModel cannot be converted, only a translator")
    if format_name not in ("hf", "keras-hub") and (source.is_byte_level or target.is_byte_level):
        raise InputError(
            f"the format {format_name} cannot hold the byte-level BPE of BART's vocabulary, which "
            "is no SentencePiece model"
        )
    model = ModelToConvert(model_dir, read_config(model_dir), source, target)
    with new_folder(output) as folder:
        return WRITERS[format_name](model, folder, **options)


def _writer_options(format_name: str, dtype: str) -> dict[str, str]:
    dtypes = WEIGHT_DTYPES.get(format_name, ("float32",))
    if dtype not in dtypes:
        raise InputError(
            f"the format {format_name} has weights in {' or '.join(dtypes)}. Received: "
            f"dtype={shown(dtype)}"
        )
    return {"dtype": dtype} if format_name in WEIGHT_DTYPES else {}

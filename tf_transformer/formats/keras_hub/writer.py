"""Conversion of a model directory to a preset of KerasHub."""

import importlib.util
import pathlib

from tf_transformer.errors import InputError
from tf_transformer.formats.supported import ModelToConvert


def write_keras_hub(model: ModelToConvert, output: pathlib.Path) -> list[str]:
    """Writes the files that `tf_transformer.hub.TransformerSeq2SeqLM.from_preset` loads.

    Args:
        model: the model.
        output: an existing folder.

    Returns:
        What the format changes: nothing.

    Raises:
        InputError: KerasHub is not installed.
    """
    if importlib.util.find_spec("keras_hub") is None:
        raise InputError("the format keras-hub needs KerasHub: pip install 'tf-transformer[hub]'")
    from tf_transformer.hub import TransformerSeq2SeqLM

    TransformerSeq2SeqLM.from_model_dir(model.model_dir).save_to_preset(output)
    return []

"""Conversion of a model directory to LiteRT (TensorFlow Lite), for phones and embedded CPUs."""

import gc
import math
import pathlib
import tempfile
from typing import TYPE_CHECKING, Any

from tf_transformer.config import TransformerConfig
from tf_transformer.errors import InputError
from tf_transformer.formats.supported import ModelToConvert
from tf_transformer.storage.json_files import write_json
from tf_transformer.storage.weight_shapes import weight_shapes
from tf_transformer.tensorflow_messages import messages_filtered
from tf_transformer.text.special_ids import BEGIN_ID, END_ID, PAD_ID, SUPPRESSED_IDS, UNKNOWN_ID

if TYPE_CHECKING:  # checks of the settings must not import TensorFlow
    from tf_transformer.formats.writers.litert_sample import Sample

MODEL_NAME = "model.tflite"
DESCRIPTION_NAME = "model.json"
_FORMAT_VERSION = 1
# Positions in a file of FlatBuffers have 31 bits. What is not weights takes less than this.
_MAX_BYTES = 2**31 - 2**24


def write_litert(model: ModelToConvert, output: pathlib.Path, dtype: str = "float32") -> list[str]:
    """Writes `model.tflite` with two signatures, its description, and the SentencePiece models.

    The signatures `encode` and `decode_step` share the weights and use built-in operations only.
    The logits of a sentence are compared with the model's.

    Args:
        model: the model.
        output: an existing folder.
        dtype: dtype of the weights: "float32", "float16", or "int8", with which LiteRT quantizes
            the inputs of products when it computes them.

    Returns:
        What the format changes, a sentence each.

    Raises:
        InputError: the model is too large, its weights are damaged, or the logits differ.
    """
    config = model.config
    check_convertible(config)
    from tf_transformer.formats.writers.litert_sample import open_interpreter

    with tempfile.TemporaryDirectory(dir=output) as saved_model:
        sample = _save(model.model_dir, pathlib.Path(saved_model))
        gc.collect()  # the model, which consists of cycles: the conversion needs the memory
        (output / MODEL_NAME).write_bytes(_convert(saved_model, dtype))
    with messages_filtered():  # LiteRT says which kernels it uses
        difference = sample.check(open_interpreter(output / MODEL_NAME), config, dtype)
    for name, vocabulary in (("source.spm", model.source), ("target.spm", model.target)):
        (output / name).write_bytes(vocabulary.model)
    write_json(output / DESCRIPTION_NAME, _description(model, dtype))
    if dtype == "float32":
        return []
    return [f"Logits of a sentence differ by {difference:.2g} of the largest one."]


def check_convertible(config: TransformerConfig) -> None:
    """Checks that the format can hold a model.

    Raises:
        InputError: it has too many parameters.
    """
    size = 4 * sum(map(math.prod, weight_shapes(config).values()))
    if size > _MAX_BYTES:
        raise InputError(
            f"the format litert cannot hold a model with {size} bytes of weights, only up to "
            f"{_MAX_BYTES}"
        )


def _save(model_dir: pathlib.Path, folder: pathlib.Path) -> "Sample":
    """Saves the signatures of a model, and returns logits of the model."""
    from tf_transformer.formats.writers.litert_sample import Sample
    from tf_transformer.formats.writers.litert_signatures import save
    from tf_transformer.storage.model_dir import load_model

    model, _, _ = load_model(model_dir)
    save(model, folder)
    return Sample.of(model)


def _convert(saved_model: str, dtype: str) -> bytes:
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_saved_model(
        saved_model, signature_keys=["encode", "decode_step"]
    )
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    if dtype != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if dtype == "float16":
        converter.target_spec.supported_types = [tf.float16]
    return converter.convert()


def _description(model: ModelToConvert, dtype: str) -> dict[str, Any]:
    """Returns what a program must know to translate with the model."""
    from tf_transformer.formats.writers import litert_signatures as signatures

    config = model.config
    return {
        "format_version": _FORMAT_VERSION,
        "model": MODEL_NAME,
        "weights": dtype,
        "signatures": {
            "encode": {
                "inputs": _shown(signatures.encode_inputs()),
                "outputs": _shown(signatures.encode_outputs(config)),
            },
            "decode_step": {
                "inputs": _shown(signatures.step_inputs(config)),
                "outputs": _shown(signatures.step_outputs(config)),
            },
        },
        "caches": {name: list(cache.shape) for name, cache in signatures.caches(config).items()},
        "vocabularies": {
            side: {
                "file": f"{side}.spm",
                "size": vocabulary.vocab_size,
                "word_separators": vocabulary.word_separators,
            }
            for side, vocabulary in (("source", model.source), ("target", model.target))
        },
        "special_ids": {"pad": PAD_ID, "unknown": UNKNOWN_ID, "begin": BEGIN_ID, "end": END_ID},
        "suppressed_ids": list(SUPPRESSED_IDS),
        # Without the end id. Longer sources are cut.
        "max_tokens": config.max_length - 1,
        "target_tags": config.num_target_tags,
        "languages": model.source.languages,
    }


def _shown(arguments: "dict[str, Any]") -> dict[str, Any]:
    return {name: {"dtype": x.dtype, "shape": list(x.shape)} for name, x in arguments.items()}

"""Folders of published models: scaled down with random weights, or as large as published."""

import json
import math
import os
import pathlib
from typing import Any

import numpy as np

from tests.published_models.models import PublishedModel
from tests.published_models.tensors import tensor_shapes, width_of
from tf_transformer.formats.writers.safetensors_writer import write_safetensors

_SMALL_WIDTH = 64
# Rows of a small matrix besides the published number of sentinels, languages and rows without name.
_NUM_SMALL = 560
# Ids below are those of special pieces; the last ones, of what follows the pieces.
_FIRST_IDS, _LAST_IDS = 10, 200
_IDS = (
    *("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"),
    *("forced_bos_token_id", "forced_eos_token_id"),
)
_WIDTHS = (
    *("d_model", "d_kv", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff"),
    *("encoder_embed_dim", "decoder_embed_dim"),
)
_VOCAB_SIZES = ("encoder_vocab_size", "decoder_vocab_size")
_LAYERS = (
    *("num_hidden_layers", "encoder_layers", "decoder_layers"),
    *("num_layers", "num_decoder_layers"),
)


def scale_down(config: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings with one layer a stack, small widths, and a small vocabulary.

    All other settings, and so the numbers of heads, are as published. Special ids keep their place
    at the beginning or at the end of the vocabulary.
    """
    num_heads = config.get("encoder_attention_heads", 1)
    # A multiple of 12 heads, for example.
    width = 8 * num_heads if _SMALL_WIDTH % num_heads else _SMALL_WIDTH
    divisor = width_of(config) // width
    changes: dict[str, Any] = {name: config[name] // divisor for name in _WIDTHS if name in config}
    changes |= {name: 1 for name in _LAYERS if name in config}
    size = config["vocab_size"] if "vocab_size" in config else config["decoder_vocab_size"]
    return config | changes | {"vocab_size": _NUM_SMALL} | _small_ids(config, size)


def _small_ids(settings: dict[str, Any], size: int) -> dict[str, Any]:
    """Returns the ids among settings, in a vocabulary of `_NUM_SMALL` instead of `size`."""

    def small(token_id: int) -> int:
        if token_id < _FIRST_IDS:
            return token_id
        from_end = size - token_id
        return _NUM_SMALL - from_end if from_end <= _LAST_IDS else _FIRST_IDS

    ids: dict[str, Any] = {
        name: small(settings[name]) for name in _IDS if settings.get(name) is not None
    }
    if "bad_words_ids" in settings:
        ids["bad_words_ids"] = [[small(x) for x in entry] for entry in settings["bad_words_ids"]]
    ids |= {name: _NUM_SMALL for name in _VOCAB_SIZES if name in settings}
    return ids


def write_small(folder: pathlib.Path, model: PublishedModel) -> dict[str, Any]:
    """Writes a folder with random weights, and returns its settings.

    Args:
        folder: the folder to create.
        model: the model.
    """
    config = scale_down(model.config)
    _write_settings(folder, model, config, model.generation)
    shapes, random = tensor_shapes(config), np.random.default_rng(1)
    arrays = {name: random.normal(0, 0.1, shape).astype("f4") for name, shape in shapes.items()}
    for name, shape in shapes.items():
        if "norm" in name and name.endswith("weight"):
            arrays[name] = np.ones(shape, "f4")
    if config["model_type"] == "marian":  # the decoder of a published one begins with zeros
        arrays["model.shared.weight"][config["pad_token_id"]] = 0
        arrays["final_logits_bias"][0, config["pad_token_id"]] = 0
    write_safetensors(folder / "model.safetensors", shapes, arrays.items())
    return config


def write_full_size(folder: pathlib.Path, model: PublishedModel) -> None:
    """Writes a folder with zeros for weights, which take no room on the disk.

    Args:
        folder: the folder to create.
        model: the model.
    """
    _write_settings(folder, model, model.config, model.generation)
    header, end = {}, 0
    for name, shape in tensor_shapes(model.config).items():
        begin, end = end, end + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [begin, end]}
    content = json.dumps(header).encode()
    content += b" " * (-len(content) % 8)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(len(content).to_bytes(8, "little") + content)
        begin = file.tell()
        if "lm_head.weight" in header:  # which is not the embedding
            file.seek(begin + header["lm_head.weight"]["data_offsets"][0])
            file.write(np.float32(1).tobytes())
        os.truncate(file.fileno(), begin + end)


def _write_settings(
    folder: pathlib.Path,
    model: PublishedModel,
    config: dict[str, Any],
    generation: dict[str, Any] | None,
) -> None:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    if generation is not None:
        if config is not model.config:
            generation = generation | _small_ids(generation, model.config["vocab_size"])
        (folder / "generation_config.json").write_text(json.dumps(generation))
    model.write_vocabulary(folder, config)

"""Collects the outputs of exported signatures."""

import json
import pathlib

import numpy as np
import tensorflow as tf

from benchmarks.same_numbers.commands import LINES, run
from benchmarks.same_numbers.numbers import Numbers

# None exports all. In bfloat16 one per kind of output, since exporting takes long.
SIGNATURES = {
    "float32": None,
    "bfloat16": (
        *("serving_default", "nbest_options", "align", "complete"),
        *("tokens_options", "score", "sample"),
    ),
}
# Score of an empty entry of the n best; as the largest value it would hide other differences.
NO_SCORE = -1e9


def dump(numbers: Numbers, name: str, model_dir: pathlib.Path, output: pathlib.Path) -> None:
    """Exports a translator for each dtype and collects the outputs of every signature.

    Args:
        numbers: the collection.
        name: name of the model in it.
        model_dir: the model directory.
        output: folder for the exports.
    """
    description = json.loads((model_dir / "config.json").read_text(encoding="utf-8"))["model"]
    if description["decoder_only"]:
        return
    inputs = make_inputs(description["max_length"] - 1, description["source_vocab_size"])
    for dtype, signatures in SIGNATURES.items():
        path = output / dtype
        selected = ("--signatures", *signatures) if signatures else ()
        run("export", "--model-dir", model_dir, "--output", path, "--dtype", dtype, *selected)
        saved = tf.saved_model.load(str(path / "1"))
        for signature, function in saved.signatures.items():
            specs = function.structured_input_signature[1]
            given = {key: tf.constant(inputs[key], spec.dtype) for key, spec in specs.items()}
            for key, values in function(**given).items():
                values = values.numpy()
                if key == "scores":
                    values = np.where(values > NO_SCORE, values, np.nan)
                if key == "soft_alignment":
                    values = numbers_of(values)
                case = f"{name}, {signature}, {key}"
                numbers.add(f"SavedModel, {dtype}", case, {"": values})


def numbers_of(texts: np.ndarray) -> np.ndarray:
    """Returns the numbers of texts in Marian's format of soft alignments."""
    words = b" ".join(texts.ravel()).replace(b",", b" ").split()
    return np.array(words, "float64")


def make_inputs(limit: int, vocab_size: int) -> dict[str, list]:
    """Returns values of all signatures' inputs for six rows; `ids` has the width `limit`."""
    random = np.random.default_rng(1)
    ids = random.integers(4, vocab_size, size=(6, limit))
    lengths = np.array([1, 5, 12, 0, 3, limit])
    return {
        "text": LINES,
        "prefix": ["das", "", "das rote", "", "x", "das alte Haus"],
        "source": LINES,
        "target": ["das rote Haus 12", "", "x", "das kleine Boot 7.", "der Hund 🐶", "das " * 50],
        "ids": np.where(np.arange(limit) < lengths[:, np.newaxis], ids, 0),
        "beam_size": [0, 1, 2, 4, 3, 0],
        "length_penalty": [-1.0, 0.0, 0.6, 1.0, 2.0, 0.6],
        "max_length": [0, 5, 0, 10, 0, 0],
        "min_length": [0, 0, 3, 0, 8, 0],
        "no_repeat_ngram": [0, 2, 0, 3, 0, 0],
        "coverage_penalty": [0.0, 0.0, 0.2, 0.0, 0.3, 0.1],
        "temperature": [1.0, 0.7, 1.0, 0.5, 1.5, 1.0],
        "top_k": [0, 5, 0, 0, 20, 3],
        "top_p": [1.0, 1.0, 0.8, 0.5, 1.0, 0.9],
        "seed": [1, 2, 3, 4, 5, 6],
    }

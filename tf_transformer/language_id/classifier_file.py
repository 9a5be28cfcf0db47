"""Files of language classifiers, in the safetensors format.

    format_version        int16 ()
    threshold, scale      float32 (), see `LanguageClassifier`
    language.NAME         int16 (buckets,), the weights of each language

Names, types and sizes are checked before the values are read, see `open_tensors`.
"""

import math
import pathlib

import numpy as np

from tf_transformer.errors import InputError
from tf_transformer.formats.tensors.opening import open_tensors
from tf_transformer.formats.tensors.tensor_file import TensorFile
from tf_transformer.formats.writers.safetensors_writer import write_safetensors
from tf_transformer.language_id.classifier import (
    LanguageClassifier,
    check_languages,
    check_num_buckets,
)
from tf_transformer.printable import shown

# Changes with the features, see `ngrams`, too.
FORMAT_VERSION = 1
_PREFIX = "language."
_SCALARS = {"format_version": "int16", "threshold": "float32", "scale": "float32"}


def write_classifier(path: pathlib.Path, classifier: LanguageClassifier) -> None:
    """Writes a classifier, and replaces an existing file.

    Args:
        path: the file.
        classifier: the classifier.

    Raises:
        OSError: the file cannot be written.
    """
    arrays: dict[str, np.ndarray] = {
        "format_version": np.array(FORMAT_VERSION, np.int16),
        "threshold": np.array(classifier.threshold, np.float32),
        "scale": np.array(classifier.scale, np.float32),
    }
    for index, language in enumerate(classifier.languages):
        arrays[f"{_PREFIX}{language}"] = classifier.weights[:, index]
    write_safetensors(
        path,
        {name: array.shape for name, array in arrays.items()},
        arrays.items(),
        {name: array.dtype.name for name, array in arrays.items()},
    )


def read_classifier(path: pathlib.Path) -> LanguageClassifier:
    """Reads a classifier.

    Args:
        path: the file.

    Raises:
        InputError: the file is missing, damaged or no classifier, or of another format version.
        OSError: it cannot be read.
    """
    try:
        file = open_tensors(path)
    except FileNotFoundError as error:
        raise InputError(
            f"{path}: no such file; expected a classifier, as `train-language-id` writes it"
        ) from error
    with file:
        try:
            return _read(file)
        except InputError as error:
            if str(error).startswith(str(path)):
                raise
            raise InputError(f"{path}: {error}") from error


def _read(file: TensorFile) -> LanguageClassifier:
    languages = tuple(
        name.removeprefix(_PREFIX) for name in file.shapes if name.startswith(_PREFIX)
    )
    _check_scalars(file)
    version = int(file["format_version"])
    if version != FORMAT_VERSION:
        raise InputError(
            f"this version reads classifiers of format {FORMAT_VERSION}, got format {version}"
        )
    check_languages(languages)
    shapes = {file.shapes[f"{_PREFIX}{language}"] for language in languages}
    if len(shapes) != 1 or len(shape := shapes.pop()) != 1:
        raise InputError("damaged: expected an equal number of weights for each language")
    check_num_buckets(math.prod(shape), len(languages))
    for language in languages:
        if (dtype := file.dtypes[f"{_PREFIX}{language}"]) != "int16":
            raise InputError(f"damaged: expected weights of type int16, got {dtype}")
    weights = np.stack([file[f"{_PREFIX}{language}"] for language in languages], axis=1)
    scale, threshold = float(file["scale"]), float(file["threshold"])
    return LanguageClassifier(languages, weights, scale, threshold)


def _check_scalars(file: TensorFile) -> None:
    """Checks that a file has the scalars of a classifier, and nothing unknown."""
    for name in file.shapes:
        if name not in _SCALARS and not name.startswith(_PREFIX):
            raise InputError(
                "expected a classifier, as `train-language-id` writes it; found the tensor "
                f"{shown(name)}"
            )
    for name, dtype in _SCALARS.items():
        if name not in file:
            raise InputError(f"expected a classifier, as `train-language-id` writes it; no {name}")
        if (file.shapes[name], file.dtypes[name]) != ((), dtype):
            raise InputError(f"damaged: expected {name} to be one number of type {dtype}")

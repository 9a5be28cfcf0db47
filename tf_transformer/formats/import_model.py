"""Import of a model of another toolkit as a model directory."""

import contextlib
import math
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import tqdm

from tf_transformer.errors import InputError
from tf_transformer.formats.checkpoints.opennmt_tf import OpenNMTTF
from tf_transformer.formats.hf.download import (
    PREFIX,
    download,
    is_hub_name,
    lacks_prefix,
    parse,
)
from tf_transformer.formats.imported_model import SHORTLIST_NAME, ImportedModel
from tf_transformer.formats.recognition import find_format
from tf_transformer.printable import shown
from tf_transformer.shortlists.table import read_shortlist
from tf_transformer.storage.model_dir import (
    WEIGHTS_NAME,
    load_model,
    read_vocabularies,
    write_config_and_tokenizers,
)
from tf_transformer.storage.new_folder import check_new_folder, new_folder
from tf_transformer.storage.weight_shapes import Shapes, weight_shapes
from tf_transformer.storage.weights_file import check_finite, write_arrays

# From this number of weights on, the check has them in half the memory.
_LARGE = 10**9
_FEWEST_POSITIONS = 2
# Translated to check an imported model: words, and characters that few vocabularies have.
_SAMPLES = ("A man sleeps.", "1 2 3 \u4f60\u597d \u00e4\u00f6\u00fc")


def import_model(
    path: str | os.PathLike,
    model_dir: str | os.PathLike,
    format_name: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> tuple[str, ...]:
    """Imports a model of another toolkit, see `write_model`.

    Args:
        path: file or folder of the model, or its name on the Hugging Face Hub, `hf:OWNER/NAME` or
            `hf:OWNER/NAME@REVISION`, see `download`.
        model_dir: the model directory to write; it must not exist, or be empty.
        format_name: name of the format; None recognizes it.
        settings: what the files do not contain, see `read_model`.

    Returns:
        What the user must know to use the model, a sentence each.

    Raises:
        InputError: the format is not recognized, the model is damaged or not supported, cannot be
            downloaded, or `model_dir` is not empty.
    """
    check_new_folder(pathlib.Path(model_dir))
    path = local_path(path)
    imported = read_model(path, format_name, settings)
    write_model(imported, path, pathlib.Path(model_dir))
    return imported.notes


def local_path(path: str | os.PathLike) -> pathlib.Path:
    """Returns the path of a model, which is downloaded if it has a name of the Hub.

    Raises:
        InputError: as `parse` and `download`; or there is no such file, and it looks like a name of
            the Hub without its prefix.
    """
    if is_hub_name(path):
        return download(parse(path))
    if lacks_prefix(path):
        raise InputError(
            f"{path}: no such file or folder; the model of this name on the Hugging Face Hub is "
            f"{PREFIX}{path}"
        )
    return pathlib.Path(path)


def read_model(
    path: pathlib.Path,
    format_name: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> ImportedModel:
    """Reads a model of another toolkit, all but the values of its weights.

    Args:
        path: file or folder of the model.
        format_name: name of the format; None recognizes it.
        settings: what the files do not contain, such as the number of heads of a model of
            OpenNMT-tf, see `OpenNMTTFSettings`. The other formats need none.

    Raises:
        InputError: the format is not recognized, the model is damaged or not supported, or a
            setting is wrong; or a file of the folder is a symbolic link to nothing.
    """
    with _named(path):
        _check_links(path)
        known = find_format(path, format_name)
        if settings:
            if not isinstance(known, OpenNMTTF):
                raise InputError(
                    f"the files of the format {known.name} contain all settings. Received: "
                    + ", ".join(settings)
                )
            known = OpenNMTTF(settings)
        imported = known.read(path)
        if imported.config.max_length < _FEWEST_POSITIONS:
            raise InputError(
                f"expected at least {_FEWEST_POSITIONS} positions, for a token and the end. "
                f"Received: max_length={imported.config.max_length}"
            )
        return imported


def _check_links(path: pathlib.Path) -> None:
    """Checks that no file is a symbolic link to nothing, which would look like a missing file.

    Raises:
        InputError: one is.
    """
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        if file.is_symlink() and not file.exists():
            raise InputError(
                f"{file}: a symbolic link to {shown(os.readlink(file))}, which does not exist"
            )


def write_model(imported: ImportedModel, origin: pathlib.Path, model_dir: pathlib.Path) -> None:
    """Writes a model directory.

    It appears under its name when it is complete, and has translated two sentences with finite
    scores. Weights are converted one by one, so that memory holds them once, for the translation.
    A shortlist becomes `SHORTLIST_NAME` in it.

    Args:
        imported: the model.
        origin: its path, for error messages.
        model_dir: the model directory to write; it must not exist, or be empty.

    Raises:
        InputError: a weight is damaged or not finite, the shortlist is not one of the vocabularies,
            or the model cannot translate.
    """
    with _named(origin), new_folder(model_dir) as folder:
        write_config_and_tokenizers(
            folder, imported.config, imported.source_model, imported.target_model
        )
        if imported.shortlist is not None:
            _write_shortlist(folder, imported.shortlist, origin)
        shapes = weight_shapes(imported.config)
        progress = tqdm.tqdm(
            imported.weights, "converting weights", len(shapes), leave=False, disable=None
        )
        write_arrays(folder / WEIGHTS_NAME, shapes, _finite(progress, origin))
        _check_translations(folder, origin, shapes)


@contextlib.contextmanager
def _named(path: pathlib.Path) -> Iterator[None]:
    """Adds the model's path to error messages that do not contain it."""
    try:
        yield
    except InputError as error:
        if str(path) in str(error):
            raise
        raise InputError(f"{path}: {error}") from error


def _finite(
    arrays: Iterable[tuple[str, np.ndarray]], origin: pathlib.Path
) -> Iterator[tuple[str, np.ndarray]]:
    for name, array in arrays:
        check_finite(name, array, origin, "The file is damaged")
        yield name, array


def _write_shortlist(folder: pathlib.Path, lines: Iterable[str], origin: pathlib.Path) -> None:
    """Writes a shortlist and reads it again.

    Raises:
        InputError: it is empty, or not one of the vocabularies.
    """
    path = folder / SHORTLIST_NAME
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.writelines(lines)
    source, target = read_vocabularies(folder)
    if source is None:
        raise InputError(f"{origin}: a model without a source has no shortlist")
    try:
        read_shortlist(path, source, target)
    except ValueError as error:
        message = str(error).replace(str(path), "the converted shortlist")
        raise InputError(f"{origin}: {message}") from error


def _check_translations(folder: pathlib.Path, origin: pathlib.Path, shapes: Shapes) -> None:
    """Loads the model and translates sentences.

    Raises:
        InputError: the files do not fit together, or a score is not finite.
    """
    from tf_transformer.inference.translator import Translator
    from tf_transformer.text.language_tags import written_tags

    num_weights = sum(math.prod(shape) for shape in shapes.values())
    dtype = "bfloat16" if num_weights >= _LARGE else "float32"
    try:
        # The weights are not prepared for decoding, which would take twice the memory; without
        # that, large products are fast with a single row only.
        translator = Translator(
            *load_model(folder, dtype, mapped=True),
            beam_size=1,
            chunk_size=1,
            max_length_constant=5,
        )
        languages = translator.source_tokenizer.languages[:1]
        tags = written_tags(*languages * translator.model.config.num_tags)
        translator([tags + sample for sample in _SAMPLES])
    except ValueError as error:
        message = str(error).replace(str(folder), "the converted model")
        raise InputError(f"{origin}: cannot be used: {message}") from error

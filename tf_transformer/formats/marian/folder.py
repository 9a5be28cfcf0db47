"""The files of a Marian model: `decoder.yml` names them, or their own names tell."""

import pathlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from tf_transformer.errors import InputError
from tf_transformer.formats.marian.vocabularies import SENTENCEPIECE_SUFFIX
from tf_transformer.printable import shown
from tf_transformer.storage.plain_yaml import read_yaml
from tf_transformer.storage.regular_files import read_regular
from tf_transformer.text.reading import decode_text

MODEL_NAME, DECODER_NAME = "model.npz", "decoder.yml"
MODEL_SUFFIX = ".npz"
# Marian's trainer saves the state of the optimizer, too.
_OPTIMIZER_SUFFIX = ".optimizer.npz"
# How the names of the vocabularies of source and target begin.
_SIDES = (("source", "src"), ("target", "trg", "tgt"))
_MAX_BYTES = 2**20


class MarianFiles(NamedTuple):
    """The files of a model.

    Attributes:
        model: weights and settings.
        source: vocabulary of the source.
        target: vocabulary of the target.
    """

    model: pathlib.Path
    source: pathlib.Path
    target: pathlib.Path


def is_marian(path: pathlib.Path) -> bool:
    """Returns whether a file, or one in a folder, has the name of a Marian model."""
    return path.suffix == MODEL_SUFFIX or any(_models(path))


def find_files(path: pathlib.Path) -> MarianFiles:
    """Returns the files of a model.

    Of the paths in `decoder.yml`, which are often those of another machine, only the names count:
    the files must be in one folder.

    Args:
        path: the model's `.npz` file, or its folder. In a folder, the model is the one that
            `decoder.yml` names, or the only `.npz` file.

    Raises:
        InputError: the files are not found, or it is not clear which are meant.
    """
    if not path.is_dir():
        if path.suffix != MODEL_SUFFIX:
            raise InputError(
                f"{path}: expected a model in a {MODEL_SUFFIX} file; Marian's binary models "
                "(.bin) are not supported"
            )
        description = path.with_name(f"{path.name}.{DECODER_NAME}")
        if not description.exists():
            description = path.with_name(DECODER_NAME)
        vocabularies = _read_description(description, path.name)
        return _files(path, vocabularies)
    description = path / DECODER_NAME
    if description.exists():
        values = _read_yaml(description)
        model = path / _one_model(values, description)
        return _files(model, _vocabularies(values, description))
    models = _models(path)
    if len(models) != 1:
        found = ", ".join(model.name for model in models[:5]) or "none"
        raise InputError(
            f"{path}: expected {DECODER_NAME} or one {MODEL_SUFFIX} file, found {found}"
            + ("; name the file" if models else "")
        )
    return find_files(models[0])


def _models(folder: pathlib.Path) -> list[pathlib.Path]:
    if not folder.is_dir():
        return []
    return sorted(
        file
        for file in folder.iterdir()
        if file.suffix == MODEL_SUFFIX and not file.name.endswith(_OPTIMIZER_SUFFIX)
    )


def _files(model: pathlib.Path, vocabularies: list[str] | None) -> MarianFiles:
    if vocabularies is None:
        return MarianFiles(model, *_find_vocabularies(model.parent))
    return MarianFiles(model, *(model.with_name(name) for name in vocabularies))


def _find_vocabularies(folder: pathlib.Path) -> list[pathlib.Path]:
    found = sorted(file for file in folder.iterdir() if file.suffix == SENTENCEPIECE_SUFFIX)
    if len(found) == 1:
        return found * 2
    sides = [[file for file in found if _is_of(file.name, names)] for names in _SIDES]
    if all(len(files) == 1 for files in sides):
        return [files[0] for files in sides]
    raise InputError(
        f"{folder}: expected {DECODER_NAME}, one {SENTENCEPIECE_SUFFIX} file, or source.spm and "
        f"target.spm; found {', '.join(file.name for file in found[:5]) or 'none'}"
    )


def _is_of(name: str, beginnings: Iterable[str]) -> bool:
    return name.startswith(tuple(beginnings))


def _read_description(path: pathlib.Path, model_name: str) -> list[str] | None:
    """Returns the vocabularies in a `decoder.yml`, None unless there is one for this model."""
    if not path.exists():
        return None
    values = _read_yaml(path)
    return _vocabularies(values, path) if model_name in _names(values, "models", path) else None


def _read_yaml(path: pathlib.Path) -> dict[str, Any]:
    values = read_yaml(decode_text(read_regular(path, _MAX_BYTES), path), path)
    if not isinstance(values, dict):
        raise InputError(f"{path}: expected settings with names, got {shown(values)}")
    return values


def _one_model(values: dict[str, Any], path: pathlib.Path) -> str:
    names = _names(values, "models", path)
    if len(names) != 1 or not names[0].endswith(MODEL_SUFFIX):
        raise InputError(
            f"{path}: expected one model, a {MODEL_SUFFIX} file. Received: models={shown(names)}"
        )
    return names[0]


def _vocabularies(values: dict[str, Any], path: pathlib.Path) -> list[str]:
    names = _names(values, "vocabs", path)
    if len(names) != 2:
        raise InputError(f"{path}: expected two vocabularies. Received: vocabs={shown(names)}")
    return names


def _names(values: dict[str, Any], key: str, path: pathlib.Path) -> list[str]:
    """Returns the names of the files in a list of paths."""
    paths = values.get(key)
    names = [pathlib.PurePosixPath(text).name for text in _texts(paths)]
    if not names or not all(name.isprintable() and name not in ("", "..") for name in names):
        raise InputError(f"{path}: expected a list of files. Received: {key}={shown(paths)}")
    return names


def _texts(value: Any) -> list[str]:
    is_list = isinstance(value, list) and all(isinstance(text, str) for text in value)
    return value if is_list else []

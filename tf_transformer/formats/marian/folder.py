"""The files of a Marian model: `decoder.yml` names them, or their own names and contents tell."""

import pathlib
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tf_transformer.errors import InputError
from tf_transformer.formats.foreign_content import NUM_BYTES, describe
from tf_transformer.formats.marian.binary_model import begins_like_marian
from tf_transformer.formats.marian.binary_shortlist import begins_like_shortlist
from tf_transformer.formats.marian.description import (
    DECODER_NAME,
    Description,
    Search,
    read_description,
    read_descriptions,
)
from tf_transformer.formats.marian.vocabularies import SENTENCEPIECE_SUFFIX
from tf_transformer.printable import shown

MODEL_NAME = "model.npz"
MODEL_SUFFIX, BINARY_SUFFIX = ".npz", ".bin"
# Marian's trainer saves the state of the optimizer, too.
_OPTIMIZER_SUFFIX = ".optimizer.npz"
_SHORTLIST_PREFIX = "lex."
# How the names of the vocabularies of source and target begin.
_SIDES = (("source", "src"), ("target", "trg", "tgt"))


class MarianFiles(NamedTuple):
    """The files of a model.

    Attributes:
        model: weights and settings.
        source: vocabulary of the source.
        target: vocabulary of the target.
        shortlist: binary shortlist; None if there is none.
        search: the search of the original.
        notes: what the user must know of the files, for `ImportedModel`.
    """

    model: pathlib.Path
    source: pathlib.Path
    target: pathlib.Path
    shortlist: pathlib.Path | None = None
    search: Search = Search()
    notes: tuple[str, ...] = ()


def is_marian(path: pathlib.Path) -> bool:
    """Returns whether a file, or one in a folder, has the name or the content of a Marian model."""
    if path.suffix == MODEL_SUFFIX or any(_models(path)):
        return True
    return path.suffix == BINARY_SUFFIX and _is_binary_model(path)


def find_files(path: pathlib.Path) -> MarianFiles:
    """Returns the files of a model, which are in one folder.

    Args:
        path: the model's `.npz` or `.bin` file, or its folder. In a folder, the model is the one
            that `decoder.yml` or `config.*.yml` names, or the only `.npz` file, or else the only
            `.bin` file that is a model.

    Raises:
        InputError: the files are not found, or it is not clear which are meant.
    """
    if not path.is_dir():
        _check_name(path)
        own = path.with_name(f"{path.name}.{DECODER_NAME}")
        found = [read_description(own)] if own.exists() else read_descriptions(path.parent)
        return _files(path, next((x for x in found if path.name in x.models), None))
    found = read_descriptions(path)
    if found:
        names = {_one_model(description) for description in found}
        if len(names) > 1:
            raise InputError(f"{path}: expected one model, found {_listed(names)}; name the file")
        return _files(path / names.pop(), found[0])
    models = _models(path)
    if len(models) != 1:
        raise InputError(
            f"{path}: expected {DECODER_NAME}, or one {MODEL_SUFFIX} or {BINARY_SUFFIX} file of "
            f"Marian, found {_listed(model.name for model in models)}"
            + ("; name the file" if models else "")
        )
    return find_files(models[0])


def _check_name(path: pathlib.Path) -> None:
    if path.suffix in (MODEL_SUFFIX, BINARY_SUFFIX):
        return
    with open(path, "rb") as file:
        hint = describe(file.read(NUM_BYTES))
    raise InputError(
        f"{path}: expected a model in a {MODEL_SUFFIX} or {BINARY_SUFFIX} file"
        + (hint and f"; this is {hint}")
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)[:5]) or "none"


def _models(folder: pathlib.Path) -> list[pathlib.Path]:
    if not folder.is_dir():
        return []
    files = sorted(folder.iterdir())
    archives = [
        file
        for file in files
        if file.suffix == MODEL_SUFFIX and not file.name.endswith(_OPTIMIZER_SUFFIX)
    ]
    return archives or [
        file for file in files if file.suffix == BINARY_SUFFIX and _is_binary_model(file)
    ]


def _is_binary_model(path: pathlib.Path) -> bool:
    return _begins(path, lambda begin: begins_like_marian(begin, path.stat().st_size))


def _begins(path: pathlib.Path, is_like: Callable[[bytes], bool]) -> bool:
    """Returns whether a regular file has such a begin; a pipe is not opened."""
    if not path.is_file():
        return False
    try:
        with open(path, "rb") as file:
            return is_like(file.read(16))
    except OSError:
        return False


def _files(model: pathlib.Path, description: Description | None) -> MarianFiles:
    if description is None:
        vocabularies, search = _find_vocabularies(model), Search()
    else:
        vocabularies = [model.with_name(name) for name in description.vocabularies]
        search = description.search
    shortlist, notes = _find_shortlist(model, description)
    source, target = vocabularies
    return MarianFiles(model, source, target, shortlist, search, (*search.notes, *notes))


def _of_languages(model: pathlib.Path, files: list[pathlib.Path]) -> list[pathlib.Path]:
    """Returns the files with the languages of a model in their names, as Firefox's; else all.

    Args:
        model: the model, such as `model.enfr.intgemm.alphas.bin`.
        files: files such as `vocab.enfr.spm`.
    """
    languages = model.name.split(".")[1]
    return [file for file in files if languages in file.name.split(".")] or files


def _find_vocabularies(model: pathlib.Path) -> list[pathlib.Path]:
    folder = model.parent
    found = sorted(file for file in folder.iterdir() if file.suffix == SENTENCEPIECE_SUFFIX)
    found = _of_languages(model, found)
    if len(found) == 1:
        return found * 2
    sides = [[file for file in found if file.name.startswith(names)] for names in _SIDES]
    if len(found) == 2 and all(len(files) == 1 for files in sides):
        return [files[0] for files in sides]
    raise InputError(
        f"{folder}: expected {DECODER_NAME}, one {SENTENCEPIECE_SUFFIX} file, or source.spm and "
        f"target.spm; found {_listed(file.name for file in found)}"
    )


def _find_shortlist(
    model: pathlib.Path, description: Description | None
) -> tuple[pathlib.Path | None, tuple[str, ...]]:
    folder, name = model.parent, description and description.shortlist
    if name:
        path = folder / name
        if _begins(path, begins_like_shortlist):
            return path, ()
        why = "is not a binary one" if path.exists() else "is not beside the model"
        return None, (f"The shortlist {name} {why}, and was not imported.",)
    found = sorted(
        file
        for file in folder.iterdir()
        if file.suffix == BINARY_SUFFIX
        and (file.name.startswith(_SHORTLIST_PREFIX) or _begins(file, begins_like_shortlist))
    )
    found = _of_languages(model, found)
    if len(found) > 1:
        raise InputError(
            f"{folder}: expected one shortlist, found {_listed(file.name for file in found)}; put "
            "the others into another folder"
        )
    return (found[0] if found else None), ()


def _one_model(description: Description) -> str:
    names = description.models
    if len(names) != 1 or not names[0].endswith((MODEL_SUFFIX, BINARY_SUFFIX)):
        raise InputError(
            f"{description.path}: expected one model, a {MODEL_SUFFIX} or {BINARY_SUFFIX} file. "
            f"Received: models={shown(names)}"
        )
    return names[0]

"""Files of SavedModels. TensorFlow is imported only to write one."""

import errno
import hashlib
import os
import pathlib
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from tf_transformer.errors import InputError
from tf_transformer.language_tags import count_tags
from tf_transformer.storage.json_files import read_json

if TYPE_CHECKING:
    import tensorflow as tf

CARD_NAME = "model.json"  # of the file that describes an exported model
_NAME = "saved_model.pb"
# The part of TensorFlow's error messages that names the failed operation.
_OPERATION = re.compile(r"\{\{\w+ [^{}]*\}\}\s*| \[Op.*", re.DOTALL)


class ExportedLanguages(NamedTuple):
    """The languages of an exported model.

    Attributes:
        languages: those of which a source needs tags; none if the model is not multilingual.
        num_tags: number of tags that a source needs.
    """

    languages: list[str]
    num_tags: int


def write_saved_model(
    module: "tf.Module", folder: pathlib.Path, signatures: dict[str, Callable]
) -> None:
    """Saves a module and its functions.

    Args:
        module: holds the variables of the functions.
        folder: a new or empty folder.
        signatures: concrete functions by name.

    Raises:
        OSError: writing failed, as on a full disk.
    """
    import tensorflow as tf

    try:
        tf.saved_model.save(module, os.fspath(folder), signatures=signatures)
    except tf.errors.OpError as error:
        reason = _OPERATION.sub("", error.message)
        raise OSError(errno.EIO, reason, str(folder.parent)) from error


def version_folder(folder: pathlib.Path) -> pathlib.Path:
    """Returns the folder of a SavedModel: the one given, or its newest version.

    Args:
        folder: a version of an exported model, such as `served/1`, or the folder of the versions.

    Raises:
        InputError: there is no SavedModel.
    """
    if not is_saved_model(folder):
        raise InputError(f"{folder}: expected an exported model, such as served/1")
    if not (folder / _NAME).exists():
        folder = max(_versions(folder), key=lambda path: int(path.name))
    return folder.absolute()


def is_saved_model(folder: pathlib.Path) -> bool:
    """Returns whether a folder is that of a SavedModel, or of its versions."""
    return (folder / _NAME).exists() or bool(_versions(folder))


def exported_languages(folder: pathlib.Path) -> ExportedLanguages | None:
    """Returns the languages of an exported model; None if it does not say them.

    Args:
        folder: a version of an exported model, or the folder of the versions.

    Raises:
        InputError: there is no SavedModel, or its description is damaged.
    """
    path = version_folder(folder) / CARD_NAME
    card: dict[str, Any] = read_json(path) if path.exists() else {}
    model, languages = card.get("model"), card.get("target_languages", [])
    if not isinstance(model, dict) or not isinstance(languages, list):
        return None
    num_tags = count_tags(model.get("language_tags", "source"))
    return ExportedLanguages(list(map(str, languages)), num_tags)


def _versions(folder):
    return [path.parent for path in folder.glob(f"*/{_NAME}") if path.parent.name.isdecimal()]


def model_digest(folder: pathlib.Path) -> str:
    """Returns a digest of the files of a SavedModel."""
    hasher = hashlib.blake2b(digest_size=16)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with open(path, "rb") as file:
            hasher.update(hashlib.file_digest(file, "blake2b").digest())
    return hasher.hexdigest()

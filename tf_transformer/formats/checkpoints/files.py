"""Which file of a folder is the checkpoint, and what it contains."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.formats.tensors.opening import read_torch_tree
from tf_transformer.formats.tensors.stored_file import naming
from tf_transformer.formats.tensors.tensor_file import StoredTensor, TensorFile
from tf_transformer.printable import shown

SUFFIX = ".pt"


def find_checkpoint(path: pathlib.Path, preferred: Sequence[str] = ()) -> pathlib.Path:
    """Returns the checkpoint that a path names.

    Args:
        path: the checkpoint, or its folder.
        preferred: names of checkpoints; the first one that exists is chosen. Otherwise a folder
            must contain one file that ends in `.pt`.

    Raises:
        InputError: a folder contains none or several.
    """
    if not path.is_dir():
        return path
    found = [path / name for name in preferred if (path / name).exists()]
    found = found[:1] or sorted(path.glob(f"*{SUFFIX}"))
    if len(found) != 1:
        names = ", ".join(file.name for file in found[:5]) or "none"
        raise InputError(f"{path}: expected the name of one checkpoint *{SUFFIX}; found {names}")
    return found[0]


def read_checkpoint(path: pathlib.Path, program: str, keys: Sequence[str]) -> dict[str, Any]:
    """Reads a checkpoint of PyTorch, without the values of its tensors.

    Args:
        path: the file.
        program: the program that wrote it, for the error message.
        keys: entries that it must have.

    Raises:
        InputError: the file is damaged, contains anything else than values and tensors, or lacks
            an entry.
    """
    root = read_torch_tree(path)
    missing = [key for key in keys if not isinstance(root, dict) or root.get(key) is None]
    if missing:
        raise InputError(f"{path}: expected a checkpoint of {program}, with {', '.join(keys)}")
    return root


def tensors_of(root: Mapping[str, Any], path: pathlib.Path, *keys: str) -> TensorFile:
    """Returns the tensors of entries of a checkpoint, each of which is a dict of tensors.

    Args:
        root: the checkpoint.
        path: its file.
        *keys: the entries; tensors of all but the first get the entry's name before their own.

    Raises:
        InputError: an entry is not a dict of tensors, or a name is not printable text.
    """
    tensors = {}
    for number, key in enumerate(keys):
        content = root[key]
        if not isinstance(content, dict):
            raise InputError(f"{path}: {key} must be a dict of tensors, got {shown(content)}")
        for name, value in content.items():
            if not isinstance(name, str) or not isinstance(value, StoredTensor):
                kind = type(value).__name__
                raise InputError(f"{path}: {key}: {shown(name)} must be a tensor, got a {kind}")
            tensors[f"{key}.{name}" if number else name] = value
    with naming(path):
        return TensorFile(path, tensors, ())


def check_settings(
    settings: Mapping[str, Any], supported: Mapping[str, Any], path: pathlib.Path
) -> None:
    """Checks settings that select another architecture.

    Args:
        settings: the model's settings; one that is missing has the supported value.
        supported: the only supported value of each; None means any that is false in Python.
        path: file of the settings, for the error message.

    Raises:
        InputError: a setting has another value; the message names it.
    """
    for name, expected in supported.items():
        value = settings.get(name, expected)
        if value != expected and (value or expected is not None):
            raise InputError(
                f"{path}: {name}={shown(value)} is not supported"
                + (f", only {name}={expected!r}" if expected is not None else "")
            )

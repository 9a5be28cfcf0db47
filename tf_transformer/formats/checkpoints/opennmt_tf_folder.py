"""The files of a run of OpenNMT-tf: checkpoints, vocabularies, and the configuration in YAML."""

import pathlib
import re
from typing import Any, NamedTuple

from tf_transformer.errors import InputError
from tf_transformer.formats.bundles.bundle import INDEX_SUFFIX
from tf_transformer.formats.vocabulary_rows import VocabularyRows
from tf_transformer.printable import shown
from tf_transformer.storage.plain_yaml import read_yaml
from tf_transformer.storage.regular_files import read_regular
from tf_transformer.text.reading import decode_text

# Names the newest checkpoint, `model_checkpoint_path: "ckpt-100"`.
_STATE_NAME = "checkpoint"
_MAX_SETTINGS_BYTES = 2**20
# The largest known vocabulary, of 256,000 pieces, takes about 5 MB.
_MAX_VOCABULARY_BYTES = 2**28
_YAML_SUFFIXES = (".yml", ".yaml")
_VOCABULARY_SUFFIX = ".vocab"
# Entries for TensorBoard, which OpenNMT-tf writes beside the checkpoints: those of the vocabulary,
# and one of unknown words. Sides that share a matrix have one file.
_TENSORBOARD_NAMES = tuple(
    f"model_examples_inputter_{side}_inputter_embedding.txt" for side in ("features", "labels")
)
# What stands there for entries of white space.
_WHITE_SPACE = re.compile(r"<whitespace\d+>")
_SIDES = {"source": ("source", "src"), "target": ("target", "tgt", "trg")}
_PAD, _BEGIN, _END, _UNKNOWN = "<blank>", "<s>", "</s>", "<unk>"


class Vocabularies(NamedTuple):
    """The vocabulary files of a run.

    Attributes:
        folder: the folder with the vocabularies and SentencePiece models.
        paths: the vocabularies of source and target, equal if there is one.
        run: the run's configuration; empty if there is none.
    """

    folder: pathlib.Path
    paths: tuple[pathlib.Path, pathlib.Path]
    run: dict[str, Any]


def find_index(path: pathlib.Path) -> pathlib.Path:
    """Returns the index of the checkpoint that a path names.

    Args:
        path: the index, or a folder: the newest checkpoint according to its file `checkpoint`, or
            the only one.

    Raises:
        InputError: there is none, or there are several.
    """
    if not path.is_dir():
        return path
    found = sorted(file.name for file in path.iterdir() if file.suffix == INDEX_SUFFIX)
    if (state := path / _STATE_NAME).exists():
        text = read_regular(state, _MAX_SETTINGS_BYTES).decode(errors="replace")
        match = re.search(r'^model_checkpoint_path: "([^"\n]+)"', text, re.MULTILINE)
        name = pathlib.PurePath(match[1]).name + INDEX_SUFFIX if match else ""
        if name in found:
            return path / name
    if len(found) != 1:
        raise InputError(
            f"{path}: expected the name of one checkpoint *{INDEX_SUFFIX}; found "
            + (", ".join(found[:5]) or "none")
        )
    return path / found[0]


def find_vocabularies(index: pathlib.Path) -> Vocabularies:
    """Returns the vocabularies of a checkpoint, in its folder or the one above it.

    They are those that a configuration names; their paths count by their last names. Without a
    configuration: the files that end in `.vocab`, or those for TensorBoard.

    Raises:
        InputError: they are not found, or it is not clear which ones are meant.
    """
    folder = index.parent
    for place in (folder, folder.absolute().parent):
        run = _read_run(place)
        names = _configured_names(run, place) or _found_names(place)
        if names:
            source, target = (place / name for name in names)
            return Vocabularies(place, (source, target), run)
    raise InputError(
        f"{folder}: no vocabularies; expected a configuration in YAML that names files beside it, "
        f"one file *{_VOCABULARY_SUFFIX}, or source{_VOCABULARY_SUFFIX} and "
        f"target{_VOCABULARY_SUFFIX}"
    )


def _read_run(folder: pathlib.Path) -> dict[str, Any]:
    """Returns the only configuration of a folder that describes data."""
    found = {}
    for path in sorted(file for file in folder.iterdir() if file.suffix in _YAML_SUFFIXES):
        values = read_yaml(decode_text(read_regular(path, _MAX_SETTINGS_BYTES), path), path)
        if isinstance(values, dict) and isinstance(values.get("data"), dict):
            found[path.name] = values
    if len(found) > 1:
        raise InputError(
            f"{folder}: expected one configuration with data, found {', '.join(list(found)[:5])}"
        )
    return next(iter(found.values()), {})


def _configured_names(run: dict[str, Any], folder: pathlib.Path) -> list[str]:
    data = run.get("data", {})
    if any(re.fullmatch(r"(source|target)_\d+.*vocabulary", str(name)) for name in data):
        raise InputError(f"{folder}: models of several sources or features are not supported")
    names = [data.get(f"{side}_vocabulary") for side in _SIDES]
    if not any(names):
        return []
    for side, name in zip(_SIDES, names, strict=True):
        if not isinstance(name, str) or not pathlib.PurePath(name).name:
            raise InputError(
                f"{folder}: the configuration must name {side}_vocabulary, got {shown(name)}"
            )
    return [pathlib.PurePath(name).name for name in names]


def _found_names(folder: pathlib.Path) -> list[str]:
    names = sorted(file.name for file in folder.iterdir() if file.suffix == _VOCABULARY_SUFFIX)
    if len(names) == 1:
        return names * 2
    if names:
        sides = [
            [name for name in names if set(words) & set(re.split(r"[._-]", name))]
            for words in _SIDES.values()
        ]
        if any(len(side) != 1 for side in sides):
            raise InputError(
                f"{folder}: expected one file *{_VOCABULARY_SUFFIX}, or one for each side with "
                f"names such as source{_VOCABULARY_SUFFIX}; found {', '.join(names[:5])}"
            )
        return [side[0] for side in sides]
    names = [name for name in _TENSORBOARD_NAMES if (folder / name).exists()]
    return (names * 2)[:2] if _TENSORBOARD_NAMES[0] in names else []


def read_vocabulary(path: pathlib.Path, *, is_target: bool) -> VocabularyRows:
    """Reads a vocabulary: an entry in each line; the id of unknown words follows after the last.

    Args:
        path: the file.
        is_target: whether entries of begin and end are needed; sources can lack them.

    Raises:
        InputError: it does not begin with the special entries, an entry occurs twice, or the file
            is not UTF-8.
        FileNotFoundError: there is no such file.
    """
    text = decode_text(read_regular(path, _MAX_VOCABULARY_BYTES), path)
    lines = [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")]
    if path.name in _TENSORBOARD_NAMES:
        lines = _without_unknown(lines, path)
    special = [_PAD, _BEGIN, _END]
    has_controls = lines[:3] == special
    if not has_controls and (is_target or lines[:1] != [_PAD] or {_BEGIN, _END} & set(lines)):
        raise InputError(
            f"{path}: expected the first entries {', '.join(special)}, got "
            + (", ".join(shown(line) for line in lines[:3]))
        )
    first_lines: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if line in first_lines:
            raise InputError(
                f"{path}:{number}: {shown(line)} occurs twice, first in line {first_lines[line]}"
            )
        first_lines[line] = number
    begin, end = (1, 2) if has_controls else (0, 0)
    return VocabularyRows.of([*lines, _UNKNOWN], pad=0, unknown=len(lines), begin=begin, end=end)


def _without_unknown(lines: list[str], path: pathlib.Path) -> list[str]:
    if lines[-1] != _UNKNOWN or any(map(_WHITE_SPACE.fullmatch, lines)):
        raise InputError(
            f"{path}: not a complete vocabulary; copy those of the training to this folder"
        )
    return lines[:-1]

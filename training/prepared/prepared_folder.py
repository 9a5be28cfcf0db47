"""A prepared folder as `prepare` writes it: its description and its vocabulary."""

import contextlib
import dataclasses
import hashlib
import os
import pathlib
import re
import reprlib
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.storage.json_files import read_json
from tf_transformer.storage.regular_files import read_regular
from training.config import VocabularyConfig
from training.settings import make_config

FORMAT_VERSION = 2
DESCRIPTION_NAME = "prepared.json"
# The folder in it that says how far `prepare` has come; no name that somebody else would choose.
WORK_NAME = "work-of-prepare"
SPM_NAMES = ("source.spm", "target.spm")
# The largest description: some 200,000 shards. And the largest SentencePiece model.
MAX_BYTES = 2**28

_KEYS = {"vocabulary", "max_length", "tokenizers", "statistics", "shards"}
_SHARD_KEYS = {"name", "pairs", "bytes", "digest", "lengths"}
_SHARD_NAME = re.compile(r"shard-[0-9]{5,}\.tfrecord")
# Lengths and check sums of a record.
_RECORD_BYTES = 16

Models = tuple[bytes | None, bytes]


@dataclasses.dataclass(frozen=True)
class PreparedFolder:
    """One prepared corpus and how often it is seen.

    Args:
        path: the folder.
        weight: how often each of its pairs is seen, beside those of the other folders.
    """

    path: pathlib.Path
    weight: float = 1.0

    @classmethod
    def parse(cls, name: str) -> "PreparedFolder":
        """Reads a name from the command line: `DIR`, or `DIR=WEIGHT`.

        Raises:
            ValueError: there is no such folder, or the weight is not a positive number.
        """
        folder, equals, weight = name.rpartition("=")
        if pathlib.Path(name).is_dir() or not equals:
            folder, weight = name, "1"
        try:
            value = float(weight)
        except ValueError:
            value = -1.0
        if not 0 < value < float("inf"):
            raise InputError(f"{name}: expected DIR=WEIGHT with a weight above 0")
        if not pathlib.Path(folder).is_dir():
            raise InputError(f"{folder}: no such folder")
        return cls(pathlib.Path(folder), value)


def read_description(folder: pathlib.Path) -> dict[str, Any]:
    """Reads `prepared.json`.

    Raises:
        ValueError: not a prepared folder, not one that is finished, or one of another format.
    """
    path = folder / DESCRIPTION_NAME
    if not os.path.lexists(path):
        reason = (
            "is not finished; run the same `prepare` again"
            if (folder / WORK_NAME).is_dir()
            else (f"is not a prepared folder: it has no {DESCRIPTION_NAME}")
        )
        raise InputError(f"{folder} {reason}")
    try:
        description = read_json(path, MAX_BYTES)
        version = description["format_version"]
    except (ValueError, KeyError) as error:
        raise InputError(f"{path}: damaged ({' '.join(repr(error).split())[:400]})") from error
    if version != FORMAT_VERSION:
        raise InputError(
            f"{path}: this version reads prepared folders of format {FORMAT_VERSION}, "
            f"got format {reprlib.repr(version)}"
        )
    _check_description(path, description)
    return description


def _check_description(path: pathlib.Path, description: dict[str, Any]) -> None:
    missing = _KEYS - description.keys()
    shards = description.get("shards", [])
    if not isinstance(shards, list) or not all(isinstance(shard, dict) for shard in shards):
        raise InputError(f"{path}: damaged, its shards are no list of objects")
    for shard in shards:
        missing |= _SHARD_KEYS - shard.keys()
    if missing:
        raise InputError(f"{path}: damaged, it lacks {', '.join(sorted(missing))}")
    tokenizers = description["tokenizers"]
    if not isinstance(tokenizers, list) or len(tokenizers) != 2:
        raise InputError(f"{path}: damaged, expected two tokenizers, of source and target")
    for shard in shards:
        _check_shard(path, shard)
    if not any(shard["pairs"] for shard in shards):
        raise InputError(f"{path}: damaged, there is no pair in its shards")


def _check_shard(path: pathlib.Path, shard: dict[str, Any]) -> None:
    """Refuses files elsewhere, and numbers that cannot be."""
    name, lengths = shard["name"], shard["lengths"]
    if not isinstance(name, str) or not _SHARD_NAME.fullmatch(name):
        raise InputError(
            f"{path}: damaged, expected shards such as shard-00000.tfrecord, "
            f"got {reprlib.repr(name)}"
        )
    numbers = [shard["pairs"], shard["bytes"], *(lengths if isinstance(lengths, list) else [None])]
    if any(type(number) is not int or number < 0 for number in numbers):
        raise InputError(f"{path}: damaged, {name} has counts that are no counts")
    if sum(lengths) != shard["pairs"] or shard["pairs"] * _RECORD_BYTES > shard["bytes"]:
        raise InputError(
            f"{path}: damaged, the {shard['pairs']:,} pairs of {name} are not {sum(lengths):,} "
            f"lengths in {shard['bytes']:,} bytes"
        )


def vocabulary_settings(folder: pathlib.Path, description: dict[str, Any]) -> VocabularyConfig:
    """The settings of the vocabulary, from the description of a prepared folder.

    Raises:
        ValueError: there are others, or values that are none.
    """
    try:
        return make_config({"vocabulary": description["vocabulary"]}).vocabulary
    except ValueError as error:
        raise InputError(f"{folder / DESCRIPTION_NAME}: damaged ({str(error)[:400]})") from error


def read_models(folder: pathlib.Path) -> Models:
    """The SentencePiece models of a prepared folder or a model directory.

    A file in place of a folder is one model for both sides.

    Raises:
        ValueError: there is none, or it is no regular file.
        OSError: it cannot be read, as a link that leads to itself.
    """
    with contextlib.suppress(FileNotFoundError):
        folder.stat()
    if folder.exists() and not folder.is_dir():
        model = read_regular(folder, MAX_BYTES)
        return model, model
    source, target = (folder / name for name in SPM_NAMES)
    if not target.exists():
        raise InputError(f"{folder}: has no vocabulary ({target.name})")
    return (
        read_regular(source, MAX_BYTES) if source.exists() else None,
        read_regular(target, MAX_BYTES),
    )


def digest_of_file(path: pathlib.Path) -> str:
    """`digest_of` the bytes of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def digest_of(content: bytes) -> str:
    """BLAKE2 digest of a file's bytes."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()

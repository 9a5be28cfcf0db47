"""Reading a prepared folder: its description and its vocabulary."""

import collections
import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import reprlib
from collections.abc import Sequence
from typing import Annotated, Any

import pydantic

from tf_transformer.errors import InputError
from tf_transformer.printable import printable, shown
from tf_transformer.storage.json_files import read_json
from tf_transformer.storage.regular_files import read_regular
from training.config import VocabularyConfig
from training.settings import make_config

FORMAT_VERSION = 2
DESCRIPTION_NAME = "prepared.json"
# Subfolder of intermediate files; the name is unlikely to clash with the user's files.
WORK_NAME = "work-of-prepare"
SPM_NAMES = ("source.spm", "target.spm")
# Size limit of a description (about 200,000 shards) and of a SentencePiece model.
MAX_BYTES = 2**28

_KEYS = {"vocabulary", "max_length", "tokenizers", "statistics", "shards"}
_SHARD_KEYS = {"name", "pairs", "bytes", "digest", "lengths"}
_SHARD_NAME = re.compile(r"shard-[0-9]{5,}\.tfrecord")
# Size of a TFRecord's length and check sums.
_RECORD_BYTES = 16

# Serialized SentencePiece models of source and target; a language model has no source.
SentencePieceModels = tuple[bytes | None, bytes]

Count = Annotated[int, pydantic.Field(strict=True, ge=0)]


@dataclasses.dataclass(frozen=True)
class PreparedFolder:
    """A prepared corpus and its weight in training.

    Args:
        path: the folder.
        weight: how often each pair is seen, relative to the pairs of other folders.
    """

    path: pathlib.Path
    weight: float = 1.0

    @classmethod
    def parse(cls, name: str) -> "PreparedFolder":
        """Parses `DIR` or `DIR=WEIGHT` from the command line.

        Raises:
            InputError: there is no such folder, or the weight is not a positive number.
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


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Counts of a prepared corpus, for people.

    Args:
        lines: pairs of lines read.
        faults: number of dropped pairs for each kind of fault.
        examples: file names and lines of a few dropped pairs for each kind of fault.
        duplicates: pairs dropped as duplicates.
        kept: pairs in the shards.
        source_tokens: tokens of the source in the shards.
        target_tokens: tokens of the target in the shards.
    """

    lines: Count
    faults: dict[str, Count]
    examples: dict[str, list[str]]
    duplicates: Count
    kept: Count
    source_tokens: Count
    target_tokens: Count


_STATISTICS = pydantic.TypeAdapter(Statistics)


def read_description(folder: pathlib.Path) -> dict[str, Any]:
    """Reads and checks `prepared.json`.

    Raises:
        InputError: the folder is not prepared or unfinished, or its description is damaged or has
            another format version.
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
        raise InputError(f"{path}: damaged, expected a list of objects as shards")
    for shard in shards:
        missing |= _SHARD_KEYS - shard.keys()
    if missing:
        raise InputError(f"{path}: damaged, it lacks {', '.join(sorted(missing))}")
    try:
        _STATISTICS.validate_python(description["statistics"])
    except pydantic.ValidationError as error:
        fault = error.errors()[0]
        name = ".".join(map(str, ("statistics", *fault["loc"])))
        raise InputError(
            f"{path}: damaged, {printable(name, 100)}: {fault['msg']}. Received: "
            f"{shown(fault['input'])}"
        ) from error
    tokenizers = description["tokenizers"]
    if not isinstance(tokenizers, list) or len(tokenizers) != 2:
        raise InputError(f"{path}: damaged, expected two tokenizers, of source and target")
    _check_max_length(path, description["max_length"])
    for shard in shards:
        _check_shard(path, shard)
    names = collections.Counter(shard["name"] for shard in shards)
    for name, count in names.items():
        if count > 1:
            raise InputError(
                f"{path}: damaged, expected every shard once, got {name} {count:,} times"
            )
    if not any(shard["pairs"] for shard in shards):
        raise InputError(f"{path}: damaged, there is no pair in its shards")


def _check_max_length(path: pathlib.Path, max_length: object) -> None:
    if type(max_length) is not int or max_length < 1:
        raise InputError(
            f"{path}: damaged, expected max_length to be an integer of at least 1. "
            f"Received: {shown(max_length)}"
        )


def _check_shard(path: pathlib.Path, shard: dict[str, Any]) -> None:
    """Refuses file names outside the folder, and contradicting or invalid counts."""
    name, lengths = shard["name"], shard["lengths"]
    if not isinstance(name, str) or not _SHARD_NAME.fullmatch(name):
        raise InputError(
            f"{path}: damaged, expected shards such as shard-00000.tfrecord, "
            f"got {reprlib.repr(name)}"
        )
    numbers = [shard["pairs"], shard["bytes"], *(lengths if isinstance(lengths, list) else [None])]
    if any(type(number) is not int or number < 0 for number in numbers):
        raise InputError(f"{path}: damaged, expected counts of at least 0 for {name}")
    if sum(lengths) != shard["pairs"] or shard["pairs"] * _RECORD_BYTES > shard["bytes"]:
        raise InputError(
            f"{path}: damaged, {name} cannot have {shard['pairs']:,} pairs, {sum(lengths):,} "
            f"lengths and {shard['bytes']:,} bytes"
        )


def vocabulary_settings(folder: pathlib.Path, description: dict[str, Any]) -> VocabularyConfig:
    """Returns the settings of the vocabulary from the description of a prepared folder.

    Args:
        folder: the folder, for the message.
        description: the result of `read_description`.

    Raises:
        InputError: a setting is unknown or has an invalid value.
    """
    try:
        return make_config({"vocabulary": description["vocabulary"]}).vocabulary
    except ValueError as error:
        raise InputError(f"{folder / DESCRIPTION_NAME}: damaged ({str(error)[:400]})") from error


def read_models(folder: pathlib.Path) -> SentencePieceModels:
    """Reads the SentencePiece models of a prepared folder or a model directory.

    Args:
        folder: the folder, or a file with one model for both sides.

    Raises:
        InputError: there is no model, or it is not a regular file.
        OSError: a file cannot be read, as a symbolic link to itself.
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
    """Returns the `digest_of` the content of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def digest_of(content: bytes) -> str:
    """Returns the BLAKE2 digest of bytes."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def digests_of(models: SentencePieceModels) -> list[str | None]:
    """Returns the `digest_of` each SentencePiece model; None for a side without one."""
    return [None if model is None else digest_of(model) for model in models]


def relative_weights(folders: Sequence[PreparedFolder]) -> list[float]:
    """Returns the weights of folders, scaled so that the largest is 1."""
    largest = max(folder.weight for folder in folders)
    return [folder.weight / largest for folder in folders]


def corpus_digest(folders: Sequence[PreparedFolder], descriptions: Sequence[dict[str, Any]]) -> str:
    """Returns a digest of all shards, weights and the vocabulary; equal for equal training data.

    Args:
        folders: the prepared folders.
        descriptions: the result of `read_description` for each.
    """
    content = [
        [weight, [[shard["digest"], shard["pairs"]] for shard in description["shards"]]]
        for weight, description in zip(relative_weights(folders), descriptions, strict=True)
    ]
    return digest_of(json.dumps([descriptions[0]["tokenizers"], content]).encode())

"""A prepared folder as `prepare` writes it: its description and its vocabulary."""

import dataclasses
import hashlib
import json
import pathlib
from typing import Any

FORMAT_VERSION = 2
DESCRIPTION_NAME = "prepared.json"
# The folder in it that says how far `prepare` has come; no name that somebody else would choose.
WORK_NAME = "work-of-prepare"
SPM_NAMES = ("source.spm", "target.spm")

_KEYS = {"vocabulary", "max_length", "tokenizers", "statistics", "shards"}
_SHARD_KEYS = {"name", "pairs", "bytes", "digest", "lengths"}

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
            raise ValueError(f"{name}: expected DIR=WEIGHT with a weight above 0")
        if not pathlib.Path(folder).is_dir():
            raise ValueError(f"{folder}: no such folder")
        return cls(pathlib.Path(folder), value)


def read_description(folder: pathlib.Path) -> dict[str, Any]:
    """Reads `prepared.json`.

    Raises:
        ValueError: not a prepared folder, not one that is finished, or one of another format.
    """
    path = folder / DESCRIPTION_NAME
    if not path.is_file():
        reason = (
            "is not finished; run the same `prepare` again"
            if (folder / WORK_NAME).is_dir()
            else (f"is not a prepared folder: it has no {DESCRIPTION_NAME}")
        )
        raise ValueError(f"{folder} {reason}")
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
        version = description["format_version"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: damaged ({error!r})") from error
    if version != FORMAT_VERSION:
        raise ValueError(
            f"{path}: this version reads prepared folders of format {FORMAT_VERSION}, "
            f"got format {version!r}"
        )
    missing = _KEYS - description.keys()
    for shard in description.get("shards", ()):
        missing |= _SHARD_KEYS - shard.keys()
    if missing:
        raise ValueError(f"{path}: damaged, it lacks {', '.join(sorted(missing))}")
    return description


def read_models(folder: pathlib.Path) -> Models:
    """The SentencePiece models of a prepared folder or a model directory.

    Raises:
        ValueError: there is none.
    """
    source, target = (folder / name for name in SPM_NAMES)
    if not target.is_file():
        raise ValueError(f"{folder}: has no vocabulary ({target.name})")
    return source.read_bytes() if source.is_file() else None, target.read_bytes()


def digest_of_file(path: pathlib.Path) -> str:
    """`digest_of` the bytes of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def digest_of(content: bytes) -> str:
    """BLAKE2 digest of a file's bytes."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()

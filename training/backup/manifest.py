"""The manifest of a backup: which objects are the files of the model directory."""

import dataclasses
import json
import pathlib
import re
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.printable import shown
from tf_transformer.storage.checkpoint_names import CHECKPOINT_FILE, CHECKPOINTS_NAME
from tf_transformer.storage.json_files import parse_json
from tf_transformer.storage.model_dir import CONFIG_NAME, WEIGHTS_NAME
from training.backup.object_store import ObjectStore
from training.checkpointing.best_checkpoints import best_directory
from training.checkpointing.run_files import LOGS_NAME
from training.checkpointing.validation_history import SCORES_NAME
from training.prepared.prepared_folder import SPM_NAMES
from training.recorded_config import TRAINING_NAME

# Folder of the objects, which are named by the digests of their content.
OBJECTS_NAME = "files"
DIGEST = re.compile(r"[0-9a-f]{64}")

_MANIFEST_NAME = "manifest.json"
_MAX_BYTES = 2**22
_VERSION = 1
_MAX_FILES = 10_000
_NEEDED = (TRAINING_NAME, WEIGHTS_NAME, CONFIG_NAME)
_NAMES = frozenset({*_NEEDED, *SPM_NAMES, SCORES_NAME})
_CHECKPOINT_FOLDERS = (CHECKPOINTS_NAME, best_directory(pathlib.Path()).name)
_PART = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,250}"
_LOG_FILE = re.compile(rf"{LOGS_NAME}/(?:{_PART}/){{0,7}}{_PART}")
_WRITER = re.compile(r"[0-9a-f]{32}")


def belongs_to_run(name: str) -> bool:
    """Returns whether a relative path is one that training writes, with "/" between its parts."""
    folder, _, file = name.partition("/")
    if folder in _CHECKPOINT_FOLDERS:
        return CHECKPOINT_FILE.fullmatch(file) is not None
    return name in _NAMES or _LOG_FILE.fullmatch(name) is not None


@dataclasses.dataclass(frozen=True)
class StoredFile:
    """A file of the model directory.

    Args:
        size: number of bytes.
        sha256: digest of the content in hexadecimal digits, which is the name of its object.
    """

    size: int
    sha256: str


@dataclasses.dataclass(frozen=True)
class Manifest:
    """A complete state of a model directory.

    Args:
        writer: random number of the process that writes the backup, in hexadecimal digits.
        files: the files by relative path; empty before the first checkpoint.
    """

    writer: str
    files: dict[str, StoredFile]

    @property
    def newest_step(self) -> int:
        """Step of the newest checkpoint, 0 if there is none."""
        steps = (
            int(match[1])
            for name in self.files
            if name.startswith(f"{CHECKPOINTS_NAME}/")
            and (match := CHECKPOINT_FILE.fullmatch(name.partition("/")[2]))
            and match[2] == ".index"
        )
        return max(steps, default=0)


def object_name(file: StoredFile) -> str:
    """Returns the name of a file's object."""
    return f"{OBJECTS_NAME}/{file.sha256}"


def write_manifest(store: ObjectStore, manifest: Manifest) -> None:
    """Writes the manifest of a backup.

    Raises:
        OSError: it cannot be written.
    """
    files = {name: dataclasses.asdict(file) for name, file in sorted(manifest.files.items())}
    value = {"version": _VERSION, "writer": manifest.writer, "files": files}
    store.write(_MANIFEST_NAME, json.dumps(value, indent=1).encode())


def read_manifest(store: ObjectStore) -> Manifest | None:
    """Reads and checks the manifest of a backup, which is untrusted; returns None if there is none.

    Raises:
        InputError: it is no manifest, or has names or sizes that training does not write.
        OSError: it cannot be read.
    """
    content = store.read(_MANIFEST_NAME, _MAX_BYTES)
    return None if content is None else _parse(content, f"{store.url}/{_MANIFEST_NAME}")


def _parse(content: bytes, where: str) -> Manifest:
    value = parse_json(content, where, unique_keys=True)
    version, writer, files = (value.get(key) for key in ("version", "writer", "files"))
    if version != _VERSION:
        raise InputError(f"{where}: expected version {_VERSION}, got {shown(version)}")
    if not (isinstance(writer, str) and _WRITER.fullmatch(writer)):
        raise InputError(f"{where}: expected 32 hexadecimal digits, got writer {shown(writer)}")
    if not isinstance(files, dict) or len(files) > _MAX_FILES:
        raise InputError(f"{where}: expected at most {_MAX_FILES:,} files, as an object")
    manifest = Manifest(writer, {name: _file(name, files[name], where) for name in files})
    if files and not (files.keys() >= set(_NEEDED) and manifest.newest_step):
        raise InputError(f"{where}: expected a checkpoint and {', '.join(_NEEDED)}")
    return manifest


def _file(name: str, value: Any, where: str) -> StoredFile:
    if not belongs_to_run(name):
        raise InputError(f"{where}: {shown(name)} is no file of a training run")
    entry = value if isinstance(value, dict) else {}
    size, digest = entry.get("size"), entry.get("sha256")
    if type(size) is not int or size < 0:
        raise InputError(f"{where}: {name}: expected a size, got {shown(size)}")
    if not (isinstance(digest, str) and DIGEST.fullmatch(digest)):
        raise InputError(f"{where}: {name}: expected a SHA-256 digest, got {shown(digest)}")
    return StoredFile(size, digest)

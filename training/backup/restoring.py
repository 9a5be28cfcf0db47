"""Restoring a model directory from a backup, which is untrusted."""

import errno
import logging
import os
import pathlib
import shutil
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.storage.checkpoint_names import CHECKPOINTS_NAME, checkpoint_steps
from tf_transformer.storage.files import link_or_copy
from tf_transformer.storage.json_files import MAX_BYTES
from tf_transformer.storage.model_dir import CONFIG_NAME
from tf_transformer.storage.own_files import make_own_folder, temporary_own_folder
from training.backup.manifest import Manifest, StoredFile, object_name, read_manifest
from training.backup.object_store import ObjectStore
from training.checkpointing.checkpoint_files import checkpoint_directory
from training.checkpointing.run_metadata import check_no_other_run, check_recorded_run
from training.recorded_config import TRAINING_NAME

_log = logging.getLogger(__name__)

# Folder in the model directory. Its name is fixed, so that the next call removes what a kill left.
_DOWNLOAD_NAME = ".backup-download"


def restore(store: ObjectStore, model_dir: pathlib.Path, run: dict[str, Any] | None) -> int | None:
    """Downloads a backup into a model directory, if its newest checkpoint is newer.

    Files are checked in a temporary folder and then moved. An interrupted call is repeated by the
    next one. The model directory must be locked, and its files checked by `check_run_files`.

    Args:
        store: the objects of the backup.
        model_dir: the model directory.
        run: the result of `run_fingerprint`, which must be that of the backup; None accepts any
            run.

    Returns:
        The step of the downloaded checkpoint; None if nothing was downloaded.

    Raises:
        InputError: the backup is damaged, or of another run.
        OSError: it cannot be read, or the disk is full.
    """
    manifest = read_manifest(store)
    if manifest is None or not manifest.files:
        return None
    model_dir.mkdir(parents=True, exist_ok=True)
    with temporary_own_folder(model_dir / _DOWNLOAD_NAME) as folder:
        _check_record(store, manifest, folder, run)
        if _newest_step(model_dir) >= manifest.newest_step:
            return None
        if run is not None:
            check_no_other_run(model_dir, run)
        _check_free_space(manifest, model_dir)
        _download_files(store, manifest, folder)
        _move(manifest, folder, model_dir)
    _log.info("Restored step %s from %s", f"{manifest.newest_step:,}", store.url)
    return manifest.newest_step


def _newest_step(model_dir: pathlib.Path) -> int:
    """Returns the step of the newest checkpoint; -1 before a run has started, see `_move`."""
    if not (model_dir / CONFIG_NAME).exists():
        return -1
    return max(checkpoint_steps(checkpoint_directory(model_dir)), default=-1)


def _check_record(store, manifest, folder, run):
    """Downloads `training.json` and compares it with the run."""
    record = manifest.files[TRAINING_NAME]
    if record.size > MAX_BYTES:
        raise InputError(f"{store.url}: {TRAINING_NAME}: expected at most {MAX_BYTES:,} bytes")
    path = _download(store, TRAINING_NAME, record, folder)
    if run is not None:
        check_recorded_run(path, run, store.url, "--backup")


def _check_free_space(manifest: Manifest, model_dir: pathlib.Path) -> None:
    needed = sum(file.size for file in manifest.files.values())
    free = shutil.disk_usage(model_dir).free
    if needed > free:
        reason = os.strerror(errno.ENOSPC)
        raise OSError(
            f"{model_dir}: {reason}: the backup needs {needed:,} bytes, {free:,} are free"
        )


def _download_files(store: ObjectStore, manifest: Manifest, folder: pathlib.Path) -> None:
    """Downloads all files but `training.json`, and each object once."""
    paths: dict[StoredFile, pathlib.Path] = {}
    for name in sorted(manifest.files.keys() - {TRAINING_NAME}):
        file = manifest.files[name]
        if file in paths:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            link_or_copy(paths[file], folder / name)
        else:
            paths[file] = _download(store, name, file, folder)


def _download(
    store: ObjectStore, name: str, file: StoredFile, folder: pathlib.Path
) -> pathlib.Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    found = store.download(object_name(file), path, file.size)
    if found != file.sha256:
        raise InputError(
            f"{store.url}/{object_name(file)}: damaged ({name}); its digest is {found}"
        )
    return path


def _move(manifest: Manifest, folder: pathlib.Path, model_dir: pathlib.Path) -> None:
    """Moves downloaded files to their places.

    The configuration, with which a run starts, is removed first and moved last, so that the next
    call repeats a move that was interrupted. The record of the run comes first, without which
    `train` refuses the other files, and data before the index that makes it visible.
    """
    (model_dir / CONFIG_NAME).unlink(missing_ok=True)
    for name in sorted(manifest.files, key=_move_order):
        make_own_folder((model_dir / name).parent)
        os.replace(folder / name, model_dir / name)


def _move_order(name: str) -> tuple[bool | str, ...]:
    return (
        name != TRAINING_NAME,
        name == CONFIG_NAME,
        name.startswith(f"{CHECKPOINTS_NAME}/"),
        name.endswith(".index"),
        name,
    )

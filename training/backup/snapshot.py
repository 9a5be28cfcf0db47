"""A model directory as it is at one moment, while training goes on."""

import os
import pathlib
import shutil

from tf_transformer.storage.checkpoint_names import checkpoint_steps
from tf_transformer.storage.files import link_or_copy
from tf_transformer.storage.regular_files import regular_size
from training.backup.manifest import belongs_to_run
from training.checkpointing.checkpoint_files import checkpoint_directory
from training.checkpointing.run_files import LOGS_NAME

# Folder in the model directory. Its name is fixed, so that the next call removes what a kill left.
_SNAPSHOT_NAME = ".backup-snapshot"


def has_checkpoint(model_dir: pathlib.Path) -> bool:
    """Returns whether a model directory has a checkpoint, without which nothing can be resumed."""
    return bool(checkpoint_steps(checkpoint_directory(model_dir)))


def run_files(folder: pathlib.Path) -> list[str]:
    """Returns the files that a run needs to resume, and its logs, as sorted relative paths."""
    found = []
    for parent, _, names in os.walk(folder):
        for name in names:
            relative = pathlib.Path(parent, name).relative_to(folder).as_posix()
            if belongs_to_run(relative):
                found.append(relative)
    return sorted(found)


def take_snapshot(model_dir: pathlib.Path) -> pathlib.Path:
    """Copies the files of a run, as hard links where the file system supports them.

    Training replaces and removes its files but does not change them, except for the logs, to which
    it appends: these are copied. Call it between two saves, when there is no other snapshot.

    Args:
        model_dir: the model directory.

    Returns:
        A new folder in the model directory, for `remove_snapshot`.

    Raises:
        InputError: one of the files is not regular.
        OSError: the disk is full or fails.
    """
    remove_snapshot(model_dir)
    folder = model_dir / _SNAPSHOT_NAME
    folder.mkdir()
    try:
        for name in run_files(model_dir):
            path, copy = model_dir / name, folder / name
            regular_size(path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            if name.startswith(f"{LOGS_NAME}/"):
                shutil.copyfile(path, copy)
            else:
                link_or_copy(path, copy)
    except BaseException:
        remove_snapshot(model_dir)
        raise
    return folder


def remove_snapshot(model_dir: pathlib.Path) -> None:
    """Removes the snapshot, also one that a killed process has left."""
    shutil.rmtree(model_dir / _SNAPSHOT_NAME, ignore_errors=True)

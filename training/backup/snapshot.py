"""A model directory as it is at one moment, while training goes on."""

import os
import pathlib
import shutil
import tempfile

from tf_transformer.storage.checkpoint_names import checkpoint_steps
from tf_transformer.storage.files import link_or_copy, temporary_prefix
from tf_transformer.storage.regular_files import regular_size
from training.backup.manifest import belongs_to_run
from training.checkpointing.checkpoint_files import checkpoint_directory
from training.checkpointing.run_files import LOGS_NAME


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
    it appends: these are copied. Call it between two saves.

    Args:
        model_dir: the model directory.

    Returns:
        A new folder in the model directory, for the caller to remove. If the process is killed, the
        next run removes it.

    Raises:
        InputError: one of the files is not regular.
        OSError: the disk is full or fails.
    """
    folder = pathlib.Path(tempfile.mkdtemp(prefix=temporary_prefix(), dir=model_dir))
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
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder

"""Paths and file names of the checkpoints of a model directory."""

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Iterator

from tf_transformer.errors import InputError
from tf_transformer.storage.checkpoint_names import (
    CHECKPOINT_FILE,
    CHECKPOINTS_NAME,
    checkpoint_steps,
)
from tf_transformer.storage.files import is_found_by_tensorflow
from tf_transformer.storage.regular_files import regular_size


def checkpoint_directory(model_dir: pathlib.Path) -> pathlib.Path:
    """Returns the folder of the checkpoints of a model directory."""
    return model_dir / CHECKPOINTS_NAME


def checkpoint_paths(directory: pathlib.Path) -> list[str]:
    """Returns the paths of the checkpoints in a folder without suffix, oldest first."""
    return [str(directory / f"step-{step}") for step in checkpoint_steps(directory)]


def last_checkpoint_paths(model_dir: pathlib.Path, count: int) -> list[str]:
    """Returns the paths of the last checkpoints of a model directory without suffix, oldest first.

    Args:
        model_dir: the model directory.
        count: number of checkpoints; if there are fewer, all are returned.

    Raises:
        InputError: `count` is below 1, or there are no checkpoints.
    """
    directory = checkpoint_directory(model_dir)
    paths = checkpoint_paths(directory)
    if count < 1:
        raise InputError(f"--last {count}: expected at least 1")
    if not paths:
        raise InputError(f"--last {count}: {directory} holds no checkpoints")
    return paths[-count:]


def checkpoint_files(directory: pathlib.Path, step: int) -> list[pathlib.Path]:
    """Returns the files of a checkpoint; the index, which makes it visible to readers, is last."""
    files = (
        path for path in directory.glob(f"step-{step}.*") if CHECKPOINT_FILE.fullmatch(path.name)
    )
    return sorted(files, key=lambda path: (path.suffix == ".index", path.name))


def files_without_index(directory: pathlib.Path) -> list[pathlib.Path]:
    """Returns the files of interrupted saves and removals.

    They have no index, because it is written last and removed first.
    """
    return [
        path
        for path in directory.glob("step-*.*")
        if (match := CHECKPOINT_FILE.fullmatch(path.name))
        and not path.is_dir()
        and not os.path.lexists(directory / f"step-{match[1]}.index")
    ]


def step_of(path: str) -> int:
    """Returns the step of a checkpoint."""
    return int(path.rpartition("-")[2])


@contextlib.contextmanager
def tensorflow_path(path: str) -> Iterator[str]:
    """Yields a path under which TensorFlow can read a checkpoint, whatever the folder's name.

    Raises:
        InputError: one of its files is not a regular file.
    """
    for file in checkpoint_files(pathlib.Path(path).parent, step_of(path)):
        regular_size(file)
    if is_found_by_tensorflow(path):
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        link = pathlib.Path(folder) / "checkpoints"
        link.symlink_to(pathlib.Path(path).parent.resolve(), target_is_directory=True)
        yield str(link / pathlib.Path(path).name)

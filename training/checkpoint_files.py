"""Where the checkpoints of a model directory lie, and what they are called."""

import contextlib
import pathlib
import tempfile
from collections.abc import Iterator

from tf_transformer.files import is_found_by_tensorflow


def checkpoint_directory(model_dir: pathlib.Path) -> pathlib.Path:
    """Where the checkpoints of a model directory lie."""
    return model_dir / "checkpoints"


def checkpoint_paths(directory: pathlib.Path) -> list[str]:
    """The checkpoints in a folder, oldest first, without their endings."""
    steps = [
        int(path.stem.removeprefix("step-"))
        for path in directory.glob("step-*.index")
        if path.stem.removeprefix("step-").isdigit()
    ]
    return [str(directory / f"step-{step}") for step in sorted(steps)]


def checkpoint_files(directory: pathlib.Path, step: int) -> list[pathlib.Path]:
    """The files of a checkpoint; the index, with which it is there for readers, is last."""
    return sorted(
        directory.glob(f"step-{step}.*"), key=lambda path: (path.suffix == ".index", path.name)
    )


def step_of(path: str) -> int:
    """The number of steps that a checkpoint was written after."""
    return int(path.rpartition("-")[2])


@contextlib.contextmanager
def findable(path: str) -> Iterator[str]:
    """A name of the checkpoint by which TensorFlow can read it, wherever it lies."""
    if is_found_by_tensorflow(path):
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        link = pathlib.Path(folder) / "checkpoints"
        link.symlink_to(pathlib.Path(path).parent.resolve(), target_is_directory=True)
        yield str(link / pathlib.Path(path).name)

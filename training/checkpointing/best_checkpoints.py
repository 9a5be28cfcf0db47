"""Keeping the best checkpoints of a run in addition to the most recent ones."""

import pathlib
from collections.abc import Iterable

from tf_transformer.errors import InputError
from tf_transformer.storage.files import link_or_copy, remove_leftovers
from tf_transformer.storage.own_files import check_own_folder, replacing_own
from training.checkpointing.checkpoint_files import (
    checkpoint_directory,
    checkpoint_files,
    checkpoint_paths,
    step_of,
)
from training.checkpointing.validation_history import ValidationScores, read_best_by


def best_directory(model_dir: pathlib.Path) -> pathlib.Path:
    """Returns the folder of the best checkpoints."""
    return model_dir / "best_checkpoints"


def keep_best(model_dir: pathlib.Path, ranked: list[int], count: int) -> None:
    """Keeps the best checkpoints, as hard links where the file system supports them.

    Args:
        model_dir: the model directory.
        ranked: steps with scores, best first. Checkpoints of other steps in the folder are left.
        count: number of these to keep; the others are removed from the folder.
    """
    directory = best_directory(model_dir)
    recent = checkpoint_directory(model_dir)
    check_own_folder(directory)
    if count:
        directory.mkdir(exist_ok=True)
    remove_leftovers(directory)
    for step in ranked[:count]:
        if (recent / f"step-{step}.index").exists():
            _copy(checkpoint_files(recent, step), directory)
    for step in ranked[count:]:
        for path in reversed(checkpoint_files(directory, step)):
            path.unlink()


def _copy(paths: Iterable[pathlib.Path], directory: pathlib.Path) -> None:
    copies = [directory / path.name for path in paths]
    if all(copy.exists() and copy.samefile(path) for path, copy in zip(paths, copies, strict=True)):
        return
    copies[-1].unlink(missing_ok=True)  # an index must not refer to the data of another save
    for path, copy in zip(paths, copies, strict=True):
        with replacing_own(copy) as temporary:
            link_or_copy(path, temporary)


def best_checkpoint_paths(model_dir: pathlib.Path, count: int) -> list[str]:
    """Returns the paths of the best existing checkpoints without suffix, best first.

    Args:
        model_dir: the model directory.
        count: number of checkpoints; if fewer have a score, all of these are returned.

    Raises:
        InputError: `count` is below 1, or no checkpoint has a score.
    """
    best_by = read_best_by(model_dir)
    paths = {}
    for directory in (best_directory(model_dir), checkpoint_directory(model_dir)):
        for path in checkpoint_paths(directory):
            paths[step_of(path)] = path
    ranked = [step for step in ValidationScores(model_dir, best_by).ranked() if step in paths]
    if count < 1:
        raise InputError(f"--best {count}: expected at least 1")
    if not ranked:
        name = {"bleu": "BLEU", "loss": "validation loss"}[best_by]
        raise InputError(f"--best {count}: {model_dir} holds no checkpoints with a {name}")
    return [paths[step] for step in ranked[:count]]

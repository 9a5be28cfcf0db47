"""Refuses outputs that would replace what a command reads: its input files and its models."""

import os
import pathlib
from collections.abc import Iterable

from tf_transformer.errors import InputError

# The files and folders that training and evaluation write in a model directory, except pictures.
MODEL_FILES = (
    "config.json",
    "source.spm",
    "target.spm",
    "model.weights.h5",
    "adapter.h5",
    "training.json",
    "validation_scores.json",
    "scores.jsonl",
    "checkpoints",
    "best_checkpoints",
    "logs",
    "initial",
)


def check_output_file(
    option: str,
    path: pathlib.Path,
    model_dirs: Iterable[pathlib.Path] = (),
    inputs: Iterable[pathlib.Path] = (),
) -> None:
    """Checks that writing an output replaces no input file and no file of a model.

    Symbolic links are followed.

    Args:
        option: the option of the command line that gave the output, for the message.
        path: the output, which need not exist.
        model_dirs: the model directories that the command reads.
        inputs: the other files that the command reads.

    Raises:
        InputError: the output is one of `inputs`, or one of `MODEL_FILES` or a file in one.
    """
    if any(_is_same(path, other) for other in inputs):
        raise InputError(f"{option} {path} is an input file; give another one")
    real = pathlib.Path(os.path.realpath(path))
    for model_dir in model_dirs:
        own_files = [model_dir / name for name in MODEL_FILES]
        if any(_is_same(part, own) for own in own_files for part in (real, *real.parents)):
            message = f"{option} {path} is a file of the model {model_dir}; give another one"
            raise InputError(message)


def _is_same(one: pathlib.Path, other: pathlib.Path) -> bool:
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of them does not exist
        return False

"""`--confidence` of `translate` and `web`, for the confidence of each word of a translation."""

import argparse
import pathlib
from typing import TYPE_CHECKING

from tf_transformer.command_line.command_options import file_path
from tf_transformer.command_line.reranking_options import RERANKING_OPTIONS
from tf_transformer.confidence.calibration import Calibration, read_calibration
from tf_transformer.errors import InputError

if TYPE_CHECKING:  # `--help` must not import SentencePiece
    from tf_transformer.storage.trained_models import TrainedModels

# Options for other translations than those of the signature `confidence`.
_EXCLUDED = (
    *("n_best", "split_sentences", "markup", "terms", "protect", "runner"),
    *RERANKING_OPTIONS,
)


def add_confidence(parser: argparse.ArgumentParser) -> None:
    """Adds `--confidence`."""
    parser.add_argument(
        "--confidence", nargs="?", const="", metavar="F",
        help="write the confidence after each translation: tab-separated the translation, its "
        "confidence, its words, and theirs. With --model-dir, F is a file that `train-confidence` "
        "has written for the model; a --saved-model or --server needs the signature "
        "`confidence`",
    )  # fmt: skip


def add_confidence_file(parser: argparse.ArgumentParser) -> None:
    """Adds `--confidence F`, for a command that uses what an exported model offers without it."""
    parser.add_argument(
        "--confidence", type=file_path, metavar="F",
        help="with --model-dir, a file that `train-confidence` has written for the model, for the "
        "confidence of each word; a --saved-model or --server has it by the signature `confidence`",
    )  # fmt: skip


def check_confidence(options: argparse.Namespace) -> None:
    """Checks that the other options go with `--confidence`.

    Raises:
        InputError: they do not.
    """
    if options.confidence is None:
        return
    for name in _EXCLUDED:
        if getattr(options, name):
            raise InputError(f"--{name.replace('_', '-')} is not valid with --confidence")
    if options.xla == "on":
        raise InputError("--xla on is not valid with --confidence")
    if bool(options.model_dir) != bool(options.confidence):
        other = "--server" if options.server else "--saved-model"
        expected = "a file with --model-dir" if options.model_dir else f"no file with {other}"
        raise InputError(f"--confidence: expected {expected}")


def read_confidence(
    options: argparse.Namespace, models: "TrainedModels | None"
) -> Calibration | None:
    """Returns the calibration of a model directory; None without one, or without `--confidence`.

    Raises:
        InputError: as `read_calibration`.
    """
    if models is None or options.confidence is None:
        return None
    return read_calibration(pathlib.Path(options.confidence), models.digest())

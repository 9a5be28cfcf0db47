"""`translate --confidence`: lines translated with the confidence of each word."""

import argparse
import contextlib
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from export.commands.options.signature_rows import Call, connect_to_signature
from export.lines.line_translations import Translate
from tf_transformer.command_line.reranking_options import RERANKING_OPTIONS
from tf_transformer.confidence.calibration import Calibration, read_calibration
from tf_transformer.errors import InputError
from tf_transformer.text.lines import join_lines

if TYPE_CHECKING:  # `--help` must not import SentencePiece
    from tf_transformer.storage.trained_models import TrainedModels

# Options for other translations than those of the signature `confidence`.
_EXCLUDED = (
    *("n_best", "split_sentences", "markup", "terms", "protect", "runner", "saved_model"),
    *RERANKING_OPTIONS,
)
# The outputs of the signature that are used, with their data types.
_OUTPUTS = {
    "translation": "DT_STRING",
    "score": "DT_FLOAT",
    "words": "DT_STRING",
    "word_confidences": "DT_STRING",
    "confidence": "DT_FLOAT",
    "truncated": "DT_BOOL",
}
_NEEDED = "--confidence needs; export it with --confidence F, a file of `train-confidence`"


def add_confidence(parser: argparse.ArgumentParser) -> None:
    """Adds `--confidence`."""
    parser.add_argument(
        "--confidence", nargs="?", const="", metavar="F",
        help="write the confidence after each translation: tab-separated the translation, its "
        "confidence, its words, and theirs. With --model-dir, F is a file that `train-confidence` "
        "has written for the model; a --server must serve the signature `confidence`",
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
    if (options.server is None) != bool(options.confidence):
        expected = "no file with --server" if options.server else "a file with --model-dir"
        raise InputError(f"--confidence: expected {expected}")


def given_confidence(
    options: argparse.Namespace, models: "TrainedModels | None"
) -> Calibration | None:
    """Returns the calibration of a model directory; None without one, or without `--confidence`.

    Raises:
        InputError: as `read_calibration`.
    """
    if models is None or options.confidence is None:
        return None
    return read_calibration(pathlib.Path(options.confidence), models.digest())


def confident(call: Call) -> Translate:
    """Returns what translates lines by the signature `confidence`, or by what computes the same."""

    def translate(lines, numbers):
        for batch in call({"text": lines}, numbers):
            columns = (batch[name] for name in _OUTPUTS)
            for text, score, words, of_words, confidence, truncated in zip(*columns, strict=True):
                fields = (text, f"{confidence:.3f}", words, of_words)
                yield [("\t".join(map(_field, fields)), score, truncated)]

    return translate


def _field(text: str) -> str:
    """Returns a text as a field of a line."""
    return join_lines(text).replace("\t", " ")


@contextlib.contextmanager
def connect_with_confidence(options: argparse.Namespace) -> Iterator[tuple[Translate, int]]:
    """Connects to the server of `translate --server`, for its signature `confidence`.

    Args:
        options: the parsed command line.

    Yields:
        What translates lines, and the number of lines to translate at once.

    Raises:
        InputError: see `connect_to_signature`.
    """
    with connect_to_signature(options, "confidence", _OUTPUTS, _NEEDED) as (call, batch_size):
        yield confident(call), batch_size

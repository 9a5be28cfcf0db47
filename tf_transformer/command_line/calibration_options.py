"""Options of the calibration of int8, which `evaluate` and `export` share."""

import argparse
from typing import TYPE_CHECKING

from tf_transformer.command_line.command_options import file_name
from tf_transformer.errors import InputError
from tf_transformer.inference.calibration import DEFAULT_PERCENTILE, Calibration
from tf_transformer.text.text_file import TextFile

if TYPE_CHECKING:  # `--help` must not import SentencePiece
    from tf_transformer.text.vocabulary import Vocabulary


def add_calibration(parser: argparse.ArgumentParser) -> None:
    """Adds `--calibrate` and `--calibration-percentile`."""
    parser.add_argument(
        "--calibrate", type=file_name, metavar="F",
        help="with --dtype int8, source text, such as a few hundred sentences of the validation "
        "set, whose translation shows the ranges of activations; 8-bit products then take fewer "
        "operations (default: a range for every row, computed at run time)",
    )  # fmt: skip
    parser.add_argument(
        "--calibration-percentile", type=float, metavar="P",
        help="percentage of the activations within a range; larger ones are clipped (default: "
        f"{DEFAULT_PERCENTILE:g})",
    )  # fmt: skip


def parse_calibration(
    options: argparse.Namespace, source: "Vocabulary", num_tags: int
) -> Calibration | None:
    """Reads the text of `--calibrate`.

    Args:
        options: the parsed command line.
        source: vocabulary of the model's source.
        num_tags: number of tags that a source needs, if the vocabulary has languages.

    Returns:
        The calibration, or None without the option.

    Raises:
        InputError: an option is out of range or given without the other one that it needs, or as
            `Calibration.read`.
    """
    percentile = options.calibration_percentile
    if options.calibrate is None:
        if percentile is not None:
            raise InputError("--calibration-percentile is valid only with --calibrate")
        return None
    if options.dtype != "int8":
        raise InputError("--calibrate is valid only with --dtype int8")
    percentile = DEFAULT_PERCENTILE if percentile is None else percentile
    if not 50 <= percentile <= 100:
        raise InputError(f"--calibration-percentile {percentile:g}: expected from 50 to 100")
    file = TextFile.parse(options.calibrate)
    return Calibration.read(file, percentile, source.languages, num_tags)

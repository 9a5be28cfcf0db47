"""The folder of synthetic parallel text that `distill` and `back-translate` write."""

import argparse
import pathlib
import shlex
from collections.abc import Mapping, Sequence

from tf_transformer.command_line.command_options import folder
from tf_transformer.storage.files import check_folder
from tf_transformer.storage.output_files import check_output_file


def add_corpus_output(parser: argparse.ArgumentParser) -> None:
    """Adds `--output`."""
    parser.add_argument(
        "--output", type=folder, required=True, metavar="DIR", help="the folder to write"
    )


def check_corpus_output(
    output: pathlib.Path, models: Sequence[pathlib.Path], inputs: Sequence[pathlib.Path]
) -> None:
    """Checks that the folder can be written.

    Args:
        output: the folder.
        models: the models that are read.
        inputs: the texts that are read.

    Raises:
        InputError: it cannot be written, or something that is read is in its place.
    """
    check_folder(output)
    check_output_file("--output", output, models, inputs)


def report_corpus(output: pathlib.Path, counts: Mapping[str, int]) -> None:
    """Prints how many pairs were written and left out, and the command that trains on them.

    Args:
        output: the folder.
        counts: `written`, and the number of pairs that were left out for each reason.
    """
    from export.synthesis.synthetic_folder import SOURCE_NAME, TARGET_NAME

    left_out = ", ".join(f"{n:,} {name}" for name, n in counts.items() if n and name != "written")
    left_out = left_out and f"; left out: {left_out}"
    print(f"{output}: {counts['written']:,} pairs{left_out}")
    words = ["--source", str(output / SOURCE_NAME), "--target", str(output / TARGET_NAME)]
    print(f"To train on them: tf-transformer train {shlex.join(words)} ...")

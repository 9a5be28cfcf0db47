"""The file of a figure that a command draws, and the translator that it draws."""

import argparse
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tf_transformer.command_line.command_options import check_translator, file_path, parse_search
from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.errors import InputError
from tf_transformer.storage.files import check_writable, replacing
from tf_transformer.storage.output_files import check_output_file

if TYPE_CHECKING:  # `--help` must not import them
    from matplotlib.figure import Figure

    from tf_transformer.inference.translator import Translator


def add_figure_output(parser: argparse.ArgumentParser, default: str, summary: str) -> None:
    """Adds `--output`.

    Args:
        parser: parser of the command.
        default: the name of the file unless another is given.
        summary: the help of the option.
    """
    parser.add_argument(
        "--output", type=file_path, default=pathlib.Path(default), metavar="F",
        help=f"{summary} (default: %(default)s)",
    )  # fmt: skip


def check_figure_output(options: argparse.Namespace, more: Sequence[str] = ()) -> None:
    """Checks that `--output` can be written, and that its name has the ending of a picture.

    Args:
        options: the parsed command line.
        more: other endings that the command writes.

    Raises:
        InputError: the name or the folder is not valid, or the file is one of the model.
    """
    output = options.output
    allowed = (".png", ".svg", ".pdf", *more)
    if output.suffix not in allowed:
        raise InputError(f"--output {output}: expected a name that ends in {', '.join(allowed)}")
    check_writable(output)
    if "model_dir" in options:
        check_output_file("--output", output, [options.model_dir])


def save_figure(figure: "Figure", output: pathlib.Path) -> None:
    """Writes a figure in the format that the name of the file says."""
    with replacing(output) as path:
        figure.savefig(path, format=output.suffix[1:], dpi=120)


def load_translator(options: argparse.Namespace, texts: Sequence[str]) -> "Translator":
    """Loads the translator whose work on sentences is drawn.

    Args:
        options: the parsed command line, with `--model-dir` and the options of
            `add_search_options`.
        texts: the values of `--text`.

    Raises:
        InputError: a text is blank, an option is not valid, or the model cannot be loaded.
    """
    given = parse_search(options)
    for text in texts:
        if not text.strip():
            raise InputError(f"--text {text!r}: expected a sentence")
    from tf_transformer.storage.trained_models import TrainedModels

    check_translator(TrainedModels((options.model_dir,)))
    import_tensorflow()
    from tf_transformer.inference.translator import Translator
    from tf_transformer.storage.model_dir import load_model

    return Translator(*load_model(options.model_dir), **given)

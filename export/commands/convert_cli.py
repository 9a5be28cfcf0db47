"""The command `convert`."""

import argparse
import itertools

from tf_transformer.command_line.command_options import add_model_dir, folder
from tf_transformer.command_line.interruption import interrupted_by_signals
from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.formats.format_names import EXPORTED, WEIGHT_DTYPES


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parser of `convert`."""
    parser = commands.add_parser(
        "convert",
        help="convert a model directory to the format of another toolkit",
        description="Converts a translation model for another toolkit: "
        + "; ".join(f"{name} is a {what}" for name, what in EXPORTED.items())
        + ".",
    )
    add_model_dir(parser, "the trained model")
    parser.add_argument("--to", choices=EXPORTED, required=True, help="format to write")
    parser.add_argument(
        "--output", type=folder, required=True, metavar="DIR", help="a new or empty folder"
    )
    parser.add_argument(
        "--dtype",
        choices=[*dict.fromkeys(itertools.chain(*WEIGHT_DTYPES.values()))],
        default="float32",
        help="of the weights that are written; others than the default only for "
        f"{', '.join(WEIGHT_DTYPES)}, where int8 makes the file a quarter as large",
    )
    parser.set_defaults(run=_run)


@interrupted_by_signals()
def _run(options):
    if options.to == "litert":  # the others are written without TensorFlow
        import_tensorflow(on_cpu=True)
    from tf_transformer.formats.convert_model import convert_model

    changes = convert_model(options.model_dir, options.to, options.output, options.dtype)
    print(f"{options.output}: converted to the format {options.to}.", *changes)

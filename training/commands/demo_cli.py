"""The command `demo`."""

import argparse
import pathlib

from tf_transformer.command_line.command_options import folder
from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.errors import InputError
from tf_transformer.storage.files import check_folder


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parser of `demo`."""
    parser = commands.add_parser(
        "demo",
        help="train, evaluate and export a small translation model from built-in text",
        description="Makes an English-German corpus of dates, times, amounts and counts, trains a "
        "small model on it, evaluates it on unseen sentences, exports it and translates with the "
        "export. Needs no file and no network, and two to three minutes on 2 CPU cores.",
    )
    parser.add_argument(
        "--task", default="translate", choices=("translate", "copy"),
        help="copy: learn to repeat ten symbols, as in the Annotated Transformer; writes nothing",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=folder, default=pathlib.Path("demo-out"), metavar="DIR",
        help="the folder to write (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N",
        help="random seed of corpus, weights and data order (default: %(default)s)",
    )  # fmt: skip
    parser.set_defaults(run=_run_demo)


def _run_demo(options):
    if not 0 <= options.seed < 2**32:
        raise InputError(f"--seed {options.seed}: expected 0 to {2**32 - 1}")
    if options.task == "copy":
        import_tensorflow()
        from training.demo.copy_task import run_copy_task

        run_copy_task(options.seed)
    else:
        check_folder(options.out)
        from training.demo.demo import run_demo

        run_demo(options.out, options.seed)

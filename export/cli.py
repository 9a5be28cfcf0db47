"""The commands that use a trained model: translate, export.

TensorFlow is imported inside the commands, so that `--help` answers at once.
"""

import argparse
import contextlib
import pathlib
import sys
from typing import BinaryIO

from tf_transformer.command_options import add_model_dir, add_search_options
from tf_transformer.quiet import import_tensorflow


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parsers of this room's commands."""
    _add_translate(commands)
    _add_export(commands)


def _add_translate(commands):
    parser = commands.add_parser(
        "translate",
        help="translate lines of text",
        description="Translates one sentence a line. Order and empty lines are kept.",
    )
    add_model_dir(parser, "the trained model")
    parser.add_argument(
        "--input", type=pathlib.Path, metavar="F", help="text (default: standard input)"
    )
    parser.add_argument(
        "--output", type=pathlib.Path, metavar="F", help="translations (default: standard output)"
    )
    add_search_options(parser)
    parser.add_argument(
        "--n-best", type=int, metavar="N",
        help="write the N best of each sentence as lines of number, score and text, with tabs",
    )  # fmt: skip
    parser.set_defaults(run=_run_translate)


def _run_translate(options):
    lines = _read_lines(options.input)
    translator = _load_translator(options, num_best=options.n_best or 1)
    # Opened last: a former file survives everything that can be wrong with the rest.
    num_truncated = 0
    with _open_output(options.output) as output:
        for number, best in enumerate(translator.translate_lines(lines), 1):
            num_truncated += best[0].truncated
            for translation in best:
                text = " ".join(translation.text.splitlines())
                if options.n_best:
                    text = f"{number}\t{translation.score:.4f}\t{text}"
                output.write(f"{text}\n".encode())
            output.flush()
    if num_truncated:
        print(
            f"tf-transformer: {num_truncated} sentences were longer than the model's limit of "
            f"{translator.source_limit} tokens; their ends were cut off",
            file=sys.stderr,
        )


def _read_lines(path: pathlib.Path | None) -> list[bytes]:
    """Lines end at a line feed; carriage returns are dropped, as in training."""
    data = path.read_bytes() if path else sys.stdin.buffer.read()
    return data.replace(b"\r", b"").removesuffix(b"\n").split(b"\n") if data else []


def _open_output(path: pathlib.Path | None) -> contextlib.AbstractContextManager[BinaryIO]:
    return path.open("wb") if path else contextlib.nullcontext(sys.stdout.buffer)


def _add_export(commands):
    parser = commands.add_parser(
        "export",
        help="write a SavedModel that turns strings into strings",
        description="Writes the next numbered version below the output directory, verifies it in "
        "a fresh process, and only then lets it appear under its number.",
    )
    add_model_dir(parser, "the trained model")
    parser.add_argument(
        "--output", type=pathlib.Path, required=True, metavar="DIR",
        help="the directory that TF Serving watches",
    )  # fmt: skip
    add_search_options(parser)
    parser.set_defaults(run=_run_export)


def _run_export(options):
    translator = _load_translator(options)
    from export.saved_model import export_translator

    print("Writing and verifying the SavedModel ...", file=sys.stderr)
    version = export_translator(translator, options.output)
    print(f"{version}: equal to the model in a fresh process")


def _load_translator(options, num_best=1):
    import_tensorflow()
    from tf_transformer.model_dir import load_model
    from tf_transformer.translator import Translator

    return Translator(
        *load_model(options.model_dir),
        beam_size=options.beam_size,
        length_penalty=options.length_penalty,
        num_best=num_best,
    )

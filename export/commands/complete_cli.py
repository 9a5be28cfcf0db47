"""The command `complete`, which continues text with a language model.

TensorFlow is imported only after all arguments and files have been checked.
"""

import argparse
import functools

from export.lines.line_batches import open_lines, unless_empty
from export.lines.line_output import check_output, open_output, write_line
from tf_transformer.command_line.command_options import (
    add_adapter,
    add_dtype,
    add_end_pieces,
    add_model_dir,
    add_search_options,
    add_xla,
    file_name,
    given_search,
    given_xla,
)
from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.errors import InputError
from tf_transformer.text.lines import join_lines


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parser of `complete`."""
    parser = commands.add_parser(
        "complete",
        help="continue text with a language model",
        description="Continues one text per line until the model ends it. Each line is answered "
        "when it arrives.",
    )
    add_model_dir(parser, "the language model")
    add_adapter(parser)
    parser.add_argument(
        "--input", type=file_name, metavar="F",
        help="texts to continue: plain, .gz or .zst; F.tsv:2 is column 2 of a TSV file (default, "
        "and -: standard input)",
    )  # fmt: skip
    parser.add_argument(
        "--max-tokens", type=int, default=100, metavar="N",
        help="maximum tokens of a continuation (default: %(default)s)",
    )  # fmt: skip
    add_search_options(parser)
    add_end_pieces(parser)
    add_dtype(parser)
    add_xla(parser)
    parser.set_defaults(run=_run_complete)


def _run_complete(options):
    given = given_search(options) | {"xla": given_xla(options)}
    if options.max_tokens < 1:
        raise InputError(f"--max-tokens {options.max_tokens}: expected at least 1")
    with open_lines(options.input) as lines, open_output(None) as output:
        check_output(None, lines)
        model = _checked_model(options)
        load = functools.cache(lambda: _load(options, model, given))

        def prepare(line, where):
            load().check_prompt(line, where)
            return line

        if not lines.is_ready(0):
            load()  # while the first line is typed
        for batch in unless_empty(lines, lines.batches(prepare)) or ():
            for line in batch:
                write_line(output, join_lines(load().complete(line).text))
                output.flush()


def _checked_model(options):
    from tf_transformer.storage.trained_models import TrainedModels

    model = TrainedModels((options.model_dir,), adapter=options.adapter)
    source, vocabulary = model.check()
    if source is not None:
        raise InputError(
            f"{options.model_dir}: expected a language model, found a translation model; use "
            "`translate`"
        )
    vocabulary.end_ids(options.end_piece)
    return model


def _load(options, model, given):
    import_tensorflow(on_cpu=options.dtype == "int8")
    from tf_transformer.inference.completer import Completer

    loaded, _, tokenizer = model.load(options.dtype)
    return Completer(
        loaded,
        tokenizer,
        **given,
        end_pieces=options.end_piece,
        max_new_tokens=options.max_tokens,
    )

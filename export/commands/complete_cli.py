"""The command `complete`: text continued by a model directory, an exported model or a server.

TensorFlow is imported only after all arguments and files have been checked.
"""

import argparse
import contextlib
import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from export.lines.line_batches import open_lines, unless_empty
from export.lines.line_output import check_output, open_output, write_line
from tf_transformer.command_line.client_options import add_client_options
from tf_transformer.command_line.command_options import (
    add_adapter,
    add_dtype,
    add_end_pieces,
    add_search_options,
    add_xla,
    file_name,
    folder,
    parse_search,
    parse_xla,
)
from tf_transformer.command_line.predictor_options import (
    add_exported_model,
    check_place,
    load_models,
    open_exported_model,
    row_options,
)
from tf_transformer.decoding.search_options import DEFAULT_MAX_TOKENS
from tf_transformer.errors import InputError
from tf_transformer.predictors.answers import answer
from tf_transformer.predictors.predictor import Predictor
from tf_transformer.text.lines import join_lines

if TYPE_CHECKING:  # `--help` must not import SentencePiece
    from tf_transformer.storage.trained_models import TrainedModels


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parser of `complete`."""
    parser = commands.add_parser(
        "complete",
        help="continue text with a language model",
        description="Continues one text per line until the model ends it. Each line is answered "
        "when it arrives.",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--model-dir", type=folder, metavar="DIR", help="the language model")
    add_adapter(parser)
    add_exported_model(source)
    add_client_options(parser)
    parser.add_argument(
        "--input", type=file_name, metavar="F",
        help="texts to continue: plain, .gz or .zst; F.tsv:2 is column 2 of a TSV file (default, "
        "and -: standard input)",
    )  # fmt: skip
    parser.add_argument(
        "--max-tokens", type=int, default=DEFAULT_MAX_TOKENS, metavar="N",
        help="maximum tokens of a continuation (default: %(default)s)",
    )  # fmt: skip
    add_search_options(parser)
    add_end_pieces(parser)
    add_dtype(parser)
    add_xla(parser)
    # None, so that an exported model uses its own values.
    parser.set_defaults(run=_run_complete, beam_size=None, length_penalty=None, dtype=None)


def _run_complete(options):
    check_place(options, ("adapter", "end_piece", "dtype", "xla"))
    search, xla = parse_search(options), parse_xla(options)
    if options.max_tokens < 1:
        raise InputError(f"--max-tokens {options.max_tokens}: expected at least 1")
    # An int32, and more than any model's limit.
    given = row_options(options) | {"max_tokens": min(options.max_tokens, 2**20)}
    with open_lines(options.input) as lines, open_output(None) as output:
        check_output(None, lines)
        models = _checked_model(options)
        with _open_predictor(options, models, search, xla) as predictor:
            if options.server is None and not lines.is_ready(0):
                predictor()  # while the first line is typed
            number = lines.first
            for batch in unless_empty(lines, lines.batches(lambda line, where: line)) or ():
                numbers = list(range(number + 1, number + 1 + len(batch)))
                for text in _complete(predictor(), batch, numbers, given, lines.name):
                    write_line(output, join_lines(text))
                    output.flush()
                number += len(batch)


def _open_predictor(options, models: "TrainedModels | None", search, xla):
    if models is None:
        return open_exported_model(options)
    load = functools.partial(load_models, models, options.dtype or "float32", xla=xla)
    load = functools.partial(load, end_pieces=options.end_piece, **search)
    return contextlib.nullcontext(functools.cache(load))


def _complete(predictor: Predictor, texts, numbers, options, name: str) -> Iterator[str]:
    """Yields each text with its continuation.

    Raises:
        InputError: a text is longer than the model's limit; those before it are yielded first.
    """
    rows = iter(numbers)
    answers = answer(
        predictor, "continuation", {"text": texts}, options, numbers, needed_by="`complete`"
    )
    for batch in answers:
        columns = (batch[key] for key in ("completion", "num_tokens", "truncated"))
        for text, num_tokens, is_truncated in zip(*columns, strict=True):
            number = next(rows)
            if is_truncated:
                raise InputError(
                    f"{name}:{number} must have fewer tokens: the model's limit is exceeded. "
                    f"Received: {num_tokens} tokens"
                )
            yield text


def _checked_model(options) -> "TrainedModels | None":
    """Returns the model directory, after checks; None for an exported model."""
    if options.model_dir is None:
        return None
    from tf_transformer.storage.trained_models import TrainedModels

    models = TrainedModels((options.model_dir,), adapter=options.adapter)
    source, vocabulary = models.check()
    if source is not None:
        raise InputError(
            f"{options.model_dir}: expected a language model, found a translation model; use "
            "`translate`"
        )
    vocabulary.end_ids(options.end_piece)
    return models

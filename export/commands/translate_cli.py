"""The command `translate`, which translates lines of text with a model directory or a server.

TensorFlow is imported only after all arguments and files have been checked.
"""

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from export.commands.bulk_cli import add_bulk_options, is_bulk, run_bulk
from export.commands.client_options import add_client_options, given_client_options
from export.lines.line_batches import BATCH_SIZE, Lines, open_lines, unless_empty
from export.lines.line_output import check_output, output_path, write_line
from export.lines.line_progress import progress_bar
from export.lines.resumption import (
    BatchOutput,
    check_resumption,
    is_resumable,
    open_batch_output,
)
from tf_transformer.command_line.command_options import (
    add_dtype,
    add_end_pieces,
    add_languages,
    add_model_dirs,
    add_search_options,
    add_shortlist,
    add_xla,
    check_languages,
    check_translator,
    find_source_tags,
    given_models,
    given_search,
    given_shortlist,
    given_xla,
    text,
)
from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.decoding.search_options import DEFAULT_BEAM_SIZE, SEARCH_OPTIONS
from tf_transformer.errors import InputError
from tf_transformer.printable import shown
from tf_transformer.text.language_tags import add_tags, check_tag, written_tags
from tf_transformer.text.lines import join_lines

if TYPE_CHECKING:  # `--help` must not import SentencePiece
    from tf_transformer.shortlists.table import ShortlistTable
    from tf_transformer.storage.trained_models import TrainedModels

_TAGS = ("target_language", "source_language")
# Adds tags to a line, or checks them; with file and line, for the error message.
_Prepare = Callable[[bytes, str], bytes]
# The translations of one line, best first: text, score, and whether the source was truncated.
_NBest = Iterable[tuple[str, float, bool]]
# Maps lines, and their numbers for messages, to their translations.
_Translate = Callable[[list[bytes], list[int]], Iterable[_NBest]]


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parser of `translate`."""
    parser = commands.add_parser(
        "translate",
        help="translate lines of text",
        description="Translates one sentence per line, as the lines arrive. Order and empty lines "
        "are kept.",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    add_model_dirs(parser, source)
    source.add_argument(
        "--server", type=text, metavar="HOST:PORT",
        help="address of a TF Serving that serves an exported model",
    )  # fmt: skip
    add_bulk_options(parser, source)
    add_client_options(parser)
    parser.add_argument(
        "--input", metavar="F",
        help="source text: plain, .gz or .zst; F.tsv:2 is column 2 of a TSV file (default, and "
        "-: standard input). With --runner also F.jsonl:NAME and F.parquet:NAME",
    )  # fmt: skip
    parser.add_argument(
        "--output", type=output_path, metavar="F",
        help="translations (default, and -: standard output); named F.partial until complete. If "
        "input and output are files, the same command resumes an interrupted run",
    )  # fmt: skip
    parser.add_argument(
        "--shard", type=_shard, metavar="I/N",
        help="translate only the I-th of N parts of the input file, such as 3/8; the outputs, one "
        "after the other, are that of the whole file",
    )  # fmt: skip
    add_languages(parser)
    add_search_options(parser)
    add_end_pieces(parser)
    add_dtype(parser)
    add_shortlist(parser)
    add_xla(parser)
    parser.add_argument(
        "--n-best", type=int, metavar="N",
        help="write the N best translations of each sentence, tab-separated: line number, score, "
        "text",
    )  # fmt: skip
    # None, so that a server uses its own values.
    parser.set_defaults(run=_run_translate, beam_size=None, length_penalty=None, dtype=None)


def _run_translate(options):
    _check_options(options)
    if is_bulk(options):
        run_bulk(options)
        return
    models = None if options.server is not None else given_models(options)
    if models is None:
        prepare, shortlist = _server_tags(options), None
    else:
        prepare, shortlist = _check_models(options, models)
    with open_lines(options.input, options.shard) as lines, contextlib.ExitStack() as stack:
        check_output(options.output, lines, models.directories if models else ())
        request = None
        if is_resumable(options.output, lines):
            request = _request(options, models, shortlist)
            check_resumption(options.output, request)
        translate: _Translate
        batches: Iterator[list[bytes]] | None
        if models is None:
            translate, batch_size = stack.enter_context(_connect(options))
            batches = lines.batches(prepare, batch_size)
        else:
            batches = unless_empty(lines, lines.batches(prepare))
            translate = _load(options, models, shortlist) if batches else lambda lines, numbers: ()
        with open_batch_output(options.output, request) as output:
            _write_answers(lines, batches or iter(()), translate, output, options.n_best)
            num_truncated = output.num_truncated
    if num_truncated:
        print(
            "tf-transformer: sentences that exceeded the model's length limit and were truncated: "
            f"{num_truncated}",
            file=sys.stderr,
        )


def _shard(argument: str) -> tuple[int, int]:
    """Converts `I/N`."""
    part, separator, number = argument.partition("/")
    if not (separator and part.isdecimal() and number.isdecimal() and len(number) < 7):
        raise argparse.ArgumentTypeError(f"{shown(argument)}: expected I/N, such as 3/8")
    if not 1 <= int(part) <= int(number):
        raise argparse.ArgumentTypeError(f"{argument}: expected I from 1 to N")
    return int(part), int(number)


def _request(
    options, models: "TrainedModels | None", shortlist: "ShortlistTable | None"
) -> dict[str, Any]:
    """Returns what the translations of a line depend on."""
    request = {
        name: value
        for name in ("server", "model", "end_piece", "dtype", "n_best", *_TAGS)
        if (value := getattr(options, name))
    }
    if options.shard is not None:
        request["shard"] = "{}/{}".format(*options.shard)
    if models is not None:
        request["weights"] = models.digest()
        request["shortlist"] = shortlist and shortlist.digest
    return request | given_search(options)


def _check_options(options):
    """Checks ranges, and that the options are valid together."""
    for name in ("n_best", "end_piece", "dtype", "shortlist", "xla", "ensemble_weights", "adapter"):
        if options.server is not None and getattr(options, name):
            raise InputError(f"--{name.replace('_', '-')} is valid only with --model-dir")
    for name in given_client_options(options):
        if options.server is None:
            raise InputError(f"--{name.replace('_', '-')} is valid only with --server")
    given_xla(options)
    beam_size = given_search(options).get("beam_size", DEFAULT_BEAM_SIZE)
    if options.n_best is not None and not 1 <= options.n_best <= beam_size:
        expected = "at least 1" if options.n_best < 1 else f"at most the --beam-size, {beam_size}"
        raise InputError(f"--n-best {options.n_best}: expected {expected}")
    check_languages(options)


def _check_models(options, models: "TrainedModels") -> "tuple[_Prepare, ShortlistTable | None]":
    """Checks the model directories, and returns what adds or checks tags, and the shortlist."""
    source, target = check_translator(models, options.end_piece)
    shortlist = given_shortlist(options, (source, target))
    num_tags = 1 + models.config().num_target_tags
    if tags := find_source_tags(options, source, num_tags):
        return (lambda line, where: add_tags(line, tags, where)), shortlist

    def checked(line, where):
        check_tag(line, source.languages, where, num_tags)
        return line

    return checked, shortlist


def _server_tags(options) -> _Prepare:
    """Returns what adds tags to a source; only the server knows which ones there are."""
    languages = [x for x in (options.target_language, options.source_language) if x is not None]
    if not languages:
        return lambda line, where: line
    return lambda line, where: add_tags(line, written_tags(*languages), where)


def _load(options, models: "TrainedModels", shortlist: "ShortlistTable | None") -> _Translate:
    import_tensorflow(on_cpu=options.dtype == "int8")
    from tf_transformer.inference.compiling_translator import CompilingTranslator
    from tf_transformer.inference.finite_scores import check_scores

    translator = CompilingTranslator(
        *models.load(options.dtype or "float32"),
        **given_search(options),
        end_pieces=options.end_piece,
        num_best=options.n_best or 1,
        shortlist=shortlist,
        xla=given_xla(options),
    )

    def translate(lines, _):
        translations = translator.translate_batch(lines)
        check_scores([best[0].score for best in translations])
        return translations

    return translate


@contextlib.contextmanager
def _connect(options) -> Iterator[tuple[_Translate, int]]:
    from export.client import Client

    given = given_search(options)
    signature = "translate_options" if given else "serving_default"
    search = {option.name: option.unset for option in SEARCH_OPTIONS} | given
    with Client(options.server, **given_client_options(options)) as client:

        def translate(lines, numbers):
            found = client.signatures.get(signature)  # None is an error of `translate_batches`
            known = search.keys() & found.inputs.keys() if found else ()
            inputs = {name: search[name] for name in known}
            for batch in client.translate_batches(lines, signature, inputs, numbers):
                for translation in batch:
                    yield [translation]

        # Enough lines for all concurrent requests.
        yield translate, max(BATCH_SIZE, client.max_batch_size * client.concurrency)


def _write_answers(
    lines: Lines,
    batches: Iterator[list[bytes]],
    translate: _Translate,
    output: BatchOutput,
    n_best: int | None,
) -> None:
    """Writes the translations of each batch that has none yet."""
    batches = output.remaining(batches)
    with progress_bar(lines, output.num_lines) as update:
        for batch in batches:
            number = lines.first + output.num_lines
            num_truncated = 0
            for translations in _translate_batch(batch, number, translate, n_best or 1):
                number += 1
                for rank, (translation, score, truncated) in enumerate(translations):
                    num_truncated += truncated and rank == 0
                    line = join_lines(translation)
                    if n_best:
                        line = f"{number}\t{score:.4f}\t{line}"
                    write_line(output.file, line)
            output.finish(batch, num_truncated)
            update(len(batch))


def _translate_batch(
    batch: list[bytes], num_before: int, translate: _Translate, num_best: int
) -> Iterator[_NBest]:
    """Yields the translations of each line; blank lines are not passed to `translate`.

    Args:
        batch: the lines.
        num_before: number of lines before this batch.
        translate: translates lines that are not blank.
        num_best: number of translations per line.
    """
    numbers = [number for number, line in enumerate(batch, num_before + 1) if line.strip()]
    texts = [batch[number - num_before - 1] for number in numbers]
    translations = iter(translate(texts, numbers) if texts else ())
    for line in batch:
        yield next(translations) if line.strip() else [("", 0.0, False)] * num_best

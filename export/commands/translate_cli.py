"""The command `translate`: lines of text, by a model directory, an exported model or a server.

TensorFlow is imported only after all arguments and files have been checked.
"""

import argparse
import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from export.commands.options.confidence import add_confidence, check_confidence, read_confidence
from export.commands.options.documents import add_document_languages, parse_document_languages
from export.commands.options.predictors import load_model_predictor
from export.commands.options.terms import (
    TermLines,
    add_term_options,
    parse_terms,
    report_incomplete,
)
from export.commands.translate_in_bulk import is_bulk, run_bulk
from export.commands.translate_markup import add_markup_options, check_markup, run_markup
from export.lines.line_batches import BATCH_SIZE, open_lines, unless_empty
from export.lines.line_output import check_output, output_path
from export.lines.line_tasks import (
    CONFIDENCE,
    N_BEST,
    LineTask,
    best,
    n_best,
    text_of,
    with_confidences,
)
from export.lines.line_translations import NBest, Translate, write_translations
from export.lines.resumption import check_resumption, is_resumable, open_batch_output
from export.lines.sentence_count import SentenceCount
from tf_transformer.apache_beam.runner_options import add_runner_options
from tf_transformer.command_line.client_options import add_client_options
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
    file_name,
    parse_models,
    parse_search,
    parse_shortlist,
    parse_xla,
)
from tf_transformer.command_line.predictor_options import (
    add_exported_model,
    add_output_options,
    check_place,
    open_predictor,
    parse_output_options,
    row_options,
)
from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.command_line.reranking_options import (
    add_reranking,
    check_reranking,
    is_reranking,
    parse_choice,
)
from tf_transformer.command_line.tag_options import (
    Prepare,
    parse_exported,
    parse_languages,
    parse_tags,
    prepare_with,
)
from tf_transformer.decoding.search_options import DEFAULT_BEAM_SIZE, MAX_BEAM_SIZE
from tf_transformer.errors import InputError
from tf_transformer.predictors.answers import has_task
from tf_transformer.predictors.predictor import Predictor
from tf_transformer.printable import shown
from tf_transformer.storage.saved_model import model_digest, version_folder
from tf_transformer.text.language_tags import tags_of_known

if TYPE_CHECKING:  # `--help` must not import SentencePiece
    from tf_transformer.confidence.calibration import Calibration
    from tf_transformer.predictors.model_predictor import ModelPredictor
    from tf_transformer.reranking.settings import Choice
    from tf_transformer.shortlists.table import ShortlistTable
    from tf_transformer.storage.trained_models import TrainedModels

_TAGS = ("target_language", "source_language")
_SENTENCES = ("split_sentences", "keep_capitals")


class _Checked(NamedTuple):
    """What a command translates with, after all checks that need no TensorFlow.

    Attributes:
        prepare: adds tags to a line, or checks them.
        models: the model or the ensemble; None for an exported model.
        shortlist: the shortlist, if there is one.
        choice: how to choose among candidates; None for the translations of the search.
        terms: terms and protected spans, if there are any.
        calibration: that of the model's confidences, if they are wanted.
        languages: languages whose tags the sources may have.
    """

    prepare: Prepare
    models: "TrainedModels | None" = None
    shortlist: "ShortlistTable | None" = None
    choice: "Choice | None" = None
    terms: TermLines | None = None
    calibration: "Calibration | None" = None
    languages: Sequence[str] = ()

    def directories(self):
        """Returns the model directories that are read."""
        own = self.models.directories if self.models else ()
        return (*own, *(self.choice.directories if self.choice else ()))


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
    add_exported_model(source)
    add_runner_options(parser)
    add_client_options(parser)
    parser.add_argument(
        "--input", type=file_name, metavar="F",
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
    parser.add_argument(
        "--split-sentences", action=argparse.BooleanOptionalAction,
        help="lines may hold several sentences: each is translated apart, the white space between "
        "them is kept, and sentences in capitals are translated in sentence case; with --server, "
        "by the signature `document` or `document_options`. Blocks of --markup are split anyway; "
        "--no-split-sentences translates each as one",
    )  # fmt: skip
    parser.add_argument(
        "--keep-capitals", action="store_true",
        help="with --split-sentences or --markup, translate sentences in capitals as they are, as "
        "by a model that was trained on such text",
    )  # fmt: skip
    add_document_languages(parser, "with --markup, or with --split-sentences and --model-dir")
    add_languages(parser)
    add_search_options(parser)
    add_output_options(parser)
    add_end_pieces(parser)
    add_dtype(parser)
    add_shortlist(parser)
    add_xla(parser)
    add_reranking(parser)
    add_term_options(parser)
    add_confidence(parser)
    add_markup_options(parser)
    parser.add_argument(
        "--n-best", type=int, metavar="N",
        help="write the N best translations of each sentence, tab-separated: line number, score, "
        "text",
    )  # fmt: skip
    # None, so that a server uses its own values.
    parser.set_defaults(run=_run_translate, beam_size=None, length_penalty=None, dtype=None)


def _run_translate(options):
    _check_options(options)
    check_markup(options)
    terms = parse_terms(options)
    check_confidence(options)
    if is_bulk(options):
        run_bulk(options)
        return
    if options.model_dir is None:
        languages = parse_languages(options)
        choice = parse_choice(options, len(languages))
        known = parse_exported(options)
        prepare = prepare_with(tags_of_known(languages, known), *(known or ()))
        checked = _Checked(prepare, choice=choice, terms=terms, languages=languages)
    else:
        checked = _check_models(options, parse_models(options))._replace(terms=terms)
    if options.markup:
        load = functools.partial(_load_model, options, checked)
        run_markup(options, checked.prepare, checked.directories(), load, terms)
        return
    with open_lines(options.input, options.shard) as lines, contextlib.ExitStack() as stack:
        files = (options.adapter, options.confidence or None, options.terms, options.shortlist)
        check_output(options.output, lines, checked.directories(), files)
        several, prepare = _count_sentences(options, checked.prepare)
        request = None
        if is_resumable(options.output, lines):
            request = _request(options, checked)
            check_resumption(options.output, request)
        load = functools.partial(_load_model, options, checked)
        predictor = stack.enter_context(open_predictor(options, load))
        batches: Iterator[list[bytes]] | None
        if options.server is not None:  # enough lines for all concurrent requests
            batches = lines.batches(prepare, max(BATCH_SIZE, predictor().batch_size))
        else:
            batches = unless_empty(lines, lines.batches(prepare))
        translate = _translate(options, checked, predictor) if batches else _translate_nothing
        with open_batch_output(options.output, request) as output:
            write_translations(
                lines,
                batches or iter(()),
                translate,
                output,
                options.n_best,
                num_incomplete=lambda: terms.num_incomplete if terms else 0,
            )
            num_truncated, num_incomplete = output.num_truncated, output.num_incomplete
        task = "document_terms" if terms else "document"
        splits = not several.num_several or has_task(predictor(), task)
    report_incomplete(num_incomplete)
    if num_truncated:
        what = (
            "lines whose end was not translated, or with a sentence that exceeded the model's "
            "length limit"
            if options.split_sentences
            else "sentences that exceeded the model's length limit and were truncated"
        )
        print(f"tf-transformer: {what}: {num_truncated}", file=sys.stderr)
    alone = options.n_best is not None or options.confidence is not None
    several.report("" if splits else task, not (alone or is_reranking(options)))


def _translate_nothing(lines: list[bytes], numbers: list[int]) -> Iterator[NBest]:
    yield from ()


def _count_sentences(options, prepare: Prepare) -> tuple[SentenceCount, Prepare]:
    """Returns the count of lines of several sentences, and `prepare` that adds to it."""
    several = SentenceCount()

    def count_and_prepare(line, where):
        several.add(line)
        return prepare(line, where)

    return several, count_and_prepare if options.split_sentences is None else prepare


def _shard(argument: str) -> tuple[int, int]:
    """Converts `I/N`."""
    part, _, number = argument.partition("/")
    if not (argument.isascii() and part.isdecimal() and number.isdecimal() and len(number) < 7):
        raise argparse.ArgumentTypeError(f"{shown(argument)}: expected I/N, such as 3/8")
    if not 1 <= int(part) <= int(number):
        raise argparse.ArgumentTypeError(f"{argument}: expected I from 1 to N")
    return int(part), int(number)


def _request(options, checked: _Checked) -> dict[str, Any]:
    """Returns what the translations of a line depend on."""
    request = {
        name: value
        for name in ("server", "model", "end_piece", "dtype", "n_best", *_SENTENCES, *_TAGS)
        if (value := getattr(options, name))
    }
    if options.document_languages:
        request["document_languages"] = list(parse_document_languages(options))
    if options.shard is not None:
        request["shard"] = "{}/{}".format(*options.shard)
    if options.saved_model is not None:
        request["saved_model"] = model_digest(version_folder(options.saved_model))
    if checked.models is not None:
        request["weights"] = checked.models.digest()
        request["shortlist"] = checked.shortlist and checked.shortlist.digest
    if checked.choice is not None:
        request |= checked.choice.facts()
    if checked.terms is not None:
        request |= checked.terms.facts()
    if options.confidence is not None:
        calibration = checked.calibration
        request["confidence"] = True if calibration is None else calibration._asdict()
    return request | parse_search(options) | parse_output_options(options)


def _check_options(options):
    """Checks ranges, and that the options are valid together."""
    local = (
        *("end_piece", "dtype", "shortlist", "xla", "ensemble_weights", "adapter"),
        *(() if options.markup else ("document_languages",)),
    )
    check_place(options, local)
    for name in ("keep_capitals", "document_languages"):
        if getattr(options, name) and not (options.split_sentences or options.markup):
            raise InputError(
                f"--{name.replace('_', '-')} is valid only with --split-sentences or --markup"
            )
    parse_document_languages(options)
    if options.split_sentences and options.n_best:
        raise InputError("--n-best is not valid with --split-sentences")
    if options.split_sentences and is_reranking(options):
        raise InputError(
            "--split-sentences is not valid with reranking or minimum Bayes risk, which choose the "
            "translations of whole lines; give one sentence per line"
        )
    parse_xla(options)
    limit, name = parse_search(options).get("beam_size", DEFAULT_BEAM_SIZE), "--beam-size"
    check_reranking(options)
    if (given := parse_output_options(options)) and is_reranking(options):
        name = next(iter(given)).replace("_", "-")
        raise InputError(f"--{name} is not valid with reranking or minimum Bayes risk")
    if options.mbr_samples is not None:
        limit, name = options.mbr_samples, "--mbr-samples"
    if options.model_dir is None and "beam_size" not in parse_search(options):
        limit = MAX_BEAM_SIZE  # only the exported model knows
    if options.n_best is not None and not 1 <= options.n_best <= limit:
        expected = "at least 1" if options.n_best < 1 else f"at most the {name}, {limit}"
        raise InputError(f"--n-best {options.n_best}: expected {expected}")
    check_languages(options)


def _check_models(options, models: "TrainedModels") -> _Checked:
    """Checks the model directories and the languages."""
    source, target = check_translator(models, options.end_piece)
    shortlist = parse_shortlist(options, (source, target))
    num_tags = models.config().num_tags
    prepare = prepare_with(parse_tags(options, source, num_tags), source.languages, num_tags)
    choice = parse_choice(options, num_tags if source.languages else 0)
    calibration = read_confidence(options, models)
    return _Checked(
        prepare, models, shortlist, choice, calibration=calibration, languages=source.languages
    )


def _translate(options, checked: _Checked, predictor: Callable[[], Predictor]) -> Translate:
    """Returns what translates lines."""
    if checked.choice is not None:
        return _load_choosing(options, checked, checked.choice, predictor)
    return _line_task(options, checked.terms).translate(predictor(), row_options(options))


def _line_task(options, terms: TermLines | None) -> LineTask:
    """Returns the task that translates lines, and how."""
    if terms is not None:
        return terms.line_task()
    if options.confidence is not None:
        return LineTask(
            "confidence", text_of, with_confidences, CONFIDENCE, needed_by="--confidence"
        )
    if options.n_best is not None:
        return LineTask("nbest", text_of, n_best(options.n_best), N_BEST, needed_by="--n-best")
    if options.split_sentences:
        flags = {"keep_capitals": options.keep_capitals}
        return LineTask("document", text_of, best, flags=flags, needed_by="--split-sentences")
    return LineTask("translate", text_of, best)


def _load_model(options, checked: _Checked) -> "ModelPredictor":
    # Others are searched in more steps, which XLA does not compile.
    takes_more_steps = options.split_sentences or options.markup or checked.terms
    xla = "off" if takes_more_steps else parse_xla(options)
    return load_model_predictor(
        options, shortlist=checked.shortlist, calibration=checked.calibration, xla=xla
    )


def _load_choosing(
    options, checked: _Checked, choice: "Choice", predictor: Callable[[], Predictor]
) -> Translate:
    import_tensorflow(on_cpu=options.dtype == "int8")  # which scores by other models, too
    from tf_transformer.inference.finite_scores import check_scores
    from tf_transformer.reranking.reranker import Reranker

    reranker = Reranker(
        predictor(),
        choice,
        parse_search(options),
        languages=checked.languages,
        num_best=options.n_best or 1,
    )

    def translate(lines, _):
        translations = reranker.translate_batch(lines)
        check_scores([best[0].score for best in translations])
        return translations

    return translate

"""The command `evaluate`."""

import argparse
import os
import sys

from tf_transformer.command_line.calibration_options import add_calibration, parse_calibration
from tf_transformer.command_line.client_options import add_client_options
from tf_transformer.command_line.command_options import (
    add_dtype,
    add_languages,
    add_model_dirs,
    add_search_options,
    add_shortlist,
    add_xla,
    check_languages,
    check_translator,
    file_name,
    file_path,
    find_source_tags,
    parse_models,
    parse_search,
    parse_shortlist,
    parse_xla,
)
from tf_transformer.command_line.predictor_options import (
    add_exported_model,
    check_place,
    model_facts,
    open_exported_model,
)
from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.command_line.reranking_options import (
    RERANKING_OPTIONS,
    add_reranking,
    check_reranking,
    parse_choice,
)
from tf_transformer.command_line.standard_streams import standard_output
from tf_transformer.command_line.tag_options import parse_exported, parse_languages, parse_tags
from tf_transformer.decoding.search_options import DEFAULT_SEARCH
from tf_transformer.errors import InputError
from tf_transformer.predictors.answers import find_signature
from tf_transformer.printable import printable
from tf_transformer.storage.files import check_writable, replacing
from tf_transformer.storage.json_files import write_json
from tf_transformer.storage.output_files import check_output_file
from tf_transformer.storage.own_files import check_own_file
from tf_transformer.storage.score_log import SCORES_NAME, append_score
from tf_transformer.tasks.table import TASKS
from tf_transformer.text.language_tags import check_tags
from training.commands.metric_options import (
    COMET_OPTIONS,
    add_metric_options,
    add_test_set_options,
    parse_measures,
    parse_test_set,
    parse_tokenizer,
)
from training.report.options import add_comparison, check_report, parse_comparison

# Options for a model directory, and those that a language model does not have.
_LOCAL_OPTIONS = (
    *("ensemble_weights", "adapter", "dtype", "shortlist", "calibrate", "xla"),
    "tune_weights",
)
_TRANSLATION_OPTIONS = (
    *("output", "report", "compare", "target_language", "source_language"),
    *("shortlist", "calibrate", "calibration_percentile", "xla", "perturb"),
    *("tune_weights", "metrics", "tokenize", "sentence_scores"),
    *COMET_OPTIONS,
    *RERANKING_OPTIONS,
)


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parser of `evaluate`."""
    parser = commands.add_parser(
        "evaluate",
        help="BLEU, chrF, TER, COMET, exact matches and perplexity on a test set",
        description="Translates the source and compares the translations with the reference as "
        "plain text. For a language model, which has no source, reports the perplexity of the "
        "reference. The scores are appended to scores.jsonl of the model directory, with their "
        "provenance. An exported model is evaluated by its signatures `translate_options` (or "
        "`serving_default`) and, for the perplexity, `score`.",
    )
    place = parser.add_mutually_exclusive_group(required=True)
    add_model_dirs(parser, place)
    add_exported_model(place)
    add_client_options(parser)
    add_test_set_options(parser)
    add_metric_options(parser)
    add_languages(parser)
    add_search_options(parser)
    add_dtype(parser)
    add_shortlist(parser)
    add_calibration(parser)
    add_xla(parser)
    add_reranking(parser)
    parser.add_argument(
        "--tune-weights", action="store_true",
        help="with --rerank-reverse or --rerank-lm, print the BLEU of each pair of weights of a "
        "grid, to choose them on a validation set; nothing is stored",
    )  # fmt: skip
    parser.add_argument(
        "--compare", type=file_name, nargs="+", action="extend", default=[], metavar="HYPOTHESES",
        help="other systems' translations of the source, to test whether the difference is "
        "significant by paired bootstrap and approximate randomization",
    )  # fmt: skip
    parser.add_argument(
        "--perturb", nargs="+", action="extend", default=[], metavar="NOISE",
        help="also translate the source with noise, and report what it costs: upper, title, "
        "no_end, typos, copies, each of which may have a rate, as in typos=0.05",
    )  # fmt: skip
    add_comparison(parser)
    parser.add_argument("--output", type=file_path, metavar="F", help="write the translations")
    parser.add_argument(
        "--sentence-scores", type=file_path, metavar="F",
        help="write the scores of each sentence with its texts, as JSON lines",
    )  # fmt: skip
    parser.add_argument("--json", type=file_path, metavar="F", help="write the scores as JSON")
    # None, so that they are not given with --mbr-samples.
    parser.set_defaults(run=_run_evaluate, beam_size=None, length_penalty=None, dtype=None)


def _run_evaluate(options):
    translates = options.source is not None or options.test_set is not None
    for name in _TRANSLATION_OPTIONS:
        if not translates and getattr(options, name):
            option = name.replace("_", "-")
            raise InputError(f"--{option} is for translations; give a --source")
    check_languages(options)
    check_report(options)
    check_place(options, _LOCAL_OPTIONS)
    if options.model_dir is None and not translates:
        raise InputError(
            "an exported model is evaluated by its translations; give a --source. A language model "
            "is evaluated with --model-dir"
        )
    for output in (options.output, options.sentence_scores, options.json):
        if output:
            check_writable(output)
    if options.json is None:
        standard_output()
    from tf_transformer.text.text_file import TextFile
    from training.evaluation.perturbations import parse_perturbations
    from training.evaluation.settings import EvaluationTexts, SearchSettings

    perturbations = parse_perturbations(options.perturb)
    search = DEFAULT_SEARCH | parse_search(options)
    check_reranking(options, needs_weights=not options.tune_weights)
    if options.tune_weights:
        _check_tuning(options)
    xla = parse_xla(options)
    given = parse_test_set(options)
    source, references = given["source"], given["references"]
    if source is None and len(references) > 1:
        raise InputError("several references are for translations; give a --source")
    systems = [TextFile.parse(name, default_column=2) for name in options.compare]
    calibrated = options.calibrate and TextFile.parse(options.calibrate)
    report = parse_comparison(options, parse_tokenizer(options))
    read = [source, *references, *systems, calibrated, report["training_text"]]
    inputs = [file.path for file in read if file]
    _check_outputs(options, [*inputs, *([options.adapter] if options.adapter else [])])
    texts = None
    if source is not None:
        texts = EvaluationTexts(
            **given,
            systems=systems,
            perturbations=perturbations,
            bleu_tokenizer=parse_tokenizer(options),
            target_language=options.target_language,
            source_language=options.source_language,
        )
        texts.check()
    if options.model_dir is None:
        _evaluate_predictor(options, texts, report)
        return
    models, dtype = parse_models(options), options.dtype or "float32"
    check_own_file(models.directories[0] / SCORES_NAME)
    shortlist, calibration, choice = _check_models(options, models, source)
    measures = parse_measures(options) if texts else None
    import_tensorflow(on_cpu=dtype == "int8")
    from training.evaluation.evaluation import evaluate, evaluate_language_model

    if texts is None:
        scores = evaluate_language_model(models, references[0], dtype)
        print(f"perplexity  {scores['perplexity']:6.2f}")
        _store_scores(options, models, scores)
        return
    settings = SearchSettings(
        **search, dtype=dtype, shortlist=shortlist, calibration=calibration, xla=xla
    )
    if options.tune_weights:
        _print_weights(models, choice, texts, settings)
        return
    evaluation, translations = evaluate(
        models, texts, settings, choice=choice, measures=measures, keep=_keep(options)
    )
    print(evaluation)
    _store_scores(options, models, evaluation.as_dict())
    _write_sentences(options, texts, translations, measures)
    _write_report(options, texts, translations, report)


def _keep(options):
    """Returns what writes the translations; their scores are computed later, and may fail."""

    def write(translations):
        if options.output:
            with replacing(options.output) as path:
                path.write_text("".join(f"{line}\n" for line in translations), encoding="utf-8")

    return write


def _write_sentences(options, texts, translations, measures):
    if options.sentence_scores:
        from training.evaluation.sentence_scores import write_sentence_scores

        write_sentence_scores(options.sentence_scores, texts, translations, measures.metrics)


def _write_report(options, texts, translations, given):
    if options.report:
        from training.report.evaluation_report import evaluation_report
        from training.report.html_page import write_page

        place = (options.model_dir or [options.saved_model or options.server])[0]
        write_page(options.report, evaluation_report(texts, str(place), translations, given))
        print(f"Report: {printable(str(options.report))}")


def _evaluate_predictor(options, texts, report):
    """Evaluates a SavedModel or a server; the scores are stored only in `--json`."""
    search, languages = parse_search(options), parse_languages(options)
    if known := parse_exported(options):
        texts = texts.tagged(*known)
    elif tags := parse_tags(options):
        texts = texts.with_tags(tags)
    measures = parse_measures(options)
    import_tensorflow()  # which the modules of the evaluation import, also with a server
    from training.evaluation.evaluation import evaluate_predictor
    from training.evaluation.measures import PERPLEXITY

    with open_exported_model(options) as predictor:
        if PERPLEXITY in (options.metrics or ()):
            find_signature(predictor(), TASKS["score"], needed_by=f"--metrics {PERPLEXITY}")
        evaluation, translations = evaluate_predictor(
            predictor(),
            model_facts(options),
            texts,
            search,
            choice=parse_choice(options, len(languages)),
            languages=languages,
            measures=measures,
            keep=_keep(options),
        )
    print(evaluation)
    if options.json:
        with replacing(options.json) as path:
            write_json(path, evaluation.as_dict())
    _write_sentences(options, texts, translations, measures)
    _write_report(options, texts, translations, report)


def _check_models(options, models, source):
    """Checks the model directories, the languages, and the tags of the source.

    Returns:
        The shortlist, the calibration and how to choose among candidates; each may be None.
    """
    if source is None:
        if models.check()[0] is not None:
            raise InputError(f"{models.directories[0]} holds a translation model; give a --source")
        return None, None, None
    vocabularies = check_translator(models)
    vocabulary = vocabularies[0]
    num_tags = models.config().num_tags
    if find_source_tags(options, vocabulary, num_tags) is None:
        check_tags(source.lines(), vocabulary.languages, str(source), num_tags)
    return (
        parse_shortlist(options, vocabularies),
        parse_calibration(options, vocabulary, num_tags),
        parse_choice(options, num_tags if vocabulary.languages else 0),
    )


def _check_tuning(options):
    """Checks the options that are given with `--tune-weights`."""
    if not options.rerank_reverse and options.rerank_lm is None:
        raise InputError("--tune-weights is valid only with --rerank-reverse or --rerank-lm")
    for name in (
        *("rerank_reverse_weight", "rerank_lm_weight"),
        *("output", "json", "report", "sentence_scores"),
        *("compare", "calibrate", "perturb", "metrics"),
    ):
        if getattr(options, name):
            raise InputError(f"--{name.replace('_', '-')} is not valid with --tune-weights")


def _print_weights(models, choice, texts, settings):
    from training.evaluation.weight_tuning import best_weights, tune_on_texts, weights_table

    results = tune_on_texts(models, choice, texts, settings)
    print(f"BLEU by weight\n{weights_table(results)}")
    best = best_weights(results)
    given = []
    if choice.reverse is not None:
        given.append(f"--rerank-reverse-weight {best.reverse:g}")
    if choice.language_model is not None:
        given.append(f"--rerank-lm-weight {best.language_model:g}")
    print(f"best: {' '.join(given)} (BLEU {best.bleu:.2f}; of the search, {results[0].bleu:.2f})")


def _check_outputs(options, read):
    """Refuses outputs that would replace an input, each other, or a file of the model."""
    written: dict[str, str] = {}
    for name in ("output", "json", "report", "sentence_scores"):
        path = getattr(options, name)
        if path is None:
            continue
        option = f"--{name.replace('_', '-')}"
        others = [
            *(options.rerank_reverse or ()),
            *([options.rerank_lm] if options.rerank_lm else ()),
        ]
        own = options.model_dir or [folder for folder in [options.saved_model] if folder]
        check_output_file(option, path, [*own, *others], read)
        real = os.path.realpath(path)
        if real in written:
            raise InputError(f"{option} {path} is also {written[real]}; give another one")
        written[real] = option


def _store_scores(options, models, scores):
    """Writes and appends the scores; a model directory that is read-only gives a warning.

    Those of an ensemble belong to none of its model directories.
    """
    if options.json:
        with replacing(options.json) as path:
            write_json(path, scores)
    if models.is_ensemble:
        return
    try:
        append_score(models.directories[0], scores)
    except OSError as error:
        print(f"tf-transformer: the scores are not stored: {error}", file=sys.stderr)

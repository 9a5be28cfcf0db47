"""Options that name a test set, and the metrics that it is scored by."""

import argparse
from typing import TYPE_CHECKING, Any

from tf_transformer.command_line.command_options import (
    BLEU_TOKENIZERS,
    MORE_BLEU_TOKENIZERS,
    file_name,
    file_path,
    text,
)
from tf_transformer.errors import InputError
from tf_transformer.text.text_file import TextFile

if TYPE_CHECKING:  # `--help` must not import sacreBLEU
    from training.evaluation.measures import Measures

COMET_OPTIONS = ("comet_model", "comet_python", "comet_gpus")


def add_test_set_options(parser: argparse.ArgumentParser) -> None:
    """Adds `--source`, `--reference`, `--test-set`, `--language-pair` and `--subset`."""
    parser.add_argument("--source", type=file_name, metavar="F", help="sentences to translate")
    parser.add_argument(
        "--reference", type=file_name, nargs="+", action="extend", default=[], metavar="F",
        help="their translations; several files are several references of each sentence",
    )  # fmt: skip
    parser.add_argument(
        "--test-set", type=text, metavar="NAME",
        help="a test set that sacreBLEU downloads and keeps, such as wmt23 or wmt14/full, in place "
        "of --source and --reference; an unknown name lists all",
    )  # fmt: skip
    parser.add_argument(
        "--language-pair", type=text, metavar="L-L",
        help="with --test-set, the languages of source and reference, such as en-de",
    )  # fmt: skip
    parser.add_argument(
        "--subset", type=text, metavar="REGEX",
        help="with --test-set, only the sentences of documents whose domain, or else id, matches",
    )  # fmt: skip


def parse_test_set(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the texts of the options, as arguments of `EvaluationTexts`.

    Without a source, for a language model, there are references only.

    Raises:
        InputError: options are missing or do not go together, a file does not exist, or the test
            set is unknown or cannot be downloaded.
    """
    if options.test_set is None:
        for name in ("language_pair", "subset"):
            if getattr(options, name) is not None:
                raise InputError(f"--{name.replace('_', '-')} is valid only with --test-set")
        if not options.reference:
            raise InputError("give --source and --reference, or --test-set and --language-pair")
        return {
            "source": options.source and TextFile.parse(options.source, default_column=1),
            "references": [TextFile.parse(name, default_column=2) for name in options.reference],
        }
    for name in ("source", "reference"):
        if getattr(options, name):
            raise InputError(f"--{name} is not valid with --test-set, which has its own")
    if options.language_pair is None:
        raise InputError("--test-set needs a --language-pair, such as en-de")
    from training.evaluation.test_sets import open_test_set

    found = open_test_set(options.test_set, options.language_pair, options.subset)
    return {
        "source": found.source,
        "references": found.references,
        "test_set": found.facts,
        "documents": found.documents,
    }


def add_metric_options(parser: argparse.ArgumentParser) -> None:
    """Adds `--metrics`, `--tokenize`, and the options of COMET."""
    parser.add_argument(
        "--metrics", nargs="+", action="extend", metavar="METRIC",
        help="what to report, of bleu, chrf, chrf++, ter, comet, exact, perplexity (default: bleu "
        "chrf exact perplexity)",
    )  # fmt: skip
    parser.add_argument(
        "--tokenize", choices=(*BLEU_TOKENIZERS, *MORE_BLEU_TOKENIZERS),
        help="sacreBLEU's tokenizer for BLEU; zh for Chinese (default: 13a, or with --test-set "
        "what sacreBLEU takes for the language)",
    )  # fmt: skip
    parser.add_argument(
        "--comet-model", type=text, metavar="MODEL",
        help="with --metrics comet, the name or path of a COMET model, which may be one without "
        "references (default: Unbabel/wmt22-comet-da)",
    )  # fmt: skip
    parser.add_argument(
        "--comet-python", type=file_path, metavar="F",
        help="the Python of the environment that has unbabel-comet (default: this one)",
    )  # fmt: skip
    parser.add_argument(
        "--comet-gpus", type=int, metavar="N", help="number of GPUs for COMET (default: 0)"
    )


def parse_tokenizer(options: argparse.Namespace) -> str:
    """Returns the tokenizer for BLEU; with a test set, sacreBLEU's default for the language."""
    if options.tokenize is not None:
        return options.tokenize
    if options.test_set is None:
        return "13a"
    from training.metrics.bleu_tokenizer import tokenizer_of_language

    return tokenizer_of_language(options.language_pair.rpartition("-")[2])


def parse_measures(options: argparse.Namespace) -> "Measures":
    """Makes the metrics of the options, which checks that what they need is installed.

    Raises:
        InputError: a metric is unknown or lacks something, or options do not go together.
    """
    from training.evaluation.measures import DEFAULT_NAMES, check_measures, make_measures

    names = check_measures(options.metrics or DEFAULT_NAMES)
    given = {name: getattr(options, name) for name in COMET_OPTIONS}
    given = {name: value for name, value in given.items() if value is not None}
    if "comet" not in names:
        for name in given:
            raise InputError(f"--{name.replace('_', '-')} is valid only with --metrics comet")
    if options.sentence_scores and set(names) == {"perplexity"}:
        raise InputError("--sentence-scores needs metrics of sentences; name some with --metrics")
    if options.compare and not options.report and not {*names} - {"exact", "perplexity"}:
        raise InputError("--compare needs another metric than exact and perplexity, or --report")
    if options.comet_gpus is not None and options.comet_gpus < 0:
        raise InputError(f"--comet-gpus {options.comet_gpus}: expected 0 or more")
    return make_measures(names, bleu_tokenizer=parse_tokenizer(options), **given)

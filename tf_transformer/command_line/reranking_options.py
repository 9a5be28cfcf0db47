"""Options to choose among candidate translations, which `translate` and `evaluate` share."""

import argparse
import pathlib
from typing import TYPE_CHECKING, Any

from tf_transformer.command_line.command_options import BLEU_TOKENIZERS, folder, text
from tf_transformer.decoding.search_options import DEFAULT_BEAM_SIZE, DEFAULT_LENGTH_PENALTY
from tf_transformer.errors import InputError
from tf_transformer.reranking.settings import (
    DEFAULT_EPSILON,
    DEFAULT_SEED,
    DEFAULT_TEMPERATURE,
    UTILITIES,
)

if TYPE_CHECKING:  # `--help` must not import SentencePiece
    from tf_transformer.reranking.settings import Choice, NoisyChannel

_MAX_SAMPLES = 1000
_MAX_TEMPERATURE = 100.0
_MAX_WEIGHT = 1000.0
# Options that are valid only with another one, and the latter.
_NEEDS = {
    "mbr_samples": "mbr",
    "mbr_tokenize": "mbr",
    "mbr_temperature": "mbr_samples",
    "mbr_top_p": "mbr_samples",
    "mbr_epsilon": "mbr_samples",
    "seed": "mbr_samples",
    "rerank_reverse_weight": "rerank_reverse",
    "rerank_reverse_languages": "rerank_reverse",
    "rerank_lm_weight": "rerank_lm",
}
RERANKING_OPTIONS = ("mbr", "rerank_reverse", "rerank_lm", *_NEEDS)
_MODELS = {"rerank_reverse": "rerank_reverse_weight", "rerank_lm": "rerank_lm_weight"}


def add_reranking(parser: argparse.ArgumentParser) -> None:
    """Adds `--mbr` and `--rerank-reverse`, and the options that belong to them."""
    parser.add_argument(
        "--mbr", nargs="?", const="chrf", choices=UTILITIES, metavar="UTILITY",
        help="minimum Bayes risk: choose the translation that is most similar to all candidates "
        "by sentence chrf (the default) or bleu; the candidates are the hypotheses of a beam of "
        f"--beam-size (default: {DEFAULT_BEAM_SIZE}) with --length-penalty (default: "
        f"{DEFAULT_LENGTH_PENALTY}), also of an exported model",
    )  # fmt: skip
    parser.add_argument(
        "--mbr-samples", type=int, metavar="N",
        help="with --mbr, N samples are the candidates, in place of the hypotheses of the beam",
    )  # fmt: skip
    parser.add_argument(
        "--mbr-epsilon", type=float, metavar="E",
        help="draw samples from the tokens with at least this probability (default: "
        f"{DEFAULT_EPSILON}; 0: from all)",
    )  # fmt: skip
    parser.add_argument(
        "--mbr-top-p", type=float, metavar="P",
        help="draw samples from the most probable tokens with total probability P, in place of "
        "--mbr-epsilon",
    )  # fmt: skip
    parser.add_argument(
        "--mbr-temperature", type=float, metavar="T",
        help=f"divide the logits of samples by T (default: {DEFAULT_TEMPERATURE:g})",
    )  # fmt: skip
    parser.add_argument(
        "--seed", type=int, metavar="N", help=f"seed of --mbr-samples (default: {DEFAULT_SEED})"
    )
    parser.add_argument(
        "--mbr-tokenize", choices=BLEU_TOKENIZERS,
        help="sacreBLEU's tokenizer for --mbr bleu (default: 13a)",
    )  # fmt: skip
    parser.add_argument(
        "--rerank-reverse", type=folder, nargs="+", metavar="DIR",
        help="choose among the hypotheses of the beam, as --mbr has it, with the help of a model "
        "that translates in the other direction; several are an ensemble",
    )  # fmt: skip
    parser.add_argument(
        "--rerank-reverse-weight", type=float, metavar="W",
        help="weight of its log-probability of the source given the translation",
    )  # fmt: skip
    parser.add_argument(
        "--rerank-reverse-languages", type=text, nargs="+", metavar="L",
        help="if it is multilingual, the language of the sentences, then that of the translations "
        "if the model needs both",
    )  # fmt: skip
    parser.add_argument(
        "--rerank-lm", type=folder, metavar="DIR",
        help="the same with a language model of the target language",
    )  # fmt: skip
    parser.add_argument(
        "--rerank-lm-weight", type=float, metavar="W",
        help="weight of its log-probability of the translation",
    )  # fmt: skip


def is_reranking(options: argparse.Namespace) -> bool:
    """Returns whether the translations are chosen among candidates."""
    return bool(_criteria(options))


def _criteria(options: argparse.Namespace) -> list[str]:
    """Returns the options that say by what candidates are chosen."""
    return [name for name in ("mbr", *_MODELS) if _is_given(options, name)]


def check_reranking(options: argparse.Namespace, needs_weights: bool = True) -> None:
    """Checks the options without reading a file.

    Args:
        options: the parsed command line; search options that are not given are None.
        needs_weights: whether `--rerank-reverse` and `--rerank-lm` need their weights.

    Raises:
        InputError: an option is out of range, or not valid together with the others.
    """
    for name, needed in _NEEDS.items():
        if _is_given(options, name) and not _is_given(options, needed):
            raise InputError(f"{_option(name)} is valid only with {_option(needed)}")
    if _is_given(options, "mbr_tokenize") and options.mbr != "bleu":
        raise InputError("--mbr-tokenize is valid only with --mbr bleu")
    if options.mbr_epsilon and _is_given(options, "mbr_top_p"):
        raise InputError("--mbr-epsilon and --mbr-top-p draw in different ways; give one of them")
    _check_ranges(options)
    given = _criteria(options)
    if "mbr" in given and len(given) > 1:
        raise InputError(
            f"--mbr and {_option(given[1])} choose by different criteria; give one of them"
        )
    for name, weight in _MODELS.items():
        if _is_given(options, name) and needs_weights and not _is_given(options, weight):
            raise InputError(
                f"{_option(name)} needs {_option(weight)}; `evaluate --tune-weights` finds a value "
                "on a validation set"
            )
    beam_size = DEFAULT_BEAM_SIZE if options.beam_size is None else options.beam_size
    if given and options.mbr_samples is None and beam_size < 2:
        raise InputError(
            f"{_option(given[0])} chooses among the hypotheses of the beam; expected a --beam-size "
            f"of at least 2. Received: {beam_size}"
        )
    for name in ("beam_size", "length_penalty", "shortlist", "xla"):
        if options.mbr_samples is not None and getattr(options, name) not in (None, "auto", "off"):
            raise InputError(f"{_option(name)} is for beam search; leave it out with --mbr-samples")


def _check_ranges(options):
    for name, least, largest in (
        ("mbr_samples", 2, _MAX_SAMPLES),
        ("mbr_epsilon", 0, 0.999),
        ("mbr_top_p", 0.001, 1),
        ("mbr_temperature", 0.001, _MAX_TEMPERATURE),
        ("seed", 0, 2**63 - 1),
        ("rerank_reverse_weight", 0, _MAX_WEIGHT),
        ("rerank_lm_weight", 0, _MAX_WEIGHT),
    ):
        value = getattr(options, name)
        if value is not None and not least <= value <= largest:
            raise InputError(f"{_option(name)} {value:g}: expected {least:g} to {largest:g}")


def parse_choice(options: argparse.Namespace, num_tags: int) -> "Choice | None":
    """Returns how to choose among candidates, after checks of the models without TensorFlow.

    Call `check_reranking` before.

    Args:
        options: the parsed command line.
        num_tags: number of tags that a source has.

    Returns:
        How to choose; None for the translations of the search.

    Raises:
        InputError: a model directory is not valid, or it needs other languages.
    """
    if options.mbr is None:
        return _parse_channel(options, num_tags)
    from tf_transformer.reranking.settings import MinimumBayesRisk

    epsilon = options.mbr_epsilon
    if epsilon is None and options.mbr_top_p is not None:
        epsilon = 0.0
    given: dict[str, Any] = {
        "tokenizer": options.mbr_tokenize,
        "num_samples": options.mbr_samples,
        "temperature": options.mbr_temperature,
        "top_p": options.mbr_top_p,
        "epsilon": epsilon,
        "seed": options.seed,
    }
    given = {name: value for name, value in given.items() if value is not None}
    if epsilon == 0:
        given["epsilon"] = None
    return MinimumBayesRisk(utility=options.mbr, **given)


def _parse_channel(options, num_source_tags) -> "NoisyChannel | None":
    if not options.rerank_reverse and options.rerank_lm is None:
        return None
    from tf_transformer.reranking.settings import NoisyChannel
    from tf_transformer.storage.trained_models import TrainedModels

    reverse, tags = None, ""
    if options.rerank_reverse:
        reverse = TrainedModels(tuple(options.rerank_reverse))
        tags = _reverse_tags(reverse, options.rerank_reverse_languages or ())
    if options.rerank_lm is not None:
        _check_language_model(options.rerank_lm)
    return NoisyChannel(
        reverse=reverse,
        reverse_weight=options.rerank_reverse_weight or 0.0,
        reverse_tags=tags,
        language_model=options.rerank_lm,
        language_model_weight=options.rerank_lm_weight or 0.0,
        num_source_tags=num_source_tags,
    )


def _reverse_tags(reverse, languages) -> str:
    """Returns the tags of the reverse model's sources, each with a space."""
    from tf_transformer.command_line.command_options import check_translator
    from tf_transformer.text.language_tags import find_tags

    vocabulary, _ = check_translator(reverse)
    number = reverse.config().num_tags if vocabulary.languages else 0
    if len(languages) != number:
        needed = (
            "no languages",
            "the language of the sentences",
            "the languages of the sentences and of the translations",
        )[number]
        raise InputError(
            f"--rerank-reverse-languages: the model {reverse.directories[0]} needs {needed}. "
            f"Received: {' '.join(languages) or 'none'}"
        )
    if not number:
        return ""
    try:
        return find_tags(languages[0], [*languages, None][1], vocabulary.languages, number)
    except InputError as error:
        raise InputError(f"--rerank-reverse-languages: {error}") from error


def _check_language_model(directory: pathlib.Path) -> None:
    from tf_transformer.storage.trained_models import TrainedModels

    if TrainedModels((directory,)).check()[0] is not None:
        raise InputError(f"--rerank-lm {directory}: expected a language model")


def _is_given(options, name) -> bool:
    return getattr(options, name) is not None


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"

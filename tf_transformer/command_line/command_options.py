"""Options that the commands of `training` and `export` share."""

import argparse
import os
import pathlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tf_transformer.decoding.compiled.compilation_rule import XLA_CHOICES
from tf_transformer.decoding.search_options import (
    DEFAULT_BEAM_SIZE,
    DEFAULT_LENGTH_PENALTY,
    LARGEST_LENGTH_PENALTY,
    MAX_BEAM_SIZE,
)
from tf_transformer.errors import InputError
from tf_transformer.printable import printable
from tf_transformer.text.language_tags import find_tags, language_tag

if TYPE_CHECKING:  # `--help` must not import SentencePiece
    from tf_transformer.shortlists.table import ShortlistTable
    from tf_transformer.storage.trained_models import TrainedModels
    from tf_transformer.text.vocabulary import Vocabulary


# sacreBLEU's; the others need its extras, or a model that it downloads.
BLEU_TOKENIZERS = ("13a", "intl", "zh", "char", "none")
MORE_BLEU_TOKENIZERS = ("ja-mecab", "ko-mecab", "flores101", "flores200", "spBLEU-1K")


def text(value: str) -> str:
    """Converts the value of a text option: replaces invalid UTF-8 by U+FFFD, as in files.

    Do not use it for file names: Python represents their bytes, which need not be UTF-8, by
    surrogates.
    """
    return os.fsencode(value).decode("utf-8", "replace")


def folder(value: str) -> pathlib.Path:
    """Converts the value of an option that names a folder.

    Raises:
        argparse.ArgumentTypeError: it is empty, as from an unset variable of the shell.
    """
    if not value:
        raise argparse.ArgumentTypeError("expected the name of a folder, got ''; '.' is this one")
    return pathlib.Path(value)


def _model_dir(value: str) -> pathlib.Path:
    """Converts the value of an option that names a model directory, and no model of the Hub."""
    if value.startswith("hf:"):
        raise argparse.ArgumentTypeError(
            f"expected a folder, got {printable(value, 100)}; `tf-transformer import --input "
            f"{printable(value, 100)} --model-dir DIR` makes one"
        )
    return folder(value)


def file_name(value: str) -> str:
    """Checks the value of an option that names a file, such as `F.tsv:2`.

    Raises:
        argparse.ArgumentTypeError: it is empty, which `pathlib` takes for the current folder.
    """
    if not value:
        raise argparse.ArgumentTypeError("expected the name of a file, got ''")
    return value


def file_path(value: str) -> pathlib.Path:
    """Converts the value of an option that names a file, or a file or a folder.

    Raises:
        argparse.ArgumentTypeError: see `file_name`.
    """
    return pathlib.Path(file_name(value))


def add_model_dir(parser: argparse.ArgumentParser, description: str) -> None:
    """Adds `--model-dir`.

    Args:
        parser: parser of the command.
        description: help text of the option.
    """
    parser.add_argument("--model-dir", type=folder, required=True, metavar="DIR", help=description)


def add_model_dirs(
    parser: argparse.ArgumentParser, group: "argparse._MutuallyExclusiveGroup | None" = None
) -> None:
    """Adds `--model-dir` for one or several models, `--ensemble-weights` and `--adapter`.

    Args:
        parser: parser of the command.
        group: the group of alternatives that `--model-dir` belongs to; None makes it required.
    """
    (group or parser).add_argument(
        "--model-dir", type=_model_dir, nargs="+", metavar="DIR", required=group is None,
        help="the trained model; several translate together, as an ensemble",
    )  # fmt: skip
    parser.add_argument(
        "--ensemble-weights", type=float, nargs="+", metavar="W",
        help="the weight of each model of an ensemble (default: all are equal)",
    )  # fmt: skip
    add_adapter(parser)


def add_adapter(parser: argparse.ArgumentParser) -> None:
    """Adds `--adapter`."""
    parser.add_argument(
        "--adapter", type=file_path, metavar="F",
        help="an adapter.h5 that `train --lora` has written for this model",
    )  # fmt: skip


def parse_models(options: argparse.Namespace) -> "TrainedModels":
    """Returns the models of `--model-dir`.

    Raises:
        InputError: `--ensemble-weights` has another number of weights, or one is not positive.
    """
    from tf_transformer.storage.trained_models import TrainedModels

    weights = options.ensemble_weights and tuple(options.ensemble_weights)
    models = TrainedModels(tuple(options.model_dir), weights, options.adapter)
    try:
        models.member_weights()
    except InputError as error:
        raise InputError(f"--ensemble-weights: {error}") from error
    return models


def add_search_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of beam search."""
    parser.add_argument(
        "--beam-size", type=int, default=DEFAULT_BEAM_SIZE, metavar="N",
        help="number of hypotheses per sentence; 1 is greedy search "
        f"(default: {DEFAULT_BEAM_SIZE}, or that of an exported model)",
    )  # fmt: skip
    parser.add_argument(
        "--length-penalty", type=float, default=DEFAULT_LENGTH_PENALTY, metavar="A",
        help=f"alpha of the GNMT length penalty (default: {DEFAULT_LENGTH_PENALTY}, or that of an "
        "exported model)",
    )  # fmt: skip


def parse_search(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the search options that were given, by name.

    Args:
        options: the parsed command line.

    Raises:
        InputError: an option is out of range.
    """
    beam_size, alpha = options.beam_size, options.length_penalty
    if beam_size is not None and not 1 <= beam_size <= MAX_BEAM_SIZE:
        raise InputError(f"--beam-size {beam_size}: expected 1 to {MAX_BEAM_SIZE}")
    if alpha is not None and not 0 <= alpha <= LARGEST_LENGTH_PENALTY:
        raise InputError(f"--length-penalty {alpha:g}: expected 0 to {LARGEST_LENGTH_PENALTY:g}")
    given = {"beam_size": beam_size, "length_penalty": alpha}
    return {name: value for name, value in given.items() if value is not None}


def search_shape(value: str) -> tuple[int, int]:
    """Parses the shape of a compiled search, such as `1x32`."""
    match = re.fullmatch("([0-9]{1,6})x([0-9]{1,6})", value)
    if not match:
        raise argparse.ArgumentTypeError(
            f"{printable(value, 100)}: expected ROWSxLENGTH, 1 to 6 digits each, such as 1x32"
        )
    return int(match[1]), int(match[2])


def check_translator(
    models: "TrainedModels", end_pieces: Sequence[str] = ()
) -> "tuple[Vocabulary, Vocabulary]":
    """Checks the directories of a translation model or an ensemble, without TensorFlow.

    Args:
        models: the model, or the models of an ensemble.
        end_pieces: pieces that the target vocabulary must have.

    Returns:
        The vocabularies of source and target.

    Raises:
        InputError: a file is missing or damaged, the models do not fit together, the model is a
            language model, or the vocabulary lacks one of the `end_pieces`.
    """
    source, target = models.check()
    if source is None:
        raise InputError(
            f"{models.directories[0]}: a LanguageModel has no source to translate. Use it to "
            "complete text"
        )
    target.end_ids(end_pieces)
    return source, target


def add_end_pieces(parser: argparse.ArgumentParser) -> None:
    """Adds `--end-piece`."""
    parser.add_argument(
        "--end-piece", type=text, action="append", default=[], metavar="P",
        help="a piece of the vocabulary that ends an output as the end token does; repeatable",
    )  # fmt: skip


def add_dtype(parser: argparse.ArgumentParser) -> None:
    """Adds `--dtype`."""
    parser.add_argument(
        "--dtype", default="float32", choices=("float32", "bfloat16", "int8"),
        help="bfloat16: half the memory for layers, faster on processors that support it; int8: "
        "8-bit products with a quarter of the memory, even faster (default: float32)",
    )  # fmt: skip


def add_shortlist(parser: argparse.ArgumentParser) -> None:
    """Adds `--shortlist`."""
    parser.add_argument(
        "--shortlist", type=file_path, metavar="F",
        help="consider only the target pieces that this file of `train-shortlist` has for the "
        "source, which is faster (default: consider all)",
    )  # fmt: skip


def parse_shortlist(
    options: argparse.Namespace, vocabularies: "tuple[Vocabulary, Vocabulary]"
) -> "ShortlistTable | None":
    """Reads the file of `--shortlist`, if the option is given.

    Args:
        options: the parsed command line.
        vocabularies: those of source and target, see `check_translator`.

    Raises:
        InputError: the file is damaged, or belongs to another model.
    """
    if options.shortlist is None:
        return None
    from tf_transformer.shortlists.table import read_shortlist

    return read_shortlist(options.shortlist, *vocabularies)


def add_xla(parser: argparse.ArgumentParser) -> None:
    """Adds `--xla`."""
    parser.add_argument(
        "--xla", choices=XLA_CHOICES,
        help="compile the search with XLA, with the same results: on: at once, which takes "
        "seconds; auto: in runs that are long enough to save them (default: auto)",
    )  # fmt: skip


def parse_xla(options: argparse.Namespace) -> str:
    """Returns the value of `--xla`.

    Raises:
        InputError: it is `on`, and the dtype is one that XLA cannot compile.
    """
    if options.xla == "on" and options.dtype == "int8":
        raise InputError("--xla on: XLA cannot compile a model in int8; leave out --dtype int8")
    return options.xla or "auto"


def add_languages(parser: argparse.ArgumentParser) -> None:
    """Adds `--target-language` and `--source-language`."""
    parser.add_argument(
        "--target-language", type=text, metavar="L",
        help="target language of a multilingual model; adds its tag, such as <2de>, to every "
        "sentence",
    )  # fmt: skip
    parser.add_argument(
        "--source-language", type=text, metavar="L",
        help="language of the sentences, for a model that needs its tag, too, such as NLLB",
    )  # fmt: skip


def check_languages(options: argparse.Namespace) -> None:
    """Checks what `--target-language` and `--source-language` mean without a model.

    Raises:
        InputError: a language's name is not valid, or the source's is given alone.
    """
    for language in (options.target_language, options.source_language):
        if language is not None:
            language_tag(language)
    if options.source_language is not None and options.target_language is None:
        raise InputError("--source-language is valid only with --target-language")


def find_source_tags(
    options: argparse.Namespace, source: "Vocabulary", num_tags: int
) -> str | None:
    """Returns the tags that the options name, for `find_tags`; None if they name none."""
    if options.target_language is None:
        return None
    return find_tags(options.target_language, options.source_language, source.languages, num_tags)

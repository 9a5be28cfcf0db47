"""Options that commands of both packages share."""

import argparse
import os
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tf_transformer.decoding.search_options import (
    DEFAULT_BEAM_SIZE,
    DEFAULT_LENGTH_PENALTY,
    LARGEST_LENGTH_PENALTY,
    MAX_BEAM_SIZE,
)
from tf_transformer.errors import InputError

if TYPE_CHECKING:  # `--help` does not wait for SentencePiece
    from tf_transformer.text.vocabulary import Vocabulary


def text(value: str) -> str:
    """The type of an option that takes text: what is not UTF-8 becomes U+FFFD, as in files.

    Names of files stay the bytes that they are, which Python keeps as surrogates.
    """
    return os.fsencode(value).decode("utf-8", "replace")


def add_model_dir(parser: argparse.ArgumentParser, description: str) -> None:
    """Adds `--model-dir`."""
    parser.add_argument(
        "--model-dir", type=pathlib.Path, required=True, metavar="DIR", help=description
    )


def add_search_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of beam search."""
    parser.add_argument(
        "--beam-size", type=int, default=DEFAULT_BEAM_SIZE, metavar="N",
        help="hypotheses kept for each sentence; 1 is greedy search "
        f"(default: {DEFAULT_BEAM_SIZE})",
    )  # fmt: skip
    parser.add_argument(
        "--length-penalty", type=float, default=DEFAULT_LENGTH_PENALTY, metavar="A",
        help=f"alpha of the GNMT length penalty (default: {DEFAULT_LENGTH_PENALTY})",
    )  # fmt: skip


def given_search(options: argparse.Namespace) -> dict[str, Any]:
    """Returns those options of the search that are given, by name.

    Raises:
        ValueError: one is out of range.
    """
    beam_size, alpha = options.beam_size, options.length_penalty
    if beam_size is not None and not 1 <= beam_size <= MAX_BEAM_SIZE:
        raise InputError(f"--beam-size {beam_size}: expected 1 to {MAX_BEAM_SIZE}")
    if alpha is not None and not 0 <= alpha <= LARGEST_LENGTH_PENALTY:
        raise InputError(f"--length-penalty {alpha:g}: expected 0 to {LARGEST_LENGTH_PENALTY:g}")
    given = {"beam_size": beam_size, "length_penalty": alpha}
    return {name: value for name, value in given.items() if value is not None}


def check_translator(
    model_dir: pathlib.Path, end_pieces: Sequence[str] = ()
) -> "tuple[Vocabulary, Vocabulary]":
    """Looks at a model that translates before TensorFlow is imported.

    Returns:
        The vocabularies of source and target.

    Raises:
        ValueError: it is not whole, has no source, or lacks one of the `end_pieces`.
    """
    from tf_transformer.storage.model_dir import check_model_dir

    source, target = check_model_dir(model_dir)
    if source is None:
        raise InputError(
            f"{model_dir}: a LanguageModel has no source to translate; complete text with it"
        )
    target.end_ids(end_pieces)
    return source, target


def add_end_pieces(parser: argparse.ArgumentParser) -> None:
    """Adds `--end-piece`, for the commands that write what a search finds."""
    parser.add_argument(
        "--end-piece", type=text, action="append", default=[], metavar="P",
        help="a piece of the vocabulary that ends an output like its end token; repeatable",
    )  # fmt: skip


def add_dtype(parser: argparse.ArgumentParser) -> None:
    """Adds `--dtype`."""
    parser.add_argument(
        "--dtype", default="float32", choices=("float32", "bfloat16", "int8"),
        help="bfloat16: layers in half the memory, faster where the processor has it; int8: "
        "products in 8 bits, a quarter of their memory, faster still (default: float32)",
    )  # fmt: skip


def add_target_language(parser: argparse.ArgumentParser) -> None:
    """Adds `--target-language`."""
    parser.add_argument(
        "--target-language", type=text, metavar="L",
        help="of a model of several: puts its tag, such as <2de>, before every sentence",
    )  # fmt: skip

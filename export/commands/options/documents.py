"""Options of commands that split text into sentences."""

import argparse

from tf_transformer.command_line.command_options import text
from tf_transformer.documents.abbreviations import LANGUAGES
from tf_transformer.errors import InputError
from tf_transformer.printable import shown

_WITHOUT_ABBREVIATIONS = ("zh", "ja")


def add_document_languages(parser: argparse.ArgumentParser, where: str) -> None:
    """Adds the option for the languages whose abbreviations end no sentence."""
    parser.add_argument(
        "--document-languages", type=text, nargs="+", metavar="CODE",
        help=f"{where}, the languages of the text, such as en, whose abbreviations, dates and "
        "ordinal numbers end no sentence (default: all that are known, which is less exact)",
    )  # fmt: skip


def parse_document_languages(options: argparse.Namespace) -> tuple[str, ...]:
    """Returns the languages of the text, sorted if they are given.

    Raises:
        InputError: one is no code of a known language.
    """
    if options.document_languages is None:
        return LANGUAGES
    known = (*LANGUAGES, *_WITHOUT_ABBREVIATIONS)
    for code in options.document_languages:
        if code not in known:
            raise InputError(
                f"--document-languages {shown(code)}: no abbreviations are known; expected some of "
                f"{', '.join(known)}"
            )
    return tuple(sorted(set(options.document_languages)))

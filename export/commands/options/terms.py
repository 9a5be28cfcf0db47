"""`translate --terms` and `--protect`: lines translated with terms and protected spans."""

import argparse
import contextlib
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from export.commands.options.signature_rows import Call, connect_to_signature
from export.lines.line_translations import Translate
from tf_transformer.command_line.command_options import file_path
from tf_transformer.command_line.reranking_options import RERANKING_OPTIONS
from tf_transformer.errors import InputError
from tf_transformer.terms.limits import SPAN_BITS

# Options for several translations of a line, or for other searches.
_EXCLUDED = ("n_best", "runner", "saved_model", *RERANKING_OPTIONS)
# The outputs of the signature `terms` that are used, with their data types.
_OUTPUTS = {
    "translation": "DT_STRING",
    "score": "DT_FLOAT",
    "truncated": "DT_BOOL",
    "terms_unmet": "DT_STRING",
    "terms_ignored": "DT_INT32",
}


class Terms(NamedTuple):
    """The checked options.

    Attributes:
        glossary: a `Glossary`, empty without `--terms`.
        protect: the input `protect`.
        of_documents: whether lines are documents, of which sentences may be translated in sentence
            case.
        keep_capitals: whether no sentence is.
    """

    glossary: Any
    protect: int
    of_documents: bool = False
    keep_capitals: bool = False

    def facts(self) -> dict[str, Any]:
        """Returns what translations depend on, for `check_resumption`."""
        return {"terms": self.glossary.digest(), "protect": self.protect or None}

    def inputs(self, lines: list[bytes]) -> dict[str, list]:
        """Returns the inputs of the signature for lines, without search options."""
        inputs = {
            "text": lines,
            "terms": [self.glossary.entries_for(line, self.of_documents) for line in lines],
            "protect": [self.protect] * len(lines),
        }
        if self.of_documents:
            inputs["keep_capitals"] = [self.keep_capitals] * len(lines)
        return inputs


def add_term_options(parser: argparse.ArgumentParser) -> None:
    """Adds `--terms` and `--protect`."""
    parser.add_argument(
        "--terms", type=file_path, metavar="F",
        help="lines `source phrase<TAB>target phrase`; the translation of a line in which the "
        "first occurs contains the second. With --server, it must serve the signature `terms`, or "
        "`document_terms` with --split-sentences",
    )  # fmt: skip
    parser.add_argument(
        "--protect", nargs="+", choices=tuple(SPAN_BITS), metavar="KIND",
        help=f"copy these unchanged: {', '.join(SPAN_BITS)}",
    )  # fmt: skip


def given_terms(options: argparse.Namespace) -> "TermLines | None":
    """Returns the terms and protected spans, or None if none are given.

    Raises:
        InputError: the file of terms is not valid, or another option does not go with them.
    """
    if options.terms is None and not options.protect:
        return None
    name = "--protect" if options.terms is None else "--terms"
    for other in _EXCLUDED:
        if getattr(options, other):
            raise InputError(f"--{other.replace('_', '-')} is not valid with {name}")
    if options.xla == "on":
        raise InputError(f"--xla on is not valid with {name}, whose search cannot be compiled")
    from tf_transformer.terms.glossary import Glossary, protection

    glossary = Glossary(()) if options.terms is None else Glossary.read(options.terms)
    protect = protection(options.protect or ())
    return TermLines(Terms(glossary, protect, bool(options.split_sentences), options.keep_capitals))


class TermLines:
    """Translates lines with terms, and counts those that lack some.

    Args:
        terms: the terms.

    Attributes:
        num_incomplete: number of translations that lack a term or a protected span.
    """

    def __init__(self, terms: Terms):
        self.terms = terms
        self.num_incomplete = 0

    def translating(self, call: Call) -> Translate:
        """Returns what translates lines by a signature with terms, or what computes the same."""

        def translate(lines, numbers):
            for batch in call(self.terms.inputs(lines), numbers):
                columns = (batch[name] for name in _OUTPUTS)
                for text, score, truncated, unmet, num_ignored in zip(*columns, strict=True):
                    self.num_incomplete += bool(unmet) or num_ignored > 0
                    yield [(text, score, truncated)]

        return translate


def report_incomplete(number: int) -> None:
    """Prints how many translations lack terms, if any do."""
    if number:
        print(
            f"tf-transformer: translations that lack terms or protected spans: {number}",
            file=sys.stderr,
        )


@contextlib.contextmanager
def connect_with_terms(
    options: argparse.Namespace, lines: TermLines
) -> Iterator[tuple[Translate, int]]:
    """Connects to the server of `translate --server`, as `connect`, for a signature with terms.

    Args:
        options: the parsed command line.
        lines: the terms.

    Yields:
        What translates lines, and the number of lines to translate at once.

    Raises:
        InputError: see `connect_to_signature`.
    """
    name, given = "terms", "--terms and --protect"
    if options.split_sentences:
        name, given = "document_terms", f"{given} with --split-sentences"
    needed = f"{given} need; export it with --signatures serving_default translate_options {name}"
    with connect_to_signature(options, name, _OUTPUTS, needed) as (call, batch_size):
        yield lines.translating(call), batch_size

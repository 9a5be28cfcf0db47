"""`translate --terms` and `--protect`, for lines translated with terms and protected spans."""

import argparse
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from export.lines.line_tasks import LineTask
from export.lines.line_translations import NBest
from tf_transformer.command_line.command_options import file_path
from tf_transformer.command_line.reranking_options import RERANKING_OPTIONS
from tf_transformer.errors import InputError
from tf_transformer.terms.limits import SPAN_BITS

_OUTPUTS = ("translation", "score", "truncated", "terms_unmet", "terms_ignored")
# Options for several translations of a line, or for other searches.
_EXCLUDED = ("n_best", "runner", *RERANKING_OPTIONS)


def add_term_options(parser: argparse.ArgumentParser) -> None:
    """Adds `--terms` and `--protect`."""
    parser.add_argument(
        "--terms", type=file_path, metavar="F",
        help="lines `source phrase<TAB>target phrase`; the translation of a line in which the "
        "first occurs contains the second. A --saved-model or --server needs the signature "
        "`terms`, or `document_terms` with --split-sentences",
    )  # fmt: skip
    parser.add_argument(
        "--protect", nargs="+", choices=tuple(SPAN_BITS), metavar="KIND",
        help=f"copy these unchanged: {', '.join(SPAN_BITS)}",
    )  # fmt: skip


def parse_terms(options: argparse.Namespace) -> "TermLines | None":
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
    return TermLines(glossary, protect, bool(options.split_sentences), options.keep_capitals)


class TermLines:
    """Lines with terms, and the number of their translations that lack some.

    Args:
        glossary: a `Glossary`, empty without `--terms`.
        protect: the input `protect`.
        of_documents: whether lines are documents, of which sentences may be translated in sentence
            case.
        keep_capitals: whether no sentence is.

    Attributes:
        glossary: see above.
        protect: see above.
        num_incomplete: number of translations that lack a term or a protected span.
    """

    def __init__(self, glossary: Any, protect: int, of_documents: bool, keep_capitals: bool):
        self.glossary, self.protect = glossary, protect
        self.num_incomplete = 0
        self._of_documents, self._keep_capitals = of_documents, keep_capitals

    def facts(self) -> dict[str, Any]:
        """Returns what translations depend on, for `check_resumption`."""
        return {"terms": self.glossary.digest(), "protect": self.protect or None}

    def line_task(self) -> LineTask:
        """Returns the task that translates the lines."""
        if not self._of_documents:
            needed_by = "--terms or --protect"
            return LineTask("terms", self._inputs, self._results, _OUTPUTS, needed_by=needed_by)
        return LineTask(
            "document_terms",
            self._inputs,
            self._results,
            _OUTPUTS,
            {"keep_capitals": self._keep_capitals},
            "--split-sentences with --terms or --protect",
        )

    def _inputs(self, lines: list[bytes]) -> dict[str, list]:
        return {
            "text": lines,
            "terms": [self.glossary.entries_for(line, self._of_documents) for line in lines],
            "protect": [self.protect] * len(lines),
        }

    def _results(self, outputs: Mapping[str, list]) -> Iterator[NBest]:
        columns = (outputs[name] for name in _OUTPUTS)
        for text, score, truncated, unmet, num_ignored in zip(*columns, strict=True):
            self.num_incomplete += bool(unmet) or num_ignored > 0
            yield [(text, score, truncated)]


def report_incomplete(number: int) -> None:
    """Prints how many translations lack terms, if any do."""
    if number:
        print(
            f"tf-transformer: translations that lack terms or protected spans: {number}",
            file=sys.stderr,
        )

"""Word alignments of a parallel text, written line by line, and compared with a reference."""

import dataclasses
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from export.lines.line_results import ProcessLines, write_results
from tf_transformer.predictors.answers import answer, find_signature
from tf_transformer.predictors.predictor import Predictor
from tf_transformer.tasks.table import TASKS
from tf_transformer.text.language_tags import check_tag
from tf_transformer.text.text_file import TextFile
from tf_transformer.word_alignment.error_rate import ErrorRate
from tf_transformer.word_alignment.pharaoh import (
    Links,
    check_range,
    format_links,
    parse_links,
    parse_reference,
)
from tf_transformer.word_alignment.symmetrization import symmetrize

_NEEDED_BY = "`align`"


class AlignmentModel(NamedTuple):
    """What aligns one direction: a model directory, a SavedModel or a server.

    Attributes:
        load: loads its predictor.
        facts: what identifies it, as JSON values.
        languages: the languages whose tags its sources need, as far as they are known here.
        num_tags: number of tags of a source.
    """

    load: Callable[[], Predictor]
    facts: Mapping[str, Any]
    languages: Sequence[str] = ()
    num_tags: int = 1


@dataclasses.dataclass(frozen=True)
class TextAlignment:
    """What is aligned, and how.

    Args:
        model: the model.
        source: the source text.
        target: its translations.
        reverse: the model from the target to the source; None aligns with one direction alone.
        symmetrization: how to combine both directions, see `symmetrize`.
        dtype: what model directories are loaded in, see `load_for_decoding`; None without any.
    """

    model: AlignmentModel
    source: TextFile
    target: TextFile
    reverse: AlignmentModel | None = None
    symmetrization: str = "grow-diag-final-and"
    dtype: str | None = "float32"

    def request(self, text_digest: str) -> dict[str, Any]:
        """Returns what the result depends on, as JSON values."""
        request = {**self.model.facts, "text_digest_blake2b": text_digest, "dtype": self.dtype}
        if self.reverse:
            request |= {f"reverse_{name}": value for name, value in self.reverse.facts.items()}
            request["symmetrization"] = self.symmetrization
        return request


def write_alignments(alignment: TextAlignment, output: pathlib.Path, text_digest: str) -> None:
    """Writes the alignments of a text in Pharaoh's format, or resumes an interrupted call.

    A line is empty where a side is blank, or the pair cannot be aligned, see `WordLinks`.

    Args:
        alignment: what to align.
        output: the file to write.
        text_digest: digest of both sides.

    Raises:
        InputError: the output was begun with another request, a line is invalid, or a model has no
            task `word_links`.
        OSError: a file cannot be read or written, or a server does not answer.
    """
    request = alignment.request(text_digest)
    write_results(alignment.source, output, lambda: _load(alignment), request, "aligning")


def _load(alignment: TextAlignment) -> ProcessLines:
    model, reverse = alignment.model, alignment.reverse
    forward, back = model.load(), reverse and reverse.load()
    for predictor in filter(None, (forward, back)):  # before either aligns anything
        find_signature(predictor, TASKS["word_links"], needed_by=_NEEDED_BY)
    target_lines = enumerate(alignment.target.lines(), 1)

    def align(lines: list[str], numbers: list[int]) -> Sequence[str]:
        targets = list(_lines_at(target_lines, numbers))
        _check_tags(model, lines, alignment.source, numbers)
        if reverse:
            _check_tags(reverse, targets, alignment.target, numbers)
        found = list(_link_words(forward, lines, targets, numbers))
        if back is None:
            return [format_links(links or ()) for links in found]
        return [
            format_links(
                symmetrize(links, {(j, i) for i, j in other}, alignment.symmetrization)
                if links is not None and other is not None
                else ()
            )
            for links, other in zip(found, _link_words(back, targets, lines, numbers), strict=True)
        ]

    return align


def _check_tags(model, lines, text, numbers):
    if model.languages:
        for line, number in zip(lines, numbers, strict=True):
            check_tag(line, model.languages, f"{text}:{number}", model.num_tags)


def _link_words(predictor, sources, targets, numbers) -> Iterator[Links | None]:
    """Yields the links of each pair; None if it cannot be aligned."""
    inputs = {"source": sources, "target": targets}
    rows = zip(sources, targets, numbers, strict=True)
    for batch in answer(predictor, "word_links", inputs, row_numbers=numbers, needed_by=_NEEDED_BY):
        for line, is_aligned in zip(batch["links"], batch["aligned"], strict=True):
            source, target, number = next(rows)
            where = f"line {number} of the answers of the {predictor.description}"
            links = parse_links(line, where)
            check_range(links, (len(source.split()), len(target.split())), where)
            yield links if is_aligned else None


def _lines_at(lines: Iterator[tuple[int, str]], numbers: list[int]) -> Iterator[str]:
    """Yields the lines with these numbers, in ascending order, of numbered lines."""
    for wanted in numbers:
        yield next(line for number, line in lines if number == wanted)


def num_unaligned(alignment: TextAlignment, output: pathlib.Path) -> int:
    """Returns the number of pairs without a link, of those that are blank on no side."""
    files = (alignment.source, alignment.target, TextFile(output))
    return sum(
        bool(source.strip() and target.strip() and not links)
        for source, target, links in zip(*(file.lines() for file in files), strict=True)
    )


def error_rate(alignments: TextFile, reference: TextFile) -> ErrorRate:
    """Compares the alignments of a text with a reference.

    Raises:
        InputError: a line is not one of links.
    """
    rate = ErrorRate()
    lines = zip(alignments.lines(), reference.lines(), strict=True)
    for number, (links, expected) in enumerate(lines, 1):
        rate.add(
            parse_links(links, f"{alignments.path}:{number}"),
            parse_reference(expected, f"{reference.path}:{number}"),
        )
    return rate

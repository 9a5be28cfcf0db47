"""Word alignments of a parallel text, written line by line, and compared with a reference."""

import dataclasses
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from export.lines.line_results import ProcessLines, write_results
from tf_transformer.inference.word_aligner import WordAligner
from tf_transformer.storage.trained_models import TrainedModels
from tf_transformer.text.language_tags import check_tags
from tf_transformer.text.text_file import TextFile
from tf_transformer.word_alignment.error_rate import ErrorRate
from tf_transformer.word_alignment.pharaoh import format_links, parse_links, parse_reference
from tf_transformer.word_alignment.symmetrization import symmetrize


@dataclasses.dataclass(frozen=True)
class TextAlignment:
    """What is aligned, and how.

    Args:
        models: the model, or the models of an ensemble.
        source: the source text.
        target: its translations.
        reverse: the model, or the models of an ensemble, from the target to the source; None aligns
            with one direction alone.
        symmetrization: how to combine both directions, see `symmetrize`.
        dtype: see `load_for_decoding`.
    """

    models: TrainedModels
    source: TextFile
    target: TextFile
    reverse: TrainedModels | None = None
    symmetrization: str = "grow-diag-final-and"
    dtype: str = "float32"

    def request(self, text_digest: str) -> dict[str, Any]:
        """Returns what the result depends on, as JSON values."""
        request = {
            "weights_digest_blake2b": self.models.digest(),
            "text_digest_blake2b": text_digest,
            "dtype": self.dtype,
        }
        if self.reverse:
            request["reverse_weights_digest_blake2b"] = self.reverse.digest()
            request["symmetrization"] = self.symmetrization
        return request


def write_alignments(alignment: TextAlignment, output: pathlib.Path, text_digest: str) -> None:
    """Writes the alignments of a text in Pharaoh's format, or resumes an interrupted call.

    A line is empty where a side is blank, or the pair cannot be aligned, see `WordAligner.align`.

    Args:
        alignment: what to align.
        output: the file to write.
        text_digest: digest of both sides.

    Raises:
        InputError: the output was begun with another request, or a line is invalid.
        OSError: a file cannot be read or written.
    """
    request = alignment.request(text_digest)
    write_results(alignment.source, output, lambda: _load(alignment), request, "aligning")


def _load(alignment: TextAlignment) -> ProcessLines:
    forward, languages = _aligner(alignment.models, alignment.dtype)
    reverse = alignment.reverse and _aligner(alignment.reverse, alignment.dtype)
    target_lines = enumerate(alignment.target.lines(), 1)

    def align(lines: list[str], numbers: list[int]) -> Sequence[str]:
        targets = list(_lines_at(target_lines, numbers))
        for (names, num_tags), sources, name in (
            (languages, lines, "the source"),
            *([(reverse[1], targets, "the target")] if reverse else []),
        ):
            check_tags(sources, names, name, num_tags)
        found = forward.align(lines, targets)
        if not reverse:
            return [format_links(links or ()) for links in found]
        back = reverse[0].align(targets, lines)
        return [
            format_links(
                symmetrize(links, {(j, i) for i, j in other}, alignment.symmetrization)
                if links is not None and other is not None
                else ()
            )
            for links, other in zip(found, back, strict=True)
        ]

    return align


def _aligner(models: TrainedModels, dtype: str):
    """Returns the aligner, and the languages and the number of tags of its sources."""
    model, source, target = models.load(dtype)
    aligner = WordAligner(model, source, target)
    return aligner, (source.languages if source else [], 1 + model.config.num_target_tags)


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

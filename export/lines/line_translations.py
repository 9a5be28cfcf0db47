"""Writes the translations of lines, batch by batch, and shows the progress."""

from collections.abc import Callable, Iterable, Iterator

from export.lines.line_batches import Lines
from export.lines.line_output import write_line
from export.lines.line_progress import progress_bar
from export.lines.resumption import BatchOutput
from tf_transformer.text.lines import join_lines

# The translations of one line, best first: text, score, and whether the source was truncated.
NBest = Iterable[tuple[str, float, bool]]
# Maps lines, and their numbers for messages, to their translations.
Translate = Callable[[list[bytes], list[int]], Iterable[NBest]]


def write_translations(
    lines: Lines,
    batches: Iterator[list[bytes]],
    translate: Translate,
    output: BatchOutput,
    n_best: int | None = None,
    description: str | None = None,
    num_incomplete: Callable[[], int] = lambda: 0,
) -> None:
    """Writes the translations of each batch that has none yet.

    Args:
        lines: the input.
        batches: its batches.
        translate: translates lines that are not blank.
        output: the output.
        n_best: number of translations of a blank line, with the number of the line and the score
            before each translation; None writes one translation per line, and only its text.
        description: what is being done, for the progress bar.
        num_incomplete: returns how many translations so far lack a term or a protected span.
    """
    batches = output.remaining(batches)
    with progress_bar(lines, output.num_lines, description) as update:
        for batch in batches:
            number = lines.first + output.num_lines
            num_truncated, before = 0, num_incomplete()
            for translations in _translate_batch(batch, number, translate, n_best or 1):
                number += 1
                for rank, (translation, score, truncated) in enumerate(translations):
                    num_truncated += truncated and rank == 0
                    line = join_lines(translation)
                    if n_best:
                        line = f"{number}\t{score:.4f}\t{line}"
                    write_line(output.file, line)
            output.finish(batch, num_truncated, num_incomplete() - before)
            update(len(batch))


def _translate_batch(
    batch: list[bytes], num_before: int, translate: Translate, num_best: int
) -> Iterator[NBest]:
    """Yields the translations of each line; blank lines are not passed to `translate`.

    Args:
        batch: the lines.
        num_before: number of lines before this batch.
        translate: translates lines that are not blank.
        num_best: number of translations per line.
    """
    numbers = [number for number, line in enumerate(batch, num_before + 1) if line.strip()]
    texts = [batch[number - num_before - 1] for number in numbers]
    translations = iter(translate(texts, numbers) if texts else ())
    for line in batch:
        yield next(translations) if line.strip() else [("", 0.0, False)] * num_best

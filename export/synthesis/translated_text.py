"""A text translated line by line into a file, so that an interrupted run can be resumed."""

import itertools
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from export.lines.line_batches import open_lines
from export.lines.line_output import check_output
from export.lines.line_progress import progress_bar
from export.lines.resumption import open_batch_output
from tf_transformer.text.lines import join_lines
from tf_transformer.text.text_file import TextFile

# Lines that are translated and recorded together; sorted by length, they fill many batches.
_BATCH_SIZE = 1024

# From lines that are not blank, and their numbers counted from 1, to a translation of each.
Translate = Callable[[list[str], list[int]], Sequence[str]]


def write_translations(
    text: TextFile,
    output: pathlib.Path,
    load: Callable[[], Translate],
    request: dict[str, Any],
    description: str,
) -> None:
    """Translates a text into a file with as many lines, unless the file is complete already.

    A blank line remains blank. The file appears under its name when it is complete.

    Args:
        text: the text.
        output: the file to write.
        load: loads the model, and returns what translates lines.
        request: what the translation of a line depends on, as JSON values.
        description: what is being done, for the progress bar.

    Raises:
        InputError: the output was begun with another request, or a line is invalid.
        OSError: a file cannot be read or written.
    """
    if output.exists():
        return
    with open_lines(str(text)) as lines:
        check_output(output, lines)
        with open_batch_output(output, request) as written:
            batches = written.remaining(lines.batches(lambda line, where: line, _BATCH_SIZE))
            first = next(batches, None)
            if first is None:
                return
            translate = load()
            with progress_bar(lines, written.num_lines, description) as update:
                for batch in itertools.chain([first], batches):
                    for line in _translated(batch, written.num_lines, translate):
                        # A sample of single bytes can contain a NUL, which no text may.
                        text_line = join_lines(line).replace("\0", "")
                        written.file.write(f"{text_line}\n".encode())
                    written.finish(batch, 0)
                    update(len(batch))


def _translated(batch: list[bytes], num_before: int, translate: Translate) -> list[str]:
    numbers = [number for number, line in enumerate(batch, num_before + 1) if line.strip()]
    texts = [batch[number - num_before - 1].decode() for number in numbers]
    translations = iter(translate(texts, numbers) if texts else ())
    return [next(translations) if line.strip() else "" for line in batch]

"""A text translated line by line into a file, so that an interrupted run can be resumed."""

import itertools
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from export.lines.line_batches import open_lines
from export.lines.line_output import check_output
from export.lines.line_translations import write_translations
from export.lines.resumption import open_batch_output
from tf_transformer.text.text_file import TextFile

# Lines that are translated and recorded together; sorted by length, they fill many batches.
_BATCH_SIZE = 1024

# From lines that are not blank, and their numbers counted from 1, to a translation of each.
Translate = Callable[[list[str], list[int]], Sequence[str]]


def write_translated_text(
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
            batches = lines.batches(lambda line, where: line, _BATCH_SIZE)
            first = next(batches, None)
            if first is None:
                return
            translate = load()

            def translate_bytes(batch, numbers):
                for line in translate([line.decode() for line in batch], numbers):
                    # A sample of single bytes can contain a NUL, which no text may.
                    yield [(line.replace("\0", ""), 0.0, False)]

            all_batches = itertools.chain([first], batches)
            write_translations(
                lines, all_batches, translate_bytes, written, description=description
            )

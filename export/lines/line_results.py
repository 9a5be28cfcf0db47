"""A file of results, one for each line of a text, written so that a run can be resumed."""

import itertools
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from export.lines.line_batches import open_lines
from export.lines.line_output import check_output
from export.lines.line_translations import write_translations
from export.lines.resumption import open_batch_output
from tf_transformer.text.text_file import TextFile

# Lines that are processed and recorded together; sorted by length, they fill many batches.
_BATCH_SIZE = 1024

# From lines that are not blank, and their numbers counted from 1, to a result of each.
ProcessLines = Callable[[list[str], list[int]], Sequence[str]]


def write_results(
    text: TextFile,
    output: pathlib.Path,
    load: Callable[[], ProcessLines],
    request: dict[str, Any],
    description: str,
) -> None:
    """Writes a file with a result for each line of a text, or resumes an interrupted call.

    The result of a blank line is empty. The file appears under its name when it is complete.

    Args:
        text: the text.
        output: the file to write.
        load: loads the model, and returns what computes the results of lines.
        request: what the result of a line depends on, as JSON values.
        description: what is being done, for the progress bar.

    Raises:
        InputError: the output was begun with another request, or a line is invalid.
        OSError: a file cannot be read or written.
    """
    with open_lines(str(text)) as lines:
        check_output(output, lines)
        with open_batch_output(output, request) as written:
            batches = lines.batches(lambda line, where: line, _BATCH_SIZE)
            first = next(batches, None)
            if first is None:
                return
            process = load()

            def process_bytes(batch, numbers):
                for result in process([line.decode() for line in batch], numbers):
                    # A sample of single bytes can contain a NUL, which no text may.
                    yield [(result.replace("\0", ""), 0.0, False)]

            all_batches = itertools.chain([first], batches)
            write_translations(lines, all_batches, process_bytes, written, description=description)

"""The progress bar of a run over lines."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from export.lines.line_batches import Lines
from tf_transformer.command_line import progress


@contextlib.contextmanager
def progress_bar(
    lines: Lines, num_done: int, description: str | None = None
) -> Iterator[Callable[[int], None]]:
    """Shows sentences per second and, for a file, the time left.

    Where standard error is no terminal, they are written as a line once a minute, and at the
    beginning, too, if there is a description.

    Args:
        lines: the input.
        num_done: number of sentences of a former run.
        description: what is being done.

    Yields:
        A function that reports how many sentences have been done since.
    """
    status = None if lines.end is not None else lines.status()
    in_bytes = status is not None
    settings: dict[str, Any] = {"unit": " sentences", "initial": num_done}
    if status is not None:
        # Without a former run, what may have been read is not done.
        initial = lines.position() if num_done else 0
        settings = {"unit": "B", "unit_scale": True, "initial": initial}
        settings["total"] = status.st_size
    elif lines.end is not None:
        settings["total"] = lines.end - lines.first
    if description:
        settings["delay"] = 0
    with progress.progress_bar(desc=description, **settings) as bar:
        start, num_new = time.monotonic(), 0

        def update(num_sentences):
            nonlocal num_new
            num_new += num_sentences
            if in_bytes:
                rate = num_new / (time.monotonic() - start)
                bar.set_postfix_str(f"{rate:,.0f} sentences/s", refresh=False)
            bar.update(lines.position() - bar.n if in_bytes else num_sentences)

        yield update

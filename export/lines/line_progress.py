"""The progress bar of a run over lines."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from export.lines.line_batches import Lines


@contextlib.contextmanager
def progress_bar(
    lines: Lines, num_done: int, description: str | None = None
) -> Iterator[Callable[[int], None]]:
    """Shows sentences per second and, for a file, the time left.

    Args:
        lines: the input.
        num_done: number of sentences of a former run.
        description: what is being done; None shows nothing.

    Yields:
        A function that reports how many sentences have been done since.
    """
    import tqdm

    status = None if lines.end is not None else lines.status()
    in_bytes = status is not None
    settings: dict[str, Any] = {"unit": " sentences", "initial": num_done}
    if status is not None:
        settings = {"unit": "B", "unit_scale": True, "initial": lines.position()}
        settings["total"] = status.st_size
    elif lines.end is not None:
        settings["total"] = lines.end - lines.first
    with tqdm.tqdm(desc=description, disable=None, **settings) as progress:
        start, num_new = time.monotonic(), 0

        def update(num_sentences):
            nonlocal num_new
            num_new += num_sentences
            if in_bytes:
                rate = num_new / (time.monotonic() - start)
                progress.set_postfix_str(f"{rate:,.0f} sentences/s", refresh=False)
            progress.update(lines.position() - progress.n if in_bytes else num_sentences)

        yield update

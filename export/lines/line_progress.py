"""The progress bar of a run over lines."""

import contextlib
import io
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from export.lines.line_batches import Lines

_LOG_SECONDS = 60


class _LogLines(io.TextIOBase):
    """Writes each state of a progress bar as a line of standard error."""

    def write(self, text: str) -> int:
        if text.strip():
            print(text.strip(), file=sys.stderr)
        return len(text)

    def flush(self) -> None:
        sys.stderr.flush()


@contextlib.contextmanager
def progress_bar(
    lines: Lines, num_done: int, description: str | None = None
) -> Iterator[Callable[[int], None]]:
    """Shows sentences per second and, for a file, the time left.

    Where standard error is no terminal, it is written as a line now and then, if there is a
    description.

    Args:
        lines: the input.
        num_done: number of sentences of a former run.
        description: what is being done.

    Yields:
        A function that reports how many sentences have been done since.
    """
    import tqdm

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
    if description and not sys.stderr.isatty():
        settings |= {"file": _LogLines(), "mininterval": _LOG_SECONDS, "ncols": 100}
    else:
        settings["disable"] = None
    with tqdm.tqdm(desc=description, **settings) as progress:
        start, num_new = time.monotonic(), 0

        def update(num_sentences):
            nonlocal num_new
            num_new += num_sentences
            if in_bytes:
                rate = num_new / (time.monotonic() - start)
                progress.set_postfix_str(f"{rate:,.0f} sentences/s", refresh=False)
            progress.update(lines.position() - progress.n if in_bytes else num_sentences)

        yield update

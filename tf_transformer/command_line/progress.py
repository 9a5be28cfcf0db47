"""Progress bars that are drawn on a terminal, and written as lines now and then to a log."""

import io
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tqdm

_LOG_SECONDS = 60


class _LogLines(io.TextIOBase):
    """Writes each state of a progress bar as a line of standard error."""

    def write(self, text: str) -> int:
        if text.strip():
            print(text.strip(), file=sys.stderr)
        return len(text)

    def flush(self) -> None:
        sys.stderr.flush()


def progress_bar(**settings: Any) -> "tqdm.tqdm":
    """Returns a progress bar on standard error.

    Where that is no terminal, its state becomes a line once a minute.

    Args:
        **settings: see `tqdm.tqdm`.
    """
    import tqdm

    if not sys.stderr.isatty():
        often = {"mininterval": _LOG_SECONDS, "maxinterval": _LOG_SECONDS}
        settings = {"delay": _LOG_SECONDS} | settings | often | {"file": _LogLines(), "ncols": 100}
    return tqdm.tqdm(**settings)

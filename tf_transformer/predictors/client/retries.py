"""Sending a request again while the server is unavailable, or other callers fail its batches."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from tf_transformer.predictors.client.failures import BatchMateError

# Seconds before the first retry, and the maximum before any. Pauses double each time and are
# shortened at random by up to a half.
_FIRST_PAUSE, _MAX_PAUSE = 0.2, 5.0
# If the request of another caller was at fault, the server is well, and the next batch is as likely
# to succeed as a later one.
_FIRST_MATE_PAUSE, _MAX_MATE_PAUSE = 0.02, 0.1


def call_again(
    attempt: Callable[[float], Any],
    end: float,
    abandoned: threading.Event,
    max_retries: int,
    report: Callable[[ConnectionError], None],
) -> Any:
    """Calls a function until it succeeds, fails for another reason, or the time is over.

    Args:
        attempt: the function, called with the seconds left. After a `ConnectionError` it is called
            again up to `max_retries` times, after a `BatchMateError` any number of times.
        end: the time of `time.monotonic` at which to stop.
        abandoned: an event after which the result is not needed.
        max_retries: see `attempt`.
        report: called with each `ConnectionError` before a pause.

    Returns:
        The result of `attempt`.

    Raises:
        ConnectionError: the last one of `attempt`, with the number of attempts in its message.
        BatchMateError: the last one of `attempt`, if the time is over.
        Exception: any other one of `attempt`.
    """
    mate_error: BatchMateError | None = None
    pauses = _pauses(_FIRST_PAUSE, _MAX_PAUSE)
    mate_pauses = _pauses(_FIRST_MATE_PAUSE, _MAX_MATE_PAUSE)
    num_attempts = num_retries = 0
    while True:
        num_attempts += 1
        try:
            return attempt(max(end - time.monotonic(), 0.001))
        except ConnectionError as error:
            num_retries += 1
            if num_retries <= max_retries:
                report(error)
            if num_retries > max_retries or not _sleep(next(pauses), end, abandoned):
                raise type(error)(f"{error}; attempts: {num_attempts}") from error
        except BatchMateError as error:
            mate_error = error
            if not _sleep(next(mate_pauses), end, abandoned):
                raise
        except TimeoutError as error:
            if mate_error is None:
                raise
            raise mate_error from error  # there was little time left for this attempt


def _pauses(first: float, longest: float) -> Iterator[float]:
    while True:
        yield random.uniform(first / 2, first)
        first = min(2 * first, longest)


def _sleep(seconds: float, end: float, abandoned: threading.Event) -> bool:
    """Waits, and returns whether there is still time and need for another attempt."""
    return time.monotonic() + seconds < end and not abandoned.wait(seconds)

"""Calls in daemon threads."""

import concurrent.futures
import threading
from collections.abc import Callable
from typing import Any


def start_in_thread(function: Callable, *arguments: Any) -> concurrent.futures.Future:
    """Calls a function in a daemon thread.

    The threads of an executor would keep the process alive until every pending request has ended.

    Args:
        function: the function.
        *arguments: its arguments.

    Returns:
        The future of its result, which cannot be cancelled.
    """
    future: concurrent.futures.Future = concurrent.futures.Future()
    future.set_running_or_notify_cancel()

    def run():
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future

"""Work in parallel processes: bounded in memory, in order, with a progress bar."""

import collections
import concurrent.futures
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import tqdm

from tf_transformer.errors import InputError


class Processes:
    """Processes that run functions; a context manager, which ends them.

    Args:
        number: of processes.
        start: what each of them does first, if anything.
        arguments: of `start`.
    """

    def __init__(self, number: int, start: Callable | None = None, arguments: tuple = ()):
        self._number = number
        # Spawned, not forked: the parent may have threads, and memory that they do not need.
        self._executor = concurrent.futures.ProcessPoolExecutor(
            number, multiprocessing.get_context("spawn"), _start, (start, arguments)
        )

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *error) -> None:
        self._executor.shutdown(cancel_futures=True)

    def run(self, tasks: Iterable[tuple], progress: tqdm.tqdm) -> Iterator[Any]:
        """Runs tasks, which are read as they are needed, and yields their results in order.

        Args:
            tasks: functions with their arguments, and at last how much work each of them is.
            progress: moves on by that much whenever one is done.

        Raises:
            ValueError: a task raised one, or a process was killed.
        """
        running: collections.deque[tuple[concurrent.futures.Future, int]] = collections.deque()
        try:
            for function, *arguments, size in tasks:
                running.append((self._executor.submit(function, *arguments), size))
                if len(running) > self._number + 1:
                    yield _result(*running.popleft(), progress)
            while running:
                yield _result(*running.popleft(), progress)
        except BrokenProcessPool as error:
            raise InputError(
                "a process was killed, perhaps for want of memory; the same command goes on, and "
                "fewer --processes need less"
            ) from error


def _start(start: Callable | None, arguments: tuple) -> None:
    """Leaves Ctrl-C to the parent, and dies with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    if start:
        start(*arguments)


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


def _result(future: concurrent.futures.Future, size: int, progress: tqdm.tqdm) -> Any:
    try:
        result = future.result()
    except ValueError as error:
        raise InputError(str(error)) from error  # here, not in the executor's code
    progress.update(size)
    return result


def progress_bar(label: str, total: int, unit: str, done: int = 0) -> tqdm.tqdm:
    """A bar on standard error, where that is a terminal; it goes when the work is done."""
    return tqdm.tqdm(
        desc=label, total=total, initial=done, unit=f" {unit}", leave=False, disable=None
    )

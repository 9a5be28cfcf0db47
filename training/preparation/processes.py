"""Running tasks in parallel processes, with bounded memory and a progress bar."""

import collections
import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.process import BaseProcess
from typing import Any

import tqdm

from tf_transformer.command_line.progress import progress_bar
from tf_transformer.errors import InputError


class ProcessPool:
    """A pool of processes, and a context manager that ends them.

    Args:
        num_processes: number of processes.
        initializer: function that each process calls first, if any.
        arguments: arguments of `initializer`.
    """

    def __init__(
        self, num_processes: int, initializer: Callable | None = None, arguments: tuple = ()
    ):
        self._num_processes = num_processes
        # Spawned, not forked: forking a parent with threads is unsafe and would copy its memory.
        self._executor = concurrent.futures.ProcessPoolExecutor(
            num_processes,
            multiprocessing.get_context("spawn"),
            _initialize,
            (initializer, arguments),
        )

    def __enter__(self) -> "ProcessPool":
        return self

    def __exit__(self, *error) -> None:
        self._executor.shutdown(cancel_futures=True)

    def run(self, tasks: Iterable[tuple], progress: tqdm.tqdm) -> Iterator[Any]:
        """Runs tasks and yields their results in order.

        Args:
            tasks: tuples of a function, its arguments, and the size of the task; the iterable is
                consumed as processes become free.
            progress: progress bar to advance by the size of each finished task.

        Raises:
            InputError: a task raised a `ValueError`, or a process was killed.
        """
        running: collections.deque[tuple[concurrent.futures.Future, int]] = collections.deque()
        try:
            for function, *arguments, size in tasks:
                with _sigint_blocked():  # the first call starts the processes
                    running.append((self._executor.submit(function, *arguments), size))
                if len(running) > self._num_processes + 1:
                    yield _result(*running.popleft(), progress)
            while running:
                yield _result(*running.popleft(), progress)
        except BrokenProcessPool as error:
            raise InputError(
                "a process was killed, perhaps because memory ran out; run the same command again "
                "to resume, with fewer --processes to use less memory"
            ) from error


@contextlib.contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Blocks SIGINT, also in processes that are started meanwhile, and for as long as they live.

    Ctrl-C reaches the whole process group. Before they ignore it, the processes import modules, and
    would print a traceback each.
    """
    former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def _initialize(initializer: Callable | None, arguments: tuple) -> None:
    """Makes a process ignore Ctrl-C, which the parent handles, and end with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        if not parent.is_alive():  # it was killed during this process' imports
            os._exit(1)
        threading.Thread(target=_exit_with, args=(parent,), daemon=True).start()
    if initializer:
        initializer(*arguments)


def _exit_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


def _result(future: concurrent.futures.Future, size: int, progress: tqdm.tqdm) -> Any:
    try:
        result = future.result()
    except ValueError as error:
        raise InputError(str(error)) from error
    progress.update(size)
    return result


def phase_bar(label: str, total: int, unit: str, done: int = 0) -> tqdm.tqdm:
    """Returns the progress bar of a phase, see `progress_bar`; it is cleared at the end."""
    return progress_bar(desc=label, total=total, initial=done, unit=f" {unit}", leave=False)

"""Translates with one engine; started by `measurement.py`, possibly with another Python.

    python -m benchmarks.engines.worker ENGINE FOLDER BEAM_SIZE THREADS

A request is `{"sentences": [...]}`, its answer `{"translations": [...], "seconds": ..., "memory":
peak in bytes}`. The process may use as many processors as it has threads.
"""

import os
import pathlib
import sys
import time
from collections.abc import Callable

from benchmarks.engines.translators import ENGINES
from benchmarks.worker_process import answer_requests


def load() -> Callable[[dict], dict]:
    """Loads the engine, and returns the function that answers a request."""
    name, folder, beam_size, threads = sys.argv[1:]
    # Before the engine creates its threads, which inherit it.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(threads)])
    engine = ENGINES[name](pathlib.Path(folder), int(beam_size), int(threads))

    def answer(request):
        start = time.perf_counter()
        translations = engine.translate(request["sentences"])
        seconds = time.perf_counter() - start
        return {"translations": translations, "seconds": seconds, "memory": peak_memory()}

    return answer


def peak_memory() -> int:
    """Returns the largest resident memory of this process in bytes.

    That of `getrusage` is at least that of the process that started this one.
    """
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "VmHWM":
            return int(value.split()[0]) * 1024
    raise RuntimeError("no VmHWM in /proc/self/status")


if __name__ == "__main__":
    answer_requests(load)

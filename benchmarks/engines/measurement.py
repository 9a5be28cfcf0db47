"""Measures the engines, each in a process of its own, in turns."""

import pathlib
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import tqdm

from benchmarks.engines.variants import VARIANTS, environment
from benchmarks.worker_process import WorkerProcess


class Case(NamedTuple):
    """A model that has been written for an engine.

    Attributes:
        model: name of the model.
        variant: key of `VARIANTS`.
        beam_size: width of the beam.
        folder: what `Variant.write` has written.
    """

    model: str
    variant: str
    beam_size: int
    folder: pathlib.Path

    def __str__(self) -> str:
        return f"{self.model}, {self.variant}, beam {self.beam_size}"


class Turn(NamedTuple):
    """What one process of an engine took.

    Attributes:
        cold_start: seconds from the start of the process to its first translation, of one sentence.
        all_seconds: seconds for all sentences in one request.
        single_seconds: seconds for each of the first sentences in a request of its own.
        memory: largest resident memory in bytes.
        translations: the translations of all sentences.
    """

    cold_start: float
    all_seconds: float
    single_seconds: list[float]
    memory: int
    translations: list[str]


def take_turn(case: Case, sentences: Sequence[str], num_single: int, threads: int) -> Turn:
    """Measures one process; each request but the first is sent once before it is measured.

    Args:
        case: the model and the engine.
        sentences: the sentences to translate.
        num_single: number of sentences that are also translated one by one.
        threads: number of threads and of processors.

    Raises:
        RuntimeError: the process failed.
    """
    variant = VARIANTS[case.variant]
    words = [variant.python, "-m", "benchmarks.engines.worker", variant.engine]
    words += [str(case.folder), str(case.beam_size), str(threads)]
    start = time.perf_counter()
    worker = WorkerProcess(str(case), words, environment(threads))
    try:
        worker.ask({"sentences": sentences[:1]})
        cold_start = time.perf_counter() - start
        for _ in range(2):
            whole = worker.ask({"sentences": sentences})
        if len(whole["translations"]) != len(sentences):
            raise RuntimeError(
                f"{case}: {len(whole['translations'])} translations of {len(sentences)} sentences"
            )
        for _ in range(2):
            single = [worker.ask({"sentences": [text]}) for text in sentences[:num_single]]
    finally:
        worker.close()
    return Turn(
        cold_start,
        whole["seconds"],
        [answer["seconds"] for answer in single],
        max(answer["memory"] for answer in [whole, *single]),
        whole["translations"],
    )


def measure(
    cases: Iterable[Case], sentences: Sequence[str], num_single: int, threads: int, rounds: int
) -> tuple[dict[Case, list[Turn]], dict[Case, str]]:
    """Measures all cases in turns; only one process exists at a time.

    Args:
        cases: the models and engines.
        sentences: the sentences to translate.
        num_single: number of sentences that are also translated one by one.
        threads: number of threads of each process.
        rounds: number of turns of each case.

    Returns:
        The turns of each case; and of those that failed, which get no further turn, the message.
    """
    turns: dict[Case, list[Turn]] = {case: [] for case in cases}
    failures: dict[Case, str] = {}
    steps = [case for _ in range(rounds) for case in turns]
    for case in tqdm.tqdm(steps, unit=" turns", disable=None):
        if case in failures:
            continue
        try:
            turns[case].append(take_turn(case, sentences, num_single, threads))
        except RuntimeError as error:
            failures[case] = str(error)
            tqdm.tqdm.write(f"FAILED: {error}")
    return {case: found for case, found in turns.items() if case not in failures}, failures

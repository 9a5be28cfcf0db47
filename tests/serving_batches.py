"""Merges requests as TF Serving does with `--enable_batching`, see its batching_session.cc."""

import dataclasses
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

# The rows of a request, or their outputs, by the name of an input or output.
Columns = dict[str, list]


class Refused(Exception):
    """A status other than success: its name in gRPC, and the message."""


@dataclasses.dataclass(eq=False)
class _Batch:
    """Requests that are computed together, and what comes of them."""

    requests: list[Columns] = dataclasses.field(default_factory=list)
    num_rows: int = 0
    full: threading.Event = dataclasses.field(default_factory=threading.Event)
    done: threading.Event = dataclasses.field(default_factory=threading.Event)
    outputs: Columns = dataclasses.field(default_factory=dict)
    failure: Exception | None = None


class Batches:
    """The open batch of each signature.

    Args:
        seconds: how long a batch waits for more requests.
        compute: returns the outputs of a signature for the rows of a batch.
        mates: requests of other callers, each of which is merged with the next batch that has room
            for it; None leaves a batch alone.
    """

    def __init__(
        self,
        seconds: float,
        compute: Callable[[str, Columns], Columns],
        mates: Iterator[Columns | None],
    ):
        self._seconds, self._compute, self._mates = seconds, compute, mates
        self._open: dict[str, _Batch] = {}
        self._lock = threading.Lock()

    def run(self, signature: str, inputs: Columns, max_rows: int) -> Columns:
        """Returns the outputs of a request, or raises what its batch fails with."""
        num_rows = _count(inputs)
        with self._lock:
            batch = self._open.get(signature)
            if batch is None or batch.num_rows + num_rows > max_rows:
                if batch is not None:
                    batch.full.set()
                batch = self._open[signature] = _Batch()
            start, is_first = batch.num_rows, not batch.requests
            batch.requests.append(inputs)
            batch.num_rows += num_rows
            if batch.num_rows == max_rows:
                batch.full.set()
        if is_first:
            batch.full.wait(self._seconds)
            self._process(signature, batch, max_rows)
        assert batch.done.wait(60)
        if batch.failure is not None:
            raise type(batch.failure)(*batch.failure.args)
        return {name: rows[start : start + num_rows] for name, rows in batch.outputs.items()}

    def _process(self, signature, batch, max_rows):
        with self._lock:
            if self._open.get(signature) is batch:
                del self._open[signature]
            mate = next(self._mates, None) if batch.num_rows < max_rows else None
        try:
            batch.outputs = self._compute(
                signature, merge([*batch.requests, *filter(None, [mate])])
            )
        except Exception as error:
            batch.failure = error
        finally:
            batch.done.set()


def merge(requests: list[Columns]) -> Columns:
    """Returns the rows of several requests together, or refuses them as TF Serving does."""
    for name, request in itertools.product(requests[0], requests[1:]):
        one, other = ([values[name]] for values in (requests[0], request))
        if np.shape(one)[2:] != np.shape(other)[2:]:
            raise Refused(
                "FAILED_PRECONDITION",
                f"Tensors with name '{name}' from different tasks have different shapes and "
                "padding is turned off. Set pad_variable_length_inputs to true, or ensure that all "
                "tensors with the same name have equal dimensions starting with the first dim.",
            )
    for name, request in itertools.product(requests[0], requests[1:]):
        types = [type(_first_value(values[name])).__name__ for values in (requests[0], request)]
        if types[0] != types[1]:
            raise Refused(
                "INTERNAL",
                "Tensor concat operation failed: INVALID_ARGUMENT: Cannot concatenate tensors that "
                f"have different data types. Got {types[0]} and {types[1]}.",
            )
    return {name: [row for request in requests for row in request[name]] for name in requests[0]}


def _count(inputs: Columns) -> int:
    return len(next(iter(inputs.values())))


def _first_value(rows: Any) -> Any:
    return _first_value(rows[0]) if isinstance(rows, list) else rows

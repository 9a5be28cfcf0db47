"""Requests that TF Serving failed: the exception for a status and a message."""

import re

from tf_transformer.errors import InputError
from tf_transformer.printable import printable

# Codes that a model returns for invalid rows; TF Serving returns them to every request in the
# merged batch. The two messages below are sent before requests are merged.
_MERGED_CODES = {"INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE", "INTERNAL", "UNKNOWN"}
_TOO_MANY_ROWS = r"larger than maximum input batch size (\d{1,9})"
_NO_SIGNATURE = r"Serving signature (key|name)"
# TF Serving's batching_session.cc, about tensors of several requests that do not go together.
_MISMATCH = (
    "from different tasks have different shapes|Tensor concat operation failed|"
    "Cannot concatenate tensors"
)
# gRPC's words for more calls at once than `--grpc_max_threads`, and TF Serving's, sent as
# UNAVAILABLE, for more batches than `max_enqueued_batches`.
_NO_THREAD = "Server Threadpool Exhausted"
_QUEUE_FULL = "The batch scheduling queue to which this task was submitted is full"
_PORTS = "(TF Serving's default ports are 8501 for REST and 8500 for gRPC)"


class MergedBatchError(Exception):
    """A request failed, possibly because of another one that the server merged with it.

    Args:
        reason: the `InputError` or `OSError` to raise if this request itself is the cause.
    """

    def __init__(self, reason: Exception):
        super().__init__(str(reason))
        self.reason = reason


class BatchMateError(Exception):
    """A request failed because of another one that the server merged with it.

    Only the merging can cause it: the tensors of the two differ in type or shape.
    """


class OverloadError(ConnectionError):
    """The server refuses a request because it has too many."""


class TooManyRowsError(InputError):
    """A request has more rows than the server merges into a batch.

    Args:
        description: the model's name in error messages.
        limit: the number of rows that the server accepts, as it says.
    """

    def __init__(self, description: str, limit: int):
        super().__init__(
            f"the {description} accepts at most {limit} rows per request: lower "
            f"`max_batch_size` (--max-batch-size) to {limit}"
        )
        self.limit = limit


def failure(description: str, code: str, message: str) -> Exception:
    """Returns the exception for a failed request.

    Args:
        description: the model's name in error messages.
        code: name of a gRPC status code, or another name for a status that has none.
        message: the server's message.

    Returns:
        A `MergedBatchError`, `BatchMateError`, `OverloadError`, `ConnectionError`, `TimeoutError`,
        `InputError` or `OSError`.
    """
    shown = printable(message)
    if code == "RESOURCE_EXHAUSTED" or _QUEUE_FULL in message:
        return OverloadError(f"the {description} {_describe_overload(message)}: {shown}")
    if code == "UNAVAILABLE":
        return ConnectionError(f"the {description} is not available: {shown} {_PORTS}")
    if code == "DEADLINE_EXCEEDED":
        return TimeoutError(shown)
    if code == "NOT_FOUND":
        return InputError(f"the server does not have the {description}: {shown}")
    if limit := re.search(_TOO_MANY_ROWS, message):
        return TooManyRowsError(description, int(limit[1]))
    if code in _MERGED_CODES and re.search(_MISMATCH, message):
        return BatchMateError(shown)
    if code in ("INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE"):
        reason: Exception = InputError(f"the {description} refuses the request: {shown}")
    else:
        reason = OSError(f"the {description} failed: {shown} ({code})")
    if code not in _MERGED_CODES or re.search(_NO_SIGNATURE, message):
        return reason
    return MergedBatchError(reason)


def _describe_overload(message):
    if _NO_THREAD in message:
        return (
            "refuses calls because all threads of its gRPC port are busy; start TF Serving with "
            "--grpc_max_threads=64 (its default is 4 per processor), or send fewer requests at once"
        )
    return "has more requests than it can answer"

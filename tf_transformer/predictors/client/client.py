"""A client for a model in TF Serving, over REST or gRPC; needs no TensorFlow."""

import collections
import concurrent.futures
import functools
import ipaddress
import itertools
import logging
import math
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import tqdm
import urllib3

from tf_transformer.errors import InputError
from tf_transformer.predictors.client.daemon_threads import start_in_thread
from tf_transformer.predictors.client.failures import (
    BatchMateError,
    MergedBatchError,
    OverloadError,
    TooManyRowsError,
)
from tf_transformer.predictors.client.protocol import SERVERS
from tf_transformer.predictors.client.retries import call_again
from tf_transformer.predictors.rows import (
    check_names,
    count_rows,
    quote_names,
    to_array,
    to_rows,
)
from tf_transformer.predictors.signature import Signature, TensorSpec, numpy_type
from tf_transformer.text.texts import list_of_texts

_log = logging.getLogger(__name__)
# The first request fails soon if there is no server; one that has responded may be restarting.
_METADATA_RETRIES = 5
# The outputs that make a `Translation`, with their data types.
_TRANSLATION = {"translation": "DT_STRING", "score": "DT_FLOAT", "truncated": "DT_BOOL"}


class Translation(NamedTuple):
    """One translation of one sentence.

    Attributes:
        text: the translation.
        score: log-probability divided by the length penalty.
        truncated: whether the source exceeded the model's limit and was truncated.
    """

    text: str
    score: float
    truncated: bool


class _FailedRequest(NamedTuple):
    """A request that failed, possibly because of others in its batch, and its remaining time."""

    row_numbers: Sequence[int]
    arrays: dict[str, np.ndarray]
    reason: Exception
    seconds_left: float


class Client:
    """Sends rows to a model in TF Serving, in batches, and returns the outputs in order.

    Requests to an unavailable server (connection refused or lost; HTTP 429, 502, 503, 504; gRPC
    UNAVAILABLE, RESOURCE_EXHAUSTED) are retried with exponential backoff. The retries are
    implemented here because gRPC stops after five attempts and urllib3 does not distinguish a lost
    connection from a late response. Both protocols thus behave alike, and one deadline covers all
    attempts. That the server has too many requests is logged once, as a warning.

    With batching enabled, TF Serving merges requests, and an invalid one fails all of its batch,
    including those of other callers. Types and shapes are checked before a request is sent, so one
    that fails because the tensors of a batch differ in these is not at fault, and is sent again
    after a short pause, until the deadline. Any other error of the model (HTTP 400, 412, 500; gRPC
    INVALID_ARGUMENT, FAILED_PRECONDITION, OUT_OF_RANGE, INTERNAL, UNKNOWN) may be that of a row of
    this or of another request. The rows of such a request are therefore sent again, one at a time,
    after the other pending requests of the call and within the remaining deadline. A row that fails
    again is repeated until it fills a request of `max_batch_size` rows. If that is the server's own
    `max_batch_size`, nothing can be merged with it; the row is named in the error if it fails, too.
    Rows are not sent again if the model or signature does not exist, if the batch is too large, or
    after the deadline, since no other request can cause these.

    Args:
        address: `HOST:PORT` of the server. TF Serving's default ports are 8501 for REST and 8500
            for gRPC.
        model: name of the model on the server.
        protocol: `rest` or `grpc`.
        version: version of the model, or None for the server's default.
        max_batch_size: maximum rows per request, at most the server's own `max_batch_size`, and
            best equal to it.
        concurrency: maximum number of pending requests per call.
        deadline: seconds for one request including its retries and the whole response; only
            resolving the host's name may exceed it.
        retries: maximum number of retries per request. The first request, which reads the
            signatures, is retried at most 5 times.
        max_response_bytes: maximum size of a response; 32 rows of `align` with 512 pieces on each
            side take about half of the default. Compressed responses are refused.

    Attributes:
        description: which model at which address, for error messages.

    Raises:
        InputError: an argument is out of range.
    """

    def __init__(
        self,
        address: str,
        model: str = "translator",
        protocol: str = "rest",
        version: int | None = None,
        max_batch_size: int = 32,
        concurrency: int = 4,
        deadline: float = 60.0,
        retries: int = 15,
        max_response_bytes: int = 2**27,
    ):
        if protocol not in SERVERS:
            raise InputError(f"`protocol` must be rest or grpc. Received: protocol={protocol!r}")
        for name, value, least in (
            ("max_batch_size", max_batch_size, 1),
            ("concurrency", concurrency, 1),
            ("retries", retries, 0),
        ):
            if value < least:
                raise InputError(f"`{name}` must be at least {least}. Received: {name}={value}")
        if not 0 < max_response_bytes < 2**31:
            raise InputError(
                "`max_response_bytes` must be above 0 and below 2 GiB. "
                f"Received: max_response_bytes={max_response_bytes}"
            )
        if not 0 < deadline <= threading.TIMEOUT_MAX:
            raise InputError(
                "`deadline` must be above 0 and at most "
                f"{threading.TIMEOUT_MAX:.0f} seconds. Received: deadline={deadline}"
            )
        if version is not None and version < 0:
            raise InputError(f"`version` must not be negative. Received: version={version}")
        _check_address(address)
        self.max_batch_size = max_batch_size
        self.concurrency = concurrency
        self.deadline = deadline
        self.retries = retries
        self.description = f"model {model!r} at {address}"
        if version is not None:
            self.description = f"version {version} of {self.description}"
        self._server = SERVERS[protocol](
            address, model, version, concurrency, self.description, max_response_bytes
        )
        self._overload_is_logged = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._server.close()

    @property
    def batch_size(self) -> int:
        """Number of rows that fill all requests that may be pending."""
        return self.max_batch_size * self.concurrency

    @functools.cached_property
    def signatures(self) -> dict[str, Signature]:
        """The model's signatures by name, requested from the server on first use.

        Raises:
            InputError: as `predict_batches`.
            OSError: as `predict_batches`.
        """
        return self._read_signatures()

    def refresh_signatures(self) -> dict[str, Signature]:
        """Requests `signatures` again: a server may have loaded another version of the model.

        Returns:
            The model's signatures by name. Calls in other threads use the former ones or these.

        Raises:
            InputError: as `predict_batches`; the former signatures are kept.
            OSError: as `predict_batches`; the former signatures are kept.
        """
        signatures = self._read_signatures()
        self.signatures = signatures
        return signatures

    def _read_signatures(self):
        retries = min(self.retries, _METADATA_RETRIES)
        end = time.monotonic() + self.deadline
        try:
            return self._with_retries(self._server.read_signatures, end, threading.Event(), retries)
        except MergedBatchError as error:  # TF Serving does not merge requests for metadata
            raise error.reason from error

    def predict(
        self, inputs: Mapping[str, Sequence], signature: str = "serving_default"
    ) -> dict[str, list]:
        """Returns the model's outputs for any number of rows.

        Args:
            inputs: as for `predict_batches`.
            signature: name of the signature.

        Returns:
            The outputs by name, with one entry per row; an empty dictionary for no rows.

        Raises:
            InputError: as `predict_batches`.
            OSError: as `predict_batches`.
        """
        outputs: dict[str, list] = {}
        for batch in self.predict_batches(inputs, signature):
            for name, values in batch.items():
                outputs.setdefault(name, []).extend(values)
        return outputs

    def predict_batches(
        self,
        inputs: Mapping[str, Sequence],
        signature: str = "serving_default",
        row_numbers: Sequence[int] | None = None,
    ) -> Iterator[dict[str, list]]:
        """Yields the model's outputs batch by batch while the next batches are pending.

        Args:
            inputs: the signature's inputs by name, with one entry per row: a string, number or
                boolean, or a list of the same length in all rows.
            signature: name of the signature.
            row_numbers: numbers of the rows in error messages; 1, 2, ... if None.

        Yields:
            The outputs by name, with one entry per row, for up to `max_batch_size` rows, in order.
            Strings are `bytes` if the output's name ends in `_bytes`, TF Serving's convention, and
            otherwise `str`, with U+FFFD for invalid UTF-8.

        Raises:
            InputError: the model, the signature or an input does not exist, or the server refuses
                the request. Names are checked before anything is sent.
            ConnectionError: the server is unavailable.
            TimeoutError: the response did not arrive before the deadline.
            OSError: the request failed in another way, or the response is not one of TF Serving.
        """
        num_rows = count_rows(inputs)
        if num_rows == 0:  # TF Serving would never respond
            return
        found = self._find_signature(signature)
        check_names(inputs, signature, found)
        for spec in found.outputs.values():
            numpy_type(spec.data_type)  # raises for an unsupported type
        abandoned = threading.Event()
        send = functools.partial(self._send, signature, found, abandoned)
        waiting: collections.deque[concurrent.futures.Future] = collections.deque()
        row_numbers = row_numbers or range(1, num_rows + 1)
        try:
            for start in range(0, num_rows, self.max_batch_size):
                rows = range(start, min(start + self.max_batch_size, num_rows))
                full = len(waiting) == self.concurrency
                ready = self._finish(waiting.popleft(), waiting, send) if full else None
                waiting.append(
                    start_in_thread(self._send_rows, inputs, rows, row_numbers, found, send)
                )
                if ready is not None:
                    yield ready
            while waiting:
                yield self._finish(waiting.popleft(), waiting, send)
        finally:
            abandoned.set()

    def translate_lines(
        self,
        lines: Sequence[str | bytes],
        signature: str = "serving_default",
        options: Mapping[str, Any] | None = None,
    ) -> Iterator[Translation]:
        """Translates any number of sentences, with a progress bar on standard error.

        Args:
            lines: the sentences. Of a text of several, the model may translate only the first,
                except with the signature `document`.
            signature: a signature with the input `text` and the outputs `translation`, `score` and
                `truncated`.
            options: the other inputs by name, each with one value for all sentences.

        Yields:
            The translation of each sentence, in the order of `lines`.

        Raises:
            InputError: as `translate_batches`.
            OSError: as `translate_batches`.
        """
        lines = list_of_texts(lines, "lines")
        with tqdm.tqdm(total=len(lines), unit=" sentences", disable=None) as progress:
            for batch in self.translate_batches(lines, signature, options):
                yield from batch
                progress.update(len(batch))

    def translate_batches(
        self,
        lines: Sequence[str | bytes],
        signature: str = "serving_default",
        options: Mapping[str, Any] | None = None,
        line_numbers: Sequence[int] | None = None,
    ) -> Iterator[list[Translation]]:
        """Translates sentences request by request, without a progress bar.

        Args:
            lines: the sentences.
            signature: as for `translate_lines`.
            options: as for `translate_lines`.
            line_numbers: numbers of the lines in error messages; 1, 2, ... if None.

        Yields:
            The translations of up to `max_batch_size` sentences, in the order of `lines`.

        Raises:
            InputError: as `predict_batches`.
            OSError: as `predict_batches`, or a score is NaN or infinite.
        """
        lines = list_of_texts(lines, "lines")
        if lines:
            self._check_translates(signature)
        inputs: dict[str, Sequence] = {
            name: [value] * len(lines) for name, value in (options or {}).items()
        }
        inputs["text"] = lines
        numbers = iter(line_numbers or itertools.count(1))
        for batch in self.predict_batches(inputs, signature, line_numbers):
            translations = list(map(Translation, *(batch[name] for name in _TRANSLATION)))
            for translation, number in zip(translations, numbers, strict=False):
                if not math.isfinite(translation.score):
                    raise OSError(
                        f"the {self.description}: expected finite scores. Received: "
                        f"{translation.score} in row {number}"
                    )
            yield translations

    def _check_translates(self, signature):
        found = self._find_signature(signature).outputs
        where = f"signature {signature!r} of the {self.description}"
        if missing := _TRANSLATION.keys() - found.keys():
            raise InputError(
                f"{where} has no output {quote_names(missing)}; its outputs are "
                f"{quote_names(found)}"
            )
        for name, data_type in _TRANSLATION.items():
            if found[name] != TensorSpec(data_type, (None,)):
                raise InputError(
                    f"output {name!r} of {where} must be {data_type} of shape (None,), one per "
                    f"row. Received: {found[name].data_type} of shape {found[name].shape}"
                )

    def _find_signature(self, name):
        signatures = self.signatures  # another thread may replace them
        if name not in signatures:
            raise InputError(
                f"the {self.description} has no signature {name!r}; it has "
                f"{quote_names(signatures)}"
            )
        return signatures[name]

    def _send(self, name, signature, abandoned, arrays, num_rows, end):
        def attempt(timeout):
            return self._server.predict(name, signature, arrays, timeout)

        outputs = self._with_retries(attempt, end, abandoned, self.retries)
        return {
            key: to_rows(key, signature.outputs[key], values, num_rows)
            for key, values in outputs.items()
        }

    def _send_rows(self, inputs, rows, row_numbers, signature, send):
        arrays = {
            key: to_array(key, spec, inputs[key][rows.start : rows.stop], rows.start)
            for key, spec in signature.inputs.items()
        }
        end = time.monotonic() + self.deadline
        try:
            return send(arrays, len(rows), end)
        except MergedBatchError as error:
            row_numbers = row_numbers[rows.start : rows.stop]
            return _FailedRequest(
                row_numbers, arrays, error.reason, max(end - time.monotonic(), 0.0)
            )

    def _finish(self, request, others, send):
        """Waits for the outputs of a request; if it failed, sends its rows again one at a time.

        No other request of the call is then pending, so that none can be merged with these rows.
        """
        failed = request.result()
        if not isinstance(failed, _FailedRequest):
            return failed
        end = time.monotonic() + failed.seconds_left
        outputs: dict[str, list] = {}
        try:
            if concurrent.futures.wait(others, failed.seconds_left).not_done:
                raise self._timeout_error()
            for index in range(len(failed.row_numbers)):
                arrays = {name: array[index : index + 1] for name, array in failed.arrays.items()}
                for name, values in self._send_row(arrays, send, end).items():
                    outputs.setdefault(name, []).extend(values)
        except MergedBatchError as error:
            reason = error.reason
            raise type(reason)(
                f"{reason} (row {failed.row_numbers[index]}, sent again alone)"
            ) from error
        except TimeoutError as error:
            raise TimeoutError(f"{error}; its first response was: {failed.reason}") from error
        return outputs

    def _send_row(self, arrays, send, end):
        """Sends one row, and if it fails, a request that it fills, with which none is merged."""

        def fill(size):
            repeated = {name: np.repeat(array, size, axis=0) for name, array in arrays.items()}
            return {name: values[:1] for name, values in send(repeated, size, end).items()}

        try:
            return send(arrays, 1, end)
        except MergedBatchError:
            try:
                return fill(self.max_batch_size)
            except TooManyRowsError as error:
                return fill(min(max(error.limit, 1), self.max_batch_size))

    def _timeout_error(self):
        return TimeoutError(
            f"the {self.description} did not respond within {self.deadline:g} seconds: "
            "raise `deadline` (--deadline) or lower `max_batch_size` (--max-batch-size)"
        )

    def _with_retries(self, attempt, end, abandoned, max_retries):
        try:
            return call_again(attempt, end, abandoned, max_retries, self._log_overload)
        except TimeoutError as error:
            raise self._timeout_error() from error
        except BatchMateError as error:
            raise TimeoutError(
                f"the {self.description} did not answer within {self.deadline:g} seconds, because "
                "it merged the request each time with one of another caller whose tensors have "
                f"other types or shapes: {error}"
            ) from error

    def _log_overload(self, error):
        if isinstance(error, OverloadError) and not self._overload_is_logged:
            self._overload_is_logged = True
            _log.warning("%s; waiting", error)


def _check_address(address):
    try:
        url = urllib3.util.parse_url(f"http://{address}")
    except urllib3.exceptions.LocationParseError:
        url = urllib3.util.Url()
    if not url.host or not url.port or url.netloc != address.lower():
        raise InputError(f"`address` must be HOST:PORT. Received: address={address!r}")
    if _is_ambiguous(url.host):
        raise InputError(
            "`address` must be HOST:PORT, an IPv4 address as four decimal numbers. "
            f"Received: address={address!r}"
        )


def _is_ambiguous(host):
    """Returns whether only some programs read it as an IPv4 address, such as 0x7f.1 or 127.1."""
    if not re.fullmatch(r"(.*\.)?(0x[0-9a-f]*|[0-9]+)\.?", host):
        return False
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return True
    return False

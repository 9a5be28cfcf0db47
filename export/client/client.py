"""A client for a model that TF Serving serves, over REST and gRPC; needs no TensorFlow."""

import collections
import concurrent.futures
import functools
import ipaddress
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import tqdm
import urllib3

from export.client.messages import numpy_type
from export.client.protocol import SERVERS, MergedBatchError
from export.client.rows import check_names, count_rows, listed, to_array, to_rows
from export.client.signature import Signature, TensorSpec
from tf_transformer.errors import InputError

# The first contact fails soon if there is no server; one that has answered may be restarting.
_FIRST_RETRIES = 5
# Seconds before the first retry, and most before any: each pause is twice the one before, less a
# random part of up to a half.
_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 5.0
# What a `Translation` is made of.
_TRANSLATION = {"translation": "DT_STRING", "score": "DT_FLOAT", "truncated": "DT_BOOL"}


class Translation(NamedTuple):
    """One translation of one sentence.

    Attributes:
        text: the translation.
        score: log-probability over length penalty.
        truncated: the source was longer than the model's limit and its end was cut off.
    """

    text: str
    score: float
    truncated: bool


class _Failed(NamedTuple):
    """A request that failed, perhaps because of others in its batch, with the time left to it."""

    numbers: Sequence[int]
    arrays: dict[str, np.ndarray]
    reason: Exception
    seconds_left: float


class Client:
    """Sends rows to a model that TF Serving serves, in batches, and returns its answers in order.

    A server that is unavailable (connection refused or lost; HTTP 429, 502, 503, 504; gRPC
    UNAVAILABLE, RESOURCE_EXHAUSTED) is asked again after pauses that grow. The retries are written
    out here since gRPC's own stop at five attempts and urllib3's do not tell a lost connection from
    a late answer; so both protocols behave alike, and one deadline covers all attempts.

    With batching on, TF Serving merges requests, and what one row of a batch is refused for, all
    requests in it are, other callers' included (HTTP 400, 412, 500; gRPC INVALID_ARGUMENT,
    FAILED_PRECONDITION, OUT_OF_RANGE, INTERNAL, UNKNOWN). So once the other requests of the call
    have ended, the rows of such a request are sent again one by one, each alone and once, within
    what is left of its deadline: other callers' faults are past by then, and the row that still
    fails is named in the error. That a model or signature is not there, that the rows are too
    many, and a deadline are no fault of others; then no row is sent again.

    Args:
        address: `HOST:PORT` of the server; its own choice is port 8501 for REST, 8500 for gRPC.
        model: the name it serves the model under.
        protocol: `rest` or `grpc`.
        version: which version of the model; without one, the server's choice.
        max_batch_size: most rows of a request, at most the server's own `max_batch_size`.
        concurrency: most requests of one call that are under way at once.
        deadline: seconds for one request with all its retries, however slowly its answer comes in;
            only a look-up of the host's name may take longer.
        retries: how often a request is sent again at most; the question for the signatures, which
            comes first, at most 5 times.
        max_response_bytes: most bytes of an answer; 32 rows of `align` with 512 pieces on each side
            take about half of the default. Compressed answers are refused.

    Raises:
        ValueError: an argument is out of range.
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
        self._place = f"model {model!r} at {address}"
        if version is not None:
            self._place = f"version {version} of {self._place}"
        self._server = SERVERS[protocol](
            address, model, version, concurrency, self._place, max_response_bytes
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._server.close()

    @functools.cached_property
    def signatures(self) -> dict[str, Signature]:
        """The model's signatures by name; asked of the server once.

        Raises:
            ValueError, OSError: as `predict_batches` does.
        """
        retries = min(self.retries, _FIRST_RETRIES)
        end = time.monotonic() + self.deadline
        try:
            return self._with_retries(self._server.read_signatures, end, threading.Event(), retries)
        except MergedBatchError as error:  # which these requests are not
            raise error.reason from error

    def predict(
        self, inputs: Mapping[str, Sequence], signature: str = "serving_default"
    ) -> dict[str, list]:
        """Gives the model's answers for any number of rows at once.

        Args:
            inputs, signature: as for `predict_batches`; `Raises` is the same as well.

        Returns:
            Every output with one entry a row; nothing at all for no rows.
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
        numbers: Sequence[int] | None = None,
    ) -> Iterator[dict[str, list]]:
        """Gives the model's answers batch by batch, while the next ones are under way.

        Args:
            inputs: every input of the signature with one entry a row: a string, a number, a truth
                value, or a list of one width for all rows.
            signature: its name.
            numbers: of the rows, for errors; without, they are counted from 1.

        Yields:
            Every output with one entry a row, for up to `max_batch_size` rows, in order. Strings
            are `bytes` where the output's name ends in `_bytes`, which is TF Serving's own sign,
            and `str` elsewhere, with U+FFFD for what is not UTF-8.

        Raises:
            ValueError: the model, the signature or an input is not there, or the server refuses
                what was sent. Names are checked before anything is sent.
            ConnectionError: the server is not available.
            TimeoutError: it did not answer before the deadline.
            OSError: it failed otherwise, or what came is no answer of TF Serving.
        """
        num_rows = count_rows(inputs)
        if num_rows == 0:  # TF Serving would never answer
            return
        found = self._find_signature(signature)
        check_names(inputs, signature, found)
        for spec in found.outputs.values():
            numpy_type(spec.data_type)  # others could not be read
        abandoned = threading.Event()
        send = functools.partial(self._send, signature, found, abandoned)
        waiting: collections.deque[concurrent.futures.Future] = collections.deque()
        numbers = numbers or range(1, num_rows + 1)
        try:
            for start in range(0, num_rows, self.max_batch_size):
                rows = range(start, min(start + self.max_batch_size, num_rows))
                full = len(waiting) == self.concurrency
                ready = self._finish(waiting.popleft(), waiting, send) if full else None
                waiting.append(_start(self._send_rows, inputs, rows, numbers, found, send))
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
            lines: the sentences.
            signature: one with the input `text` and the outputs `translation`, `score`,
                `truncated`.
            options: its other inputs, each the same for all sentences.

        Yields:
            The translation of each sentence, in the order of `lines`.

        Raises:
            ValueError, OSError: as `predict_batches` does.
        """
        with tqdm.tqdm(total=len(lines), unit=" sentences", disable=None) as progress:
            for batch in self.translate_batches(lines, signature, options):
                yield from batch
                progress.update(len(batch))

    def translate_batches(
        self,
        lines: Sequence[str | bytes],
        signature: str = "serving_default",
        options: Mapping[str, Any] | None = None,
        numbers: Sequence[int] | None = None,
    ) -> Iterator[list[Translation]]:
        """Translates sentences request by request, without a progress bar.

        Args:
            lines, signature, options: as for `translate_lines`; `Raises` is the same as well.
            numbers: of the lines, for errors; without, they are counted from 1.

        Yields:
            The translations of up to `max_batch_size` sentences, in the order of `lines`.
        """
        if len(lines):
            self._check_translates(signature)
        inputs: dict[str, Sequence] = {
            name: [value] * len(lines) for name, value in (options or {}).items()
        }
        inputs["text"] = lines
        for batch in self.predict_batches(inputs, signature, numbers):
            yield list(map(Translation, *(batch[name] for name in _TRANSLATION)))

    def _check_translates(self, signature):
        found = self._find_signature(signature).outputs
        where = f"signature {signature!r} of the {self._place}"
        if missing := _TRANSLATION.keys() - found.keys():
            raise InputError(f"{where} gives no {listed(missing)}; it gives {listed(found)}")
        for name, data_type in _TRANSLATION.items():
            if found[name] != TensorSpec(data_type, (None,)):
                raise InputError(
                    f"{where} gives {name!r} as {found[name].data_type} of shape "
                    f"{found[name].shape}; expected {data_type} of shape (None,), one for each row"
                )

    def _find_signature(self, name):
        if name not in self.signatures:
            raise InputError(
                f"the {self._place} has no signature {name!r}; it has {listed(self.signatures)}"
            )
        return self.signatures[name]

    def _send(self, name, signature, abandoned, arrays, num_rows, end):
        def attempt(timeout):
            return self._server.predict(name, signature, arrays, timeout)

        outputs = self._with_retries(attempt, end, abandoned, self.retries)
        return {
            key: to_rows(key, signature.outputs[key], values, num_rows)
            for key, values in outputs.items()
        }

    def _send_rows(self, inputs, rows, numbers, signature, send):
        arrays = {
            key: to_array(key, spec, inputs[key][rows.start : rows.stop], rows.start)
            for key, spec in signature.inputs.items()
        }
        end = time.monotonic() + self.deadline
        try:
            return send(arrays, len(rows), end)
        except MergedBatchError as error:
            numbers = numbers[rows.start : rows.stop]
            return _Failed(numbers, arrays, error.reason, max(end - time.monotonic(), 0.0))

    def _finish(self, request, others, send):
        """Waits for the outputs of a request; if it failed, sends its rows again one by one.

        Meanwhile no other rows of the call are under way, with which they could be merged.
        """
        failed = request.result()
        if not isinstance(failed, _Failed):
            return failed
        end = time.monotonic() + failed.seconds_left
        outputs: dict[str, list] = {}
        try:
            if concurrent.futures.wait(others, failed.seconds_left).not_done:
                raise self._timeout_error()
            for index in range(len(failed.numbers)):
                arrays = {name: array[index : index + 1] for name, array in failed.arrays.items()}
                for name, values in send(arrays, 1, end).items():
                    outputs.setdefault(name, []).extend(values)
        except MergedBatchError as error:
            reason = error.reason
            raise type(reason)(
                f"{reason} (row {failed.numbers[index]}, sent again alone)"
            ) from error
        except TimeoutError as error:
            raise TimeoutError(f"{error}; first it answered: {failed.reason}") from error
        return outputs

    def _timeout_error(self):
        return TimeoutError(
            f"the {self._place} gave no answer in {self.deadline:g} seconds: "
            "raise `deadline` or lower `max_batch_size`"
        )

    def _with_retries(
        self, attempt: Callable[[float], Any], end: float, abandoned: threading.Event, retries: int
    ) -> Any:
        """Calls `attempt(seconds left)` until it does not raise a `ConnectionError`."""
        pause = _FIRST_PAUSE
        for number in range(1, retries + 2):
            try:
                return attempt(max(end - time.monotonic(), 0.001))
            except TimeoutError as error:
                raise self._timeout_error() from error
            except ConnectionError as error:
                seconds = random.uniform(pause / 2, pause)
                late = time.monotonic() + seconds >= end
                if number > retries or late or abandoned.wait(seconds):
                    raise ConnectionError(f"{error}; attempts: {number}") from error
                pause = min(2 * pause, _LONGEST_PAUSE)


def _start(function: Callable, *arguments: Any) -> concurrent.futures.Future:
    """Calls a function in a thread that does not keep the process from ending.

    An executor's threads would: after a failed request, until all others have been answered.
    """
    future: concurrent.futures.Future = concurrent.futures.Future()

    def run():
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


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
    """Whether it is an IPv4 address to some programs alone, as 0x7f.1 and 127.1 are."""
    if not re.fullmatch(r"(.*\.)?(0x[0-9a-f]*|[0-9]+)\.?", host):
        return False
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return True
    return False

"""A tf.data service: a process that makes batches for training processes on other machines."""

import contextlib
import logging
import os
import re
import threading
import time
from collections.abc import Iterator

import grpc
import tensorflow as tf
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from tf_transformer.errors import InputError
from tf_transformer.printable import printable
from training.prepared.ports import bracketed, check_port

_log = logging.getLogger(__name__)
_service = tf.data.experimental.service
_SIZED = 2  # protobuf's wire type of strings and messages

# Errors of reading from a service that was restarted, which does not know the former stream.
STREAM_LOST = (tf.errors.NotFoundError, tf.errors.UnavailableError)


def start_service(
    port: int, host: str = "localhost"
) -> tf.data.experimental.service.DispatchServer:
    """Starts a dispatcher with one worker in this process.

    There is one worker because the order of batches from several is nondeterministic. A tf.data
    service executes the graphs that its clients send, which can read and write files: every client
    acts as the user that runs the service. It listens on every interface, which TensorFlow does not
    let one change: call this only in a network of trusted machines.

    Args:
        port: port of the dispatcher; 0 chooses a free one.
        host: name of this machine for the clients.

    Returns:
        The dispatcher; call its `join` to wait.

    Raises:
        InputError: `port` is out of range.
        OSError: the port is in use.
    """
    check_port(port)
    dispatcher = _service.DispatchServer(_service.DispatcherConfig(port=port))
    address = dispatcher.target.partition("://")[2]
    # TensorFlow replaces `%port%` by the worker's port.
    config = _service.WorkerConfig(address, worker_address=f"{bracketed(host)}:%port%")
    dispatcher.worker = _service.WorkerServer(config)  # keeps it alive with the dispatcher
    return dispatcher


def check_service(address: str, seconds: float = 10.0) -> None:
    """Waits until a tf.data service and all its workers answer.

    TensorFlow itself would wait forever, without a message and without reacting to Ctrl-C, when the
    service is absent or suspended, or when another kind of server listens at the address.

    Args:
        address: address of the service, "grpc://HOST:PORT".
        seconds: timeout.

    Raises:
        InputError: the address is invalid.
        OSError: no service answers in time, or it has no workers.
    """
    dispatcher = address.removeprefix("grpc://")
    if dispatcher == address or not _is_host_and_port(dispatcher):
        raise InputError(
            f"data service {address}: expected grpc://HOST:PORT, with an IPv6 address in brackets"
        )
    deadline = time.monotonic() + seconds
    while True:
        try:
            for worker in _ask_for_workers(dispatcher, deadline):
                _ask(worker, "WorkerService/GetWorkerTasks", deadline)
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise OSError(
                    f"data service {address}: no tf.data service answers there ({error}); start it "
                    "with `tf-transformer data-service`"
                ) from error
            time.sleep(min(0.5, seconds))


def _is_host_and_port(address):
    match = re.fullmatch(r"(?:\[[^/\[\]]+\]|[^/:\[\]]+):(\d{1,5})", address, re.ASCII)
    return match is not None and int(match[1]) <= 65535


def _ask_for_workers(address, deadline):
    """Returns the addresses, `HOST:PORT`, of the workers of the service at an address."""
    response = _ask(address, "DispatcherService/GetWorkers", deadline)
    try:
        # The response has a list of workers, each with its address. Both are fields number 1.
        found = [name.decode() for worker in _fields(response) for name in _fields(worker)]
    except (DecodeError, UnicodeDecodeError) as error:
        raise OSError(
            f"{address}: expected a list of workers. Received: {printable(repr(response[:100]))}"
        ) from error
    if not found:
        raise OSError(f"{address} has no worker")
    for worker in found:
        if not _is_host_and_port(worker):
            shown = printable(repr(worker), 100)
            raise OSError(f"{address}: expected HOST:PORT of a worker. Received: {shown}")
    return found


def _fields(message):
    """Returns the values of field number 1 of a message.

    Raises:
        DecodeError: the bytes are not a message, or the field is not a string or message.
    """
    fields = list(UnknownFieldSet(Empty.FromString(message)))
    if any(field.field_number == 1 and field.wire_type != _SIZED for field in fields):
        raise DecodeError("wrong wire type")
    return [field.data for field in fields if field.field_number == 1]


def _ask(address, method, deadline):
    """Calls a method of a tf.data service and returns the bytes of its response.

    TensorFlow gives no access to the message classes. The requests of the methods used here are
    empty messages.
    """
    seconds = max(deadline - time.monotonic(), 1.0)
    options = [("grpc.enable_http_proxy", 0)]
    with grpc.insecure_channel(f"dns:///{address}", options=options) as channel:
        try:
            return channel.unary_unary(f"/tensorflow.data.{method}")(b"", timeout=seconds)
        except grpc.RpcError as error:
            reason = printable(error.details() or error.code().name)
            raise OSError(f"{printable(address)}: {reason}") from error


@contextlib.contextmanager
def exit_if_service_is_lost(
    address: str, interval: float = 10.0, timeout: float = 60.0
) -> Iterator[None]:
    """Ends the process with a one-line error and status 2 when its tf.data service is lost.

    TensorFlow would wait for the service inside an operation, which neither signals nor exceptions
    interrupt, so only `os._exit` ends the wait. This also ends a program that calls `train`; it can
    run training in a separate process. If the service is restarted in time, reading raises one of
    `STREAM_LOST` instead.

    Args:
        address: address of the service.
        interval: seconds between two checks.
        timeout: seconds without an answer after which the process ends.
    """
    is_done = threading.Event()

    def check_repeatedly():
        while not is_done.wait(interval):
            try:
                check_service(address, timeout)
            except OSError as error:
                _log.critical(
                    "tf-transformer: error: %s, then run the same command again to resume from the "
                    "newest checkpoint",
                    error,
                )
                os._exit(2)

    thread = threading.Thread(target=check_repeatedly, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_done.set()

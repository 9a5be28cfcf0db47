"""A tf.data service: one process that makes batches for trainers elsewhere."""

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
from google.protobuf.unknown_fields import UnknownFieldSet

from tf_transformer.errors import InputError
from training.prepared.loopback import loopback_only
from training.prepared.ports import bracketed, check_host, check_port

_log = logging.getLogger(__name__)
_service = tf.data.experimental.service

# What reading ends with once a service has been started again: it knows no former stream.
STREAM_LOST = (tf.errors.NotFoundError, tf.errors.UnavailableError)


def start_service(
    port: int, host: str = "localhost", *, trusts_network: bool = False
) -> tf.data.experimental.service.DispatchServer:
    """Starts a dispatcher with one worker in this process; `join` it to wait.

    One worker, because the batches of several would come in an order of chance. A tf.data service
    executes the graphs that its clients send, which read and write files: whoever can connect acts
    as the user that runs it. So only this machine can, unless the network is trusted.

    Args:
        port: where trainers find it; 0 takes a free one.
        host: the name of this machine for the trainers.
        trusts_network: lets every machine connect that can reach this one.

    Raises:
        ValueError: there is no such port, or other machines are to connect to `host` and the
            network is not trusted.
        OSError: the port is taken, or the system cannot keep other machines out.
    """
    check_host(host, trusts_network)
    check_port(port)
    reachable = contextlib.nullcontext if trusts_network else loopback_only
    with reachable(port) as dispatcher_port:
        dispatcher = _service.DispatchServer(_service.DispatcherConfig(port=dispatcher_port))
    address = dispatcher.target.partition("://")[2]
    with reachable(0) as worker_port:
        # `%port%` stands for the port that the worker takes.
        config = _service.WorkerConfig(
            address, worker_address=f"{bracketed(host)}:%port%", port=worker_port
        )
        dispatcher.worker = _service.WorkerServer(config)  # lives as long
    return dispatcher


def check_service(address: str, seconds: float = 10.0) -> None:
    """Waits until a tf.data service and all its workers answer, for some seconds.

    TensorFlow itself would wait without end, out of reach of Ctrl-C and without a word: for what is
    not there, for what accepts connections and is no such service, and for one that is suspended.

    Raises:
        ValueError: the address is not one.
        OSError: no service answers there, or one without workers.
    """
    match = re.fullmatch(r"grpc://((?:\[[^/\[\]]+\]|[^/:\[\]]+):(\d{1,5}))", address)
    if not match or int(match[2]) > 65535:
        raise InputError(
            f"data service {address}: expected grpc://HOST:PORT, an IPv6 address in brackets"
        )
    deadline = time.monotonic() + seconds
    while True:
        try:
            for worker in _ask_for_workers(match[1], deadline):
                _ask(worker, "WorkerService/GetWorkerTasks", deadline)
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise OSError(
                    f"data service {address}: no tf.data service answers there ({error}); start it "
                    "with `tf-transformer data-service`"
                ) from error
            time.sleep(min(0.5, seconds))


def _ask_for_workers(place, deadline):
    """The places of the workers of the service at a place, `HOST:PORT`."""
    response = _ask(place, "DispatcherService/GetWorkers", deadline)
    found = [
        worker_field.data.decode()
        for field in UnknownFieldSet(Empty.FromString(response))
        for worker_field in UnknownFieldSet(Empty.FromString(field.data))
    ]
    if not found:
        raise OSError(f"{place} has no worker")
    return found


def _ask(place, method, deadline):
    """Calls a method of a tf.data service, whose messages TensorFlow gives no access to.

    An empty message asks, as for each of these methods.
    """
    seconds = max(deadline - time.monotonic(), 1.0)
    options = [("grpc.enable_http_proxy", 0)]
    with grpc.insecure_channel(f"dns:///{place}", options=options) as channel:
        try:
            return channel.unary_unary(f"/tensorflow.data.{method}")(b"", timeout=seconds)
        except grpc.RpcError as error:
            raise OSError(f"{place}: {error.details() or error.code().name}") from error


@contextlib.contextmanager
def service_watched(address: str, every: float = 10.0, patience: float = 60.0) -> Iterator[None]:
    """Ends the process, in one line and with status 2, when its tf.data service is gone.

    TensorFlow would wait for it within one operation, out of reach of signals and exceptions, so
    that nothing less ends the wait: also in a program of a caller's, which can run training in a
    process of its own. Of a service that is started again meanwhile TensorFlow hears `STREAM_LOST`.

    Args:
        address: of the service.
        every: seconds from one look to the next.
        patience: seconds without an answer.
    """
    is_over = threading.Event()

    def watch():
        while not is_over.wait(every):
            try:
                check_service(address, patience)
            except OSError as error:
                _log.critical(
                    "tf-transformer: error: %s, then run the same command again: training goes on "
                    "from the newest checkpoint",
                    error,
                )
                os._exit(2)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()

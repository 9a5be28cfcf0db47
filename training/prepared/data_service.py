"""A tf.data service: one process that makes batches for trainers elsewhere."""

import contextlib
import logging
import os
import re
import socket
import threading
import time
from collections.abc import Iterator

import tensorflow as tf

from training.prepared.loopback import loopback_only
from training.prepared.ports import check_host, check_port

_log = logging.getLogger(__name__)
_service = tf.data.experimental.service

# What reading ends with once a service has been started again: it knows no former stream.
STREAM_LOST = (tf.errors.NotFoundError, tf.errors.UnavailableError)


def start_service(
    port: int, host: str = "localhost", *, trusts_network: bool = False
) -> _service.DispatchServer:
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
        config = _service.WorkerConfig(address, worker_address=f"{host}:%port%", port=worker_port)
        dispatcher.worker = _service.WorkerServer(config)  # lives as long
    return dispatcher


def check_service(address: str, seconds: float = 10.0) -> None:
    """Waits until something answers at a tf.data service's address, for some seconds.

    TensorFlow itself would wait without end and without a word.

    Raises:
        ValueError: the address is not one.
        OSError: nothing answers.
    """
    match = re.fullmatch(r"grpc://\[?([^/]+?)\]?:(\d{1,5})", address)
    if not match:
        raise ValueError(f"data service {address}: expected grpc://HOST:PORT")
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection((match[1], int(match[2])), timeout=max(seconds, 1.0)).close()
            return
        except (OSError, OverflowError) as error:
            if time.monotonic() > deadline:
                raise OSError(
                    f"data service {address}: nothing answers there ({error}); start it with "
                    "`tf-transformer data-service`"
                ) from error
            time.sleep(0.5)


@contextlib.contextmanager
def service_watched(address: str, every: float = 10.0, patience: float = 60.0) -> Iterator[None]:
    """Ends the process, in one line and with status 2, when its tf.data service is gone.

    TensorFlow would wait for it within one operation, out of reach of signals and exceptions. Of
    a service that is started again meanwhile it hears `STREAM_LOST`.

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

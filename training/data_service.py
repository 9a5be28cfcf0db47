"""A tf.data service: one process that makes batches for trainers elsewhere."""

import tensorflow as tf

_service = tf.data.experimental.service


def start_service(port: int, host: str = "localhost") -> _service.DispatchServer:
    """Starts a dispatcher with one worker in this process; `join` it to wait.

    One worker, because the batches of several would come in an order of chance.

    Args:
        port: where trainers find it; 0 takes a free one.
        host: the name of this machine for the trainers.
    """
    dispatcher = _service.DispatchServer(_service.DispatcherConfig(port=port))
    address = dispatcher.target.partition("://")[2]
    # `%port%` stands for the free port that the worker takes.
    config = _service.WorkerConfig(dispatcher_address=address, worker_address=f"{host}:%port%")
    dispatcher.worker = _service.WorkerServer(config)  # lives as long
    return dispatcher

"""Which `tf.distribute` strategy trains."""

import contextlib
import logging
import os
import signal
import threading

import tensorflow as tf

from tf_transformer.errors import InputError
from training.distributed.cluster import choose_strategy, read_cluster

_log = logging.getLogger(__name__)

# Of the CPU: they are for trying the program out. A replica without rows does nothing.
_MAX_LOGICAL_DEVICES = 64


def make_strategy(kind: str = "auto", num_devices: int | None = None) -> tf.distribute.Strategy:
    """One device, `MirroredStrategy` over several, or `MultiWorkerMirroredStrategy`.

    Call it before any other use of TensorFlow's devices.

    Args:
        kind: "auto", "one_device", "mirrored" or "multi_worker". "auto": several machines where the
            environment's `TF_CONFIG` names more than one worker, else several devices, else one.
        num_devices: how many of this machine; None takes every GPU, or the CPU where there is none.
            Without GPUs, a number above 1 splits the CPU into that many logical devices: no faster,
            but the same program as on so many GPUs.

    Raises:
        ValueError: there are not so many GPUs, or `kind` contradicts `num_devices` or `TF_CONFIG`.
    """
    cluster = read_cluster(os.environ.get("TF_CONFIG", ""))
    kind, num_devices = choose_strategy(kind, num_devices, cluster)
    devices = _devices(num_devices)
    if kind == "multi_worker":
        return _multi_worker_strategy(cluster)
    if len(devices) == 1:
        return tf.distribute.get_strategy()
    return tf.distribute.MirroredStrategy(devices)


def _multi_worker_strategy(cluster):
    _log.info("This is %s; waiting for all of %s", cluster.address, ", ".join(cluster.addresses))
    with _signals_kept():
        return tf.distribute.MultiWorkerMirroredStrategy()


@contextlib.contextmanager
def _signals_kept():
    """Lets Ctrl-C end the process while TensorFlow waits for the other workers.

    Python's own handler would run when the waiting is over. TensorFlow takes SIGTERM for itself
    then and only makes a note of it; so Python's handlers are set anew afterwards.
    """
    is_main = threading.current_thread() is threading.main_thread()  # Python lets no other
    numbers = (signal.SIGINT, signal.SIGTERM) if is_main else ()
    former = {number: signal.signal(number, signal.SIG_DFL) for number in numbers}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _devices(number):
    """Names of this machine's devices; lets TensorFlow see no others."""
    gpus = tf.config.list_physical_devices("GPU")
    if number is None:
        number = max(1, len(gpus))
    if gpus and number > len(gpus):
        raise InputError(f"--devices {number}: this machine has {len(gpus)} GPUs")
    if not gpus and number > _MAX_LOGICAL_DEVICES:
        raise InputError(
            f"--devices {number}: without GPUs, expected at most {_MAX_LOGICAL_DEVICES} logical "
            "CPU devices; batches have too few rows for more"
        )
    if gpus:
        tf.config.set_visible_devices(gpus[:number], "GPU")
    elif number > 1:
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            [tf.config.LogicalDeviceConfiguration()] * number,
        )
    return [f"{'GPU' if gpus else 'CPU'}:{place}" for place in range(number)]

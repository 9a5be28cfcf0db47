"""Making the `tf.distribute` strategy for training."""

import contextlib
import logging
import os
import pathlib
import signal
import threading

import tensorflow as tf

from tf_transformer.errors import InputError
from training.distributed.cluster import choose_strategy, read_cluster

_log = logging.getLogger(__name__)

# Logical CPU devices are for trying out distribution; with more, replicas would get no rows.
_MAX_LOGICAL_DEVICES = 64
_DRIVER = pathlib.Path("/proc/driver/nvidia/version")


def make_strategy(kind: str = "auto", num_devices: int | None = None) -> tf.distribute.Strategy:
    """Makes the strategy for one device, several devices, or several workers.

    Call it before TensorFlow's devices are used in any other way.

    Args:
        kind: "auto", "one_device", "mirrored" or "multi_worker". "auto" means "multi_worker" if the
            environment variable `TF_CONFIG` names more than one worker, else "mirrored".
        num_devices: number of devices of this machine; None means all GPUs, or the CPU if there is
            none. Without GPUs, a number above 1 splits the CPU into that many logical devices,
            which is no faster but runs the same program as on that many GPUs.

    Returns:
        The default strategy for one device, else `MirroredStrategy` or
        `MultiWorkerMirroredStrategy`.

    Raises:
        InputError: there are fewer GPUs, or `kind` contradicts `num_devices` or `TF_CONFIG`.
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
    with _default_signal_handlers():
        return tf.distribute.MultiWorkerMirroredStrategy()


@contextlib.contextmanager
def _default_signal_handlers():
    """Lets Ctrl-C end the process while TensorFlow waits for the other workers.

    Python's handler would run only after the wait. TensorFlow replaces the handler of SIGTERM by
    one that only records the signal, so the former handlers are restored afterwards.
    """
    is_main = threading.current_thread() is threading.main_thread()  # only it can set handlers
    handled = (signal.SIGINT, signal.SIGTERM) if is_main else ()
    former = {signum: signal.signal(signum, signal.SIG_DFL) for signum in handled}
    try:
        yield
    finally:
        for signum, handler in former.items():
            signal.signal(signum, handler)


def _devices(num_devices):
    """Returns the names of the devices to use, and hides other GPUs from TensorFlow."""
    gpus = tf.config.list_physical_devices("GPU")
    if num_devices is None:
        num_devices = max(1, len(gpus))
    if gpus and num_devices > len(gpus):
        raise InputError(f"--devices {num_devices}: this machine has {len(gpus)} GPUs")
    if not gpus and num_devices > _MAX_LOGICAL_DEVICES:
        raise InputError(
            f"--devices {num_devices}: without GPUs, expected at most {_MAX_LOGICAL_DEVICES} "
            "logical CPU devices; batches have too few rows for more"
        )
    if gpus:
        tf.config.set_visible_devices(gpus[:num_devices], "GPU")
        _log.info("Training on %s", ", ".join(map(_name_of, gpus[:num_devices])))
    elif _DRIVER.exists() and os.environ.get("CUDA_VISIBLE_DEVICES") is None:
        _log.warning(
            "This machine has NVIDIA's driver, but TensorFlow finds no GPU and trains on the CPU; "
            "the extra `cuda` installs what it needs: pip install 'tf-transformer[cuda]'"
        )
    if not gpus and num_devices > 1:
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            [tf.config.LogicalDeviceConfiguration()] * num_devices,
        )
    return [f"{'GPU' if gpus else 'CPU'}:{index}" for index in range(num_devices)]


def _name_of(gpu):
    """Returns the name of a card, such as "NVIDIA A100", or of its device if it has none."""
    return tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name)

"""Which `tf.distribute` strategy trains."""

import json
import os

import tensorflow as tf


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
    num_workers = _count_workers(os.environ.get("TF_CONFIG", ""))
    if kind == "auto":
        kind = "multi_worker" if num_workers > 1 else "mirrored"
    elif kind == "multi_worker" and num_workers == 0:
        raise ValueError(
            "--strategy multi_worker: expected the workers' addresses in the environment variable "
            'TF_CONFIG, as in {"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": '
            '"worker", "index": 0}}'
        )
    elif kind != "multi_worker" and num_workers > 1:
        raise ValueError(f"--strategy {kind}: TF_CONFIG names {num_workers} workers")
    elif kind == "one_device":
        if num_devices not in (None, 1):
            raise ValueError(f"--strategy one_device: received --devices {num_devices}")
        num_devices = 1
    devices = _devices(num_devices)
    if kind == "multi_worker":
        return tf.distribute.MultiWorkerMirroredStrategy()
    if len(devices) == 1:
        return tf.distribute.get_strategy()
    return tf.distribute.MirroredStrategy(devices)


def _count_workers(tf_config):
    try:
        cluster = json.loads(tf_config or "{}").get("cluster", {})
        return sum(len(cluster.get(kind, ())) for kind in ("chief", "worker"))
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(
            f"the environment variable TF_CONFIG is not the JSON of a cluster ({error}). "
            f"Received: {tf_config!r}"
        ) from error


def _devices(number):
    """Names of this machine's devices; lets TensorFlow see no others."""
    gpus = tf.config.list_physical_devices("GPU")
    if number is None:
        number = max(1, len(gpus))
    if gpus and number > len(gpus):
        raise ValueError(f"--devices {number}: this machine has {len(gpus)} GPUs")
    if gpus:
        tf.config.set_visible_devices(gpus[:number], "GPU")
    elif number > 1:
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            [tf.config.LogicalDeviceConfiguration()] * number,
        )
    return [f"{'GPU' if gpus else 'CPU'}:{place}" for place in range(number)]

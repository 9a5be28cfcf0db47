"""Which `tf.distribute` strategy trains."""

import tensorflow as tf


def make_strategy(num_devices: int | None = None) -> tf.distribute.Strategy:
    """One device, or `MirroredStrategy` over several.

    Call it before any other use of TensorFlow's devices.

    Args:
        num_devices: how many; None takes every GPU, or the CPU where there is none. Without GPUs,
            a number above 1 splits the CPU into that many logical devices: no faster, but the same
            program as on so many GPUs.

    Raises:
        ValueError: there are not so many GPUs.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if num_devices is None:
        num_devices = max(1, len(gpus))
    if gpus and num_devices > len(gpus):
        raise ValueError(f"--devices {num_devices}: this machine has {len(gpus)} GPUs")
    if num_devices == 1:
        return tf.distribute.get_strategy()
    if not gpus:
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            [tf.config.LogicalDeviceConfiguration()] * num_devices,
        )
    kind = "GPU" if gpus else "CPU"
    return tf.distribute.MirroredStrategy([f"{kind}:{number}" for number in range(num_devices)])

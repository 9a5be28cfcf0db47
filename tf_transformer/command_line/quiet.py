"""Imports TensorFlow with a notice that it is loading, and without its messages and warnings."""

import atexit
import gc
import logging
import os
import warnings

from tf_transformer.command_line.keras_settings import ignore_limits, use_float32


def import_tensorflow(*, on_cpu: bool = False) -> None:
    """Imports TensorFlow and TensorFlow Text.

    `tensorflow_messages` holds back the messages of C++. Errors are exceptions, so they are still
    reported. The import takes seconds, so a terminal shows a notice meanwhile.

    Keras, which TensorFlow imports, ignores the user's settings, see `keras_settings`. TensorFlow
    takes the memory of a GPU as it needs it, unless the environment sets
    `TF_FORCE_GPU_ALLOW_GROWTH`. By default it would take all of it at once, so that no second
    command could use the GPU.

    Args:
        on_cpu: whether to hide all GPUs, from this process and those that it starts.
    """
    import tqdm

    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    if on_cpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    ignore_limits()
    progress = tqdm.tqdm(
        desc="loading TensorFlow", bar_format="{desc} ...", leave=False, disable=None
    )
    with progress:
        _import_modules()
    # Python collects garbage several times as it exits, 0.2 s each with TensorFlow's modules.
    gc.freeze()
    atexit.register(gc.freeze)
    use_float32()
    _silence_loggers()


def _import_modules():
    import tensorflow  # noqa: F401
    import tensorflow_text  # noqa: F401


def _silence_loggers():
    import absl.logging
    import tensorflow as tf

    tf.get_logger().setLevel(logging.ERROR)
    logging.getLogger("tensorboard").setLevel(logging.ERROR)
    absl.logging.set_verbosity(absl.logging.ERROR)
    warnings.filterwarnings("ignore", module="keras")

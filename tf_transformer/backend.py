"""What computes: the Keras backend, which some modules need to be TensorFlow, and GPUs."""

import keras


def require_tensorflow(part: str) -> None:
    """Checks that the Keras backend is TensorFlow.

    Args:
        part: what needs TensorFlow, for the error message.

    Raises:
        ImportError: the backend is not TensorFlow.
    """
    backend = keras.backend.backend()
    if backend != "tensorflow":
        raise ImportError(
            f"{part} needs Keras with the backend 'tensorflow'. Received: backend {backend!r}. Set "
            "the environment variable KERAS_BACKEND=tensorflow before Keras is imported"
        )


def has_gpu() -> bool:
    """Returns whether TensorFlow computes on a GPU: there is one that is not hidden from it.

    `CUDA_VISIBLE_DEVICES=-1` in the environment, or `tf.config.set_visible_devices([], "GPU")`,
    hides all GPUs. Functions ask when they are traced or called, so hide them before.
    """
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return bool(tf.config.get_visible_devices("GPU"))

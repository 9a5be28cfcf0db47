"""The check of the Keras backend in modules that need TensorFlow."""

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

"""The memory of models that were trained in this process and are no longer used."""

import gc

import keras
from tensorflow.python.framework import ops

_PREFIX = "CustomGradient-"  # of the names that `tf.custom_gradient` gives


def free_trained_models() -> None:
    """Frees what TensorFlow and Keras hold of models that nothing else refers to.

    TensorFlow registers the gradient of each call of `tf.custom_gradient` in a graph for ever, and
    with it the graph, the weights and the slots of the optimizer. Without this function the memory
    of each training remains taken until the process ends.

    No model in use may be traced for its gradients afterwards: one that has been trained may go on.
    """
    keras.backend.clear_session()
    forget_gradients()
    gc.collect()


def forget_gradients() -> None:
    """Removes the gradients that `tf.custom_gradient` has registered, see `free_trained_models`."""
    gradients = ops.gradient_registry._registry
    for name in [name for name in gradients if name.startswith(_PREFIX)]:
        del gradients[name]

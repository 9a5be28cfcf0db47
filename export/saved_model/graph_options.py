"""Which optimizations of TensorFlow an export's functions get, wherever they run."""

import contextlib
from collections.abc import Iterator

import keras
import tensorflow as tf

from tf_transformer.private_interfaces import sublayers
from tf_transformer.quantization.tiled_matmul import TiledProduct


@contextlib.contextmanager
def without_graph_optimizer() -> Iterator[None]:
    """Traces, saves and runs functions without TensorFlow's optimizer of graphs (Grappler).

    A function keeps the options under which it was traced. The optimizer would take two thirds of a
    server's start, and would make a copy of the compiled searches for each signature, which XLA
    compiles separately. It saves little: decoding calls few kernels that it can merge. Functions
    that are compared run under the same options, since it changes what is rounded to bfloat16.
    """
    former = tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False} | former)


def loops_are_calls(model: keras.Model) -> bool:
    """Returns whether the loops of a model's export should stay calls of functions.

    TensorFlow turns a loop into operations that pass each of its variables, among them all weights,
    from step to step one by one, which takes long beside small products. In a loop that is a call,
    however, it multiplies by its own kernels instead of oneDNN's, which take longer for large
    matrices, and round otherwise in bfloat16. The sizes at which products get tiles are those from
    which on oneDNN gains more (`python -m benchmarks.loops`).

    Args:
        model: a model that is prepared for decoding.
    """
    is_tiled = any(isinstance(layer, TiledProduct) for layer in sublayers(model))
    return not is_tiled and all(weight.dtype != "bfloat16" for weight in model.weights)

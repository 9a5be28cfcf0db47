"""Which optimizations of TensorFlow an export's functions get, wherever they run."""

import contextlib
from collections.abc import Iterator

import tensorflow as tf


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

"""Processing a large batch in chunks of rows of similar length."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def map_chunks(
    function: Callable[[Any], Any],
    rows: Any,
    lengths: tf.Tensor,
    chunk_size: int,
    outputs: Any,
    is_compiled: bool = False,
) -> Any:
    """Sorts rows by length, maps them chunk by chunk, and restores their order.

    Short sentences are not padded to the longest of the batch, and the memory is that of one chunk.

    Args:
        function: maps a nest of the rows of a chunk to a nest with the same number of rows.
        rows: nest of tensors or ragged tensors that share their first axis; None stays None.
        lengths: `(rows,)` int32, the lengths to sort by.
        chunk_size: maximum number of rows per chunk.
        outputs: nest of `tf.TensorSpec` of the function's results, without the first axis.
        is_compiled: whether the function is so fast that rows that fit into one chunk are mapped
            as they are. The graph then has a second copy of the function.

    Returns:
        Nest of tensors, in the order of `rows`.
    """
    num_chunks = (tf.size(lengths) + chunk_size - 1) // chunk_size

    def map_sorted():
        return _map_sorted(function, rows, lengths, chunk_size, num_chunks, outputs)

    if not is_compiled:
        return map_sorted()
    return tf.cond(num_chunks == 1, lambda: function(rows), map_sorted)


def _map_sorted(function, rows, lengths, chunk_size, num_chunks, outputs):
    order = tf.argsort(lengths, stable=True)
    rows = tf.nest.map_structure(lambda x: None if x is None else tf.gather(x, order), rows)

    def add_chunk(index, arrays):
        begin, end = index * chunk_size, (index + 1) * chunk_size
        chunk = tf.nest.map_structure(lambda x: None if x is None else x[begin:end], rows)
        results = function(chunk)
        tf.nest.assert_same_structure(results, outputs)
        return index + 1, [
            array.write(index, result)
            for array, result in zip(arrays, tf.nest.flatten(results), strict=True)
        ]

    arrays = [
        tf.TensorArray(
            spec.dtype, 0, dynamic_size=True, element_shape=[None, *spec.shape], infer_shape=False
        )
        for spec in tf.nest.flatten(outputs)
    ]
    _, arrays = tf.while_loop(
        lambda index, _: index < num_chunks,
        add_chunk,
        (tf.constant(0), arrays),
        # One chunk at a time, to limit the memory.
        parallel_iterations=1,
    )
    inverse = tf.argsort(order)
    return tf.nest.pack_sequence_as(
        outputs, [tf.gather(array.concat(), inverse) for array in arrays]
    )

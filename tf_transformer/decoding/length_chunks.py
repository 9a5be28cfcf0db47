"""Sentences of like length together: a large batch as chunks, sorted and put back."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def map_chunks(
    function: Callable[[Any], Any], rows: Any, lengths: tf.Tensor, chunk_size: int, outputs: Any
) -> Any:
    """Maps rows in chunks of like length, one chunk after the other, and restores their order.

    So a short sentence is not padded to the longest of its batch, and memory stays that of a chunk.

    Args:
        function: maps a nest of rows, of a chunk, to a nest of as many rows.
        rows: nest of tensors or ragged tensors with one first axis.
        lengths: `(rows,)` int32, what to sort by.
        chunk_size: most rows of a chunk.
        outputs: nest of `tf.TensorSpec` without the first axis, of the function's result.

    Returns:
        Nest of tensors, in the order of `rows`.
    """
    order = tf.argsort(lengths, stable=True)
    rows = tf.nest.map_structure(lambda x: tf.gather(x, order), rows)
    num_chunks = (tf.size(lengths) + chunk_size - 1) // chunk_size

    def add_chunk(number, arrays):
        chunk = tf.nest.map_structure(
            lambda x: x[number * chunk_size : (number + 1) * chunk_size], rows
        )
        results = function(chunk)
        tf.nest.assert_same_structure(results, outputs)
        return number + 1, [
            array.write(number, result)
            for array, result in zip(arrays, tf.nest.flatten(results), strict=True)
        ]

    arrays = [
        tf.TensorArray(
            spec.dtype, 0, dynamic_size=True, element_shape=[None, *spec.shape], infer_shape=False
        )
        for spec in tf.nest.flatten(outputs)
    ]
    _, arrays = tf.while_loop(
        lambda number, _: number < num_chunks,
        add_chunk,
        (tf.constant(0), arrays),
        # One chunk at a time: together they would need the memory of all.
        parallel_iterations=1,
    )
    places = tf.argsort(order)
    return tf.nest.pack_sequence_as(
        outputs, [tf.gather(array.concat(), places) for array in arrays]
    )

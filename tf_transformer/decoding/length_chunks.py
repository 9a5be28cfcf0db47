"""Processing a large batch in chunks of rows of similar length."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

_FEWEST_ROWS, _MOST_ROWS = 32, 128
# Numbers of a step's hidden vectors; with more, they leave the processor's caches.
_NUMBERS = 2**14


def rows_of_chunk(width: int) -> int:
    """Returns how many sentences a model decodes best together.

    More rows share the cost of starting each operation, as long as their vectors stay in the
    processor's caches, see `python -m benchmarks.chunks`.

    Args:
        width: d_model of the decoder.
    """
    return min(max(_NUMBERS // width, _FEWEST_ROWS), _MOST_ROWS)


def map_chunks(
    function: Callable[[Any], Any],
    rows: Any,
    lengths: tf.Tensor,
    chunk_size: int,
    outputs: Any,
    is_compiled: bool = False,
    is_apart: tf.Tensor | None = None,
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
        is_apart: `(rows,)` bool, rows that share no chunk with the others, unless all rows are
            mapped as they are; None for none.

    Returns:
        Nest of tensors, in the order of `rows`.
    """
    fit_into_one = tf.size(lengths) <= chunk_size

    def map_sorted():
        return _map_sorted(function, rows, lengths, chunk_size, outputs, is_apart)

    if not is_compiled:
        return map_sorted()
    return tf.cond(fit_into_one & (tf.size(lengths) > 0), lambda: function(rows), map_sorted)


def _map_sorted(function, rows, lengths, chunk_size, outputs, is_apart):
    order = tf.argsort(lengths, stable=True)
    bounds = _bounds(0, tf.size(lengths), chunk_size)
    if is_apart is not None:
        is_last = tf.cast(~tf.gather(is_apart, order), tf.int32)
        order = tf.gather(order, tf.argsort(is_last, stable=True))
        num_apart = tf.math.count_nonzero(is_apart, dtype=tf.int32)
        apart = _bounds(0, num_apart, chunk_size)
        bounds = tf.concat([apart, _bounds(num_apart, tf.size(lengths), chunk_size)], axis=0)
    rows = tf.nest.map_structure(lambda x: None if x is None else tf.gather(x, order), rows)

    def add_chunk(index, arrays):
        begin, end = tf.unstack(bounds[index])
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
        lambda index, _: index < tf.shape(bounds)[0],
        add_chunk,
        (tf.constant(0), arrays),
        # One chunk at a time, to limit the memory.
        parallel_iterations=1,
    )
    inverse = tf.argsort(order)
    return tf.nest.pack_sequence_as(
        outputs, [tf.gather(array.concat(), inverse) for array in arrays]
    )


def _bounds(begin, end, chunk_size):
    """Returns where the chunks of consecutive rows begin and end, `(chunks, 2)` int32."""
    begins = tf.range(begin, end, chunk_size)
    return tf.stack([begins, tf.minimum(begins + chunk_size, end)], axis=1)

"""The inverse of a cumulative distribution, for many rows with many entries."""

import tensorflow as tf

# Near the square root of a vocabulary's size, so that both cumulative sums are short.
_BLOCK = 128


def weighted_choice(weights: tf.Tensor, share: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the first index i of each row with w_0 + ... + w_i > share x sum(w) and w_i > 0.

    With a uniform share, this draws i with probability w_i / sum(w). A cumulative sum over all
    entries takes several times as long as a sum, so that it is computed of the sums of blocks, and
    then within the block that has the index.

    Args:
        weights: `(rows, entries)` float32, not negative.
        share: `(rows,)` float32 in [0, 1).

    Returns:
        `(rows,)` int32 indices; and whether there is one, `(rows,)` bool: not if no weight is
        positive, and rarely not because of rounding. The index is 0 where there is none.
    """
    entries = weights.shape[1]
    num_blocks = -(-entries // _BLOCK)
    padded = tf.pad(weights, [[0, 0], [0, num_blocks * _BLOCK - entries]])
    blocks = tf.reshape(padded, (-1, num_blocks, _BLOCK))
    sums = tf.reduce_sum(blocks, axis=2)
    cumulative = tf.cumsum(sums, axis=1)
    threshold = share[:, tf.newaxis] * cumulative[:, -1:]
    block = tf.math.count_nonzero(cumulative <= threshold, axis=1, dtype=tf.int32)
    block = tf.minimum(block, num_blocks - 1)  # all are, if the sum is 0
    inside = tf.gather(blocks, block, batch_dims=1)
    before = tf.gather(cumulative - sums, block, batch_dims=1)[:, tf.newaxis]
    is_behind = (inside > 0) & (before + tf.cumsum(inside, axis=1) > threshold)
    found = tf.reduce_any(is_behind, axis=1)
    first = tf.argmax(tf.cast(is_behind, tf.int32), axis=1, output_type=tf.int32)
    return tf.where(found, block * _BLOCK + first, 0), found

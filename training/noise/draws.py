"""Random numbers for each pair of sentences: functions of its key, without any state.

TensorFlow's stateless random numbers have one seed for a whole tensor, so that those of a row would
depend on the other rows of its batch. Here, a row's numbers are hashes (SipHash) of its key.
"""

import tensorflow as tf

# SipHash is a pseudo-random function for any fixed key.
_SIP_HASH_KEY = (0x7A3E91C5, 0x1F86D20B)


def pair_keys(seed: int, *indices: tf.Tensor) -> tf.Tensor:
    """Returns the keys of pairs.

    Args:
        seed: the random seed.
        *indices: what identifies a pair, such as epoch and line: `(batch,)` integers each.

    Returns:
        `(batch,)` strings.
    """
    return tf.strings.join([str(seed), *map(tf.strings.as_string, indices)], " ")


def part_keys(keys: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
    """Returns the keys of parts of pairs, such as their letters.

    Args:
        keys: the key of the pair of each part, `(parts,)`.
        indices: the index of each part in its pair, `(parts,)`.
    """
    return tf.strings.join([keys, tf.strings.as_string(indices)], "#")


def integers(keys: tf.Tensor, purpose: str, limit: int) -> tf.Tensor:
    """Draws an integer from 0 to `limit - 1` for each key.

    Args:
        keys: `(batch,)` strings.
        purpose: draws for different purposes are independent.
        limit: the number of different integers.

    Returns:
        `(batch,)` int64.
    """
    named = tf.strings.join([keys, purpose], "/")
    return tf.strings.to_hash_bucket_strong(named, limit, key=_SIP_HASH_KEY)


def uniform(keys: tf.Tensor, purpose: str) -> tf.Tensor:
    """Draws a number of [0, 1) for each key, `(batch,)` float32; arguments as of `integers`."""
    return tf.cast(integers(keys, purpose, 2**24), tf.float32) / 2**24


def choices(keys: tf.Tensor, purpose: str, alternatives: list[tf.Tensor]) -> tf.Tensor:
    """Takes each row from one of several tensors, `(batch,)` each, all equally likely."""
    chosen = integers(keys, purpose, len(alternatives))
    return tf.gather(tf.stack(alternatives, axis=1), chosen, batch_dims=1)

"""The tokens that hypotheses may go on with: what is possible, and the best of it."""

from collections.abc import Sequence

import tensorflow as tf

IMPOSSIBLE = float("-inf")


def merge_ends(logits: tf.Tensor, end_ids: Sequence[int]) -> tf.Tensor:
    """Logits `(..., ..., vocab)` in which the first end stands for all of them."""
    if len(end_ids) == 1:
        return logits
    ids = tf.range(tf.shape(logits)[2])
    is_end = tf.reduce_any(ids[:, tf.newaxis] == list(end_ids), axis=1)
    end = tf.reduce_logsumexp(tf.gather(logits, list(end_ids), axis=2), axis=2, keepdims=True)
    return tf.where(ids == end_ids[0], end, tf.where(is_end, IMPOSSIBLE, logits))


def without_repeats(logits: tf.Tensor, ids: tf.Tensor, sizes: tf.Tensor) -> tf.Tensor:
    """Logits without the tokens that would complete an n-gram of a hypothesis a second time.

    A token is out if it stands at a place p of the hypothesis where the n - 1 tokens before p are
    the n - 1 newest ones.

    Args:
        logits: `(rows, beam, vocab)`.
        ids: `(rows, beam, length)`.
        sizes: n of every row, `(rows,)`; 0 leaves the row as it is.
    """
    length = tf.shape(ids)[2]
    sizes = sizes[:, tf.newaxis, tf.newaxis]
    places = tf.range(length)

    def compare(back, repeats):
        """Narrows to places where also the token `back` before is the one `back` from the end."""
        before = tf.roll(ids, back, axis=2)
        newest = ids[:, :, length - back, tf.newaxis]
        same = (before == newest) & (places >= back)
        return back + 1, repeats & (same | (back >= sizes))

    def block():
        repeats = tf.broadcast_to((sizes > 0) & (length >= sizes - 1), tf.shape(ids))
        longest = tf.minimum(tf.reduce_max(sizes), length + 1)
        _, repeats = tf.while_loop(lambda back, _: back < longest, compare, (1, repeats))
        places_of = tf.where(repeats)
        tokens = tf.gather_nd(ids, places_of)
        where = tf.concat([places_of[:, :2], tf.cast(tokens, tf.int64)[:, tf.newaxis]], axis=1)
        gone = tf.fill(tf.shape(tokens), IMPOSSIBLE)
        return tf.tensor_scatter_nd_update(logits, where, gone)

    return tf.cond(tf.reduce_any(sizes > 0) & (length > 0), block, lambda: logits)


def top_k(logits: tf.Tensor, k: int) -> tuple[tf.Tensor, tf.Tensor]:
    """`tf.math.top_k` over a large vocabulary, whose best lie in the k blocks with the best maxima.

    One pass that takes maxima is several times faster than a heap over everything.
    """
    vocab_size = logits.shape[-1]
    block = 64
    if vocab_size < 8 * block * k:
        return tf.math.top_k(logits, k)
    blocks = -(-vocab_size // block)
    padding = [[0, 0], [0, 0], [0, blocks * block - vocab_size]]
    if blocks * block != vocab_size:
        logits = tf.pad(logits, padding, constant_values=IMPOSSIBLE)
    logits = tf.reshape(logits, (-1, logits.shape[1], blocks, block))
    _, chosen = tf.math.top_k(tf.reduce_max(logits, axis=3), k)
    chosen = tf.sort(chosen, axis=2)  # so that of equal ones the first comes first, as in top_k
    candidates = tf.reshape(
        tf.gather(logits, chosen, batch_dims=2), (-1, logits.shape[1], k * block)
    )
    best, places = tf.math.top_k(candidates, k)
    ids = tf.gather(chosen, places // block, batch_dims=2) * block + places % block
    return best, ids


def log_sum_exp(logits: tf.Tensor) -> tf.Tensor:
    """log sum exp(x) = max x - log max softmax(x): softmax is one kernel, its parts are four."""
    highest = tf.reduce_max(tf.nn.softmax(logits), axis=2, keepdims=True)
    return tf.reduce_max(logits, axis=2, keepdims=True) - tf.math.log(highest)

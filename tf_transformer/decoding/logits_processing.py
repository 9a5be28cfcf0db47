"""Operations on logits: merging end tokens, blocking repeated n-grams, and top-k."""

import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

IMPOSSIBLE = float("-inf")  # the logit or log-probability of a token that must not be chosen


def merge_end_ids(logits: tf.Tensor, end_ids: Sequence[int]) -> tf.Tensor:
    """Gives the first end id the probability of all end ids together, and the others 0.

    Args:
        logits: `(batch, length or beam, vocab)`.
        end_ids: tokens that end an output.

    Returns:
        Tensor of the shape of `logits`.
    """
    if len(end_ids) == 1:
        return logits
    ids = tf.range(tf.shape(logits)[2])
    is_end = tf.reduce_any(ids[:, tf.newaxis] == list(end_ids), axis=1)
    end = tf.reduce_logsumexp(tf.gather(logits, list(end_ids), axis=2), axis=2, keepdims=True)
    return tf.where(ids == end_ids[0], end, tf.where(is_end, IMPOSSIBLE, logits))


def block_repeated_ngrams(logits: tf.Tensor, ids: tf.Tensor, sizes: tf.Tensor) -> tf.Tensor:
    """Sets the logits of tokens that would repeat an n-gram of their hypothesis to -inf.

    The token at position p of a hypothesis is blocked if the n - 1 tokens before p are equal to the
    n - 1 newest tokens.

    Args:
        logits: `(rows, beam, vocab)`.
        ids: `(rows, beam, length)`.
        sizes: n of every row, `(rows,)`; 0 leaves the row unchanged.

    Returns:
        Tensor of the shape of `logits`.
    """

    def block():
        repeat_indices = tf.where(_repeated_positions(ids, sizes))  # (repeats, 3)
        tokens = tf.cast(tf.gather_nd(ids, repeat_indices), tf.int64)
        logit_indices = tf.concat([repeat_indices[:, :2], tokens[:, tf.newaxis]], axis=1)
        blocked = tf.fill(tf.shape(tokens), IMPOSSIBLE)
        return tf.tensor_scatter_nd_update(logits, logit_indices, blocked)

    return tf.cond(tf.reduce_any(sizes > 0) & (tf.shape(ids)[2] > 0), block, lambda: logits)


def ends_in_repeated_ngram(ids: tf.Tensor, sizes: tf.Tensor) -> tf.Tensor:
    """Returns whether hypotheses end in an n-gram that they contain twice, `(rows, beam)` bool.

    Their last tokens are those that `block_repeated_ngrams` would have blocked.

    Args:
        ids: `(rows, beam, length)`, at least one token.
        sizes: n of every row, `(rows,)`; for 0 no n-gram counts.
    """
    before, last = ids[:, :, :-1], ids[:, :, -1:]
    return tf.reduce_any(_repeated_positions(before, sizes) & (before == last), axis=2)


def _repeated_positions(ids, sizes):
    """Returns the positions whose tokens are blocked, `(rows, beam, length)` bool."""
    length = tf.shape(ids)[2]
    sizes = sizes[:, tf.newaxis, tf.newaxis]
    positions = tf.range(length)

    def compare(back, repeats):
        """Keeps the positions p where token p - `back` equals the `back`-th token from the end."""
        previous = tf.roll(ids, back, axis=2)
        newest = ids[:, :, length - back, tf.newaxis]
        same = (previous == newest) & (positions >= back)
        return back + 1, repeats & (same | (back >= sizes))

    repeats = tf.broadcast_to((sizes > 0) & (length >= sizes - 1), tf.shape(ids))
    longest = tf.minimum(tf.reduce_max(sizes), length + 1)
    _, repeats = tf.while_loop(lambda back, _: back < longest, compare, (1, repeats))
    return repeats


def forbid(logits: tf.Tensor, tokens: Sequence[int]) -> tf.Tensor:
    """Sets the logits of some tokens to -inf.

    Args:
        logits: `(..., vocab)` float32.
        tokens: the ids.
    """
    if not tokens:
        return logits
    vocab_size = logits.shape[-1]
    if vocab_size is None:
        ids = tf.range(tf.shape(logits)[-1])
        is_forbidden = tf.reduce_any(ids[:, tf.newaxis] == list(tokens), axis=1)
    else:
        is_forbidden = np.isin(np.arange(vocab_size), tokens)
    return logits + tf.where(is_forbidden, IMPOSSIBLE, 0.0)


def top_k(logits: tf.Tensor, k: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes `tf.math.top_k`, several times faster.

    The k largest logits are in the k blocks with the largest maxima, so that TensorFlow's heap gets
    few numbers. `python -m benchmarks.choices` measures it.

    Args:
        logits: `(rows, beam, vocab)`.
        k: number of tokens.

    Returns:
        The logits and ids of the best tokens, `(rows, beam, k)`.
    """
    vocab_size = logits.shape[-1]
    if vocab_size is not None and vocab_size < 8 * k:
        return tf.math.top_k(logits, k)
    blocks, block = _in_blocks(logits, k)
    _, chosen = tf.math.top_k(tf.reduce_max(blocks, axis=3), k)
    chosen = tf.sort(chosen, axis=2)  # of equal logits the first is chosen, as by tf.math.top_k
    candidates = tf.reshape(
        tf.gather(blocks, chosen, batch_dims=2), (-1, logits.shape[1], k * block)
    )
    best, indices = tf.math.top_k(candidates, k)
    ids = tf.gather(chosen, indices // block, batch_dims=2) * block + indices % block
    return best, ids


def best_token(logits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes `top_k` with k = 1.

    Args:
        logits: `(rows, vocab)`.

    Returns:
        The best logits and their ids, both `(rows,)`.
    """
    blocks, block = _in_blocks(logits[:, tf.newaxis], 1)
    highest = tf.reduce_max(blocks, axis=3)[:, 0]
    chosen = tf.argmax(highest, axis=1, output_type=tf.int32)
    candidates = tf.gather(blocks[:, 0], chosen, batch_dims=1)
    index = tf.argmax(candidates, axis=1, output_type=tf.int32)
    return tf.reduce_max(highest, axis=1), chosen * block + index


def _in_blocks(logits, k):
    """Returns logits as `(rows, beam, blocks, block)`, and the size of a block.

    A block has about as many entries as there are blocks for each of the k, which is fastest. The
    last one may be filled up with -inf.
    """
    vocab_size = logits.shape[-1] or 64 * 64 * k  # that of a batch's own candidates is unknown
    block = 2 ** max(round(math.log2(vocab_size / k) / 2), 1)
    if logits.shape[-1] is None:
        size = tf.shape(logits)[-1]
        num_blocks = tf.maximum((size + block - 1) // block, k)
        added = num_blocks * block - size
    else:
        # Without a rest nothing is copied.
        exact = [x for x in range(block // 2 + 1, 2 * block) if vocab_size % x == 0]
        block = min(exact, key=lambda x: abs(x - block), default=block)
        num_blocks = -(-vocab_size // block)
        added = num_blocks * block - vocab_size
    if not isinstance(added, int) or added:
        logits = tf.pad(logits, [[0, 0], [0, 0], [0, added]], constant_values=IMPOSSIBLE)
    return tf.reshape(logits, (-1, logits.shape[1], num_blocks, block)), block


def log_sum_exp(logits: tf.Tensor) -> tf.Tensor:
    """Computes log sum exp(x) as max x - log max softmax(x).

    The softmax is a single kernel; `tf.reduce_logsumexp` needs four.

    Args:
        logits: x, `(rows, beam, vocab)`.

    Returns:
        `(rows, beam, 1)`.
    """
    highest = tf.reduce_max(tf.nn.softmax(logits), axis=2, keepdims=True)
    return tf.reduce_max(logits, axis=2, keepdims=True) - tf.math.log(highest)

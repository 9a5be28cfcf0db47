"""Operations on logits: merging end tokens, blocking repeated n-grams, and top-k."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

IMPOSSIBLE = float("-inf")  # the logit or log-probability of a token that must not be chosen
# From this size on, a vocabulary is not copied to forbid tokens.
_LARGE = 4096


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


def is_among(ids: tf.Tensor, tokens: Sequence[int]) -> tf.Tensor:
    """Returns whether ids, int32 of any shape, are some of a few tokens, bool of that shape."""
    return tf.reduce_any(ids[..., tf.newaxis] == tf.constant(tokens, tf.int32), axis=-1)


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


def top_k(logits: tf.Tensor, k: int, forbidden: Sequence[int] = ()) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes `tf.math.top_k(forbid(logits, forbidden), k)`, several times faster.

    The k largest logits are in the k blocks with the largest maxima, so that TensorFlow's heap gets
    few numbers. `python -m benchmarks.choices` measures it.

    Args:
        logits: `(rows, beam, vocab)`.
        k: number of tokens.
        forbidden: tokens that are never among the best, unless there are too few others.

    Returns:
        The logits and ids of the best tokens, `(rows, beam, k)`.
    """
    vocab_size = logits.shape[-1]
    if vocab_size is not None and vocab_size < 8 * k:
        return tf.math.top_k(forbid(logits, forbidden), k)
    blocks = _Blocks.of(logits, k, forbidden)
    _, chosen = tf.math.top_k(blocks.maxima(), k)
    chosen = tf.sort(chosen, axis=2)  # of equal logits the first is chosen, as by tf.math.top_k
    candidates = tf.reshape(blocks.select(chosen), (-1, logits.shape[1], k * blocks.size))
    best, indices = tf.math.top_k(candidates, k)
    ids = tf.gather(chosen, indices // blocks.size, batch_dims=2) * blocks.size
    return best, ids + indices % blocks.size


def best_token(logits: tf.Tensor, forbidden: Sequence[int] = ()) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes `top_k` with k = 1.

    Args:
        logits: `(rows, vocab)`.
        forbidden: see `top_k`.

    Returns:
        The best logits and their ids, both `(rows,)`.
    """
    blocks = _Blocks.of(logits[:, tf.newaxis], 1, forbidden)
    highest = blocks.maxima()
    chosen = tf.argmax(highest, axis=2, output_type=tf.int32)  # (rows, 1)
    candidates = blocks.select(chosen[:, :, tf.newaxis])[:, 0, 0]
    index = tf.argmax(candidates, axis=1, output_type=tf.int32)
    return tf.reduce_max(highest, axis=2)[:, 0], chosen[:, 0] * blocks.size + index


class _Blocks(NamedTuple):
    """Logits in blocks of adjacent tokens.

    To forbid tokens of the first block takes no copy of all logits.

    Attributes:
        logits: `(rows, beam, blocks, size)`.
        size: number of tokens of a block.
        first: `(size,)`, added to the logits of the first block; or None.
    """

    logits: tf.Tensor
    size: int
    first: np.ndarray | None

    @classmethod
    def of(cls, logits: tf.Tensor, k: int, forbidden: Sequence[int]) -> "_Blocks":
        """Returns the blocks for a search of the `k` best of `(rows, beam, vocab)` logits."""
        size = _block_size(logits.shape[-1], k)
        first = None
        if (logits.shape[-1] or 0) >= _LARGE and max(forbidden, default=size) < size:
            is_forbidden = np.isin(np.arange(size), forbidden)
            first = np.where(is_forbidden, IMPOSSIBLE, 0.0).astype("float32")
        else:
            logits = forbid(logits, forbidden)
        return cls(_in_blocks(logits, k, size), size, first)

    def maxima(self) -> tf.Tensor:
        """Returns the largest logit of each block, `(rows, beam, blocks)`."""
        highest = tf.reduce_max(self.logits, axis=3)
        if self.first is None:
            return highest
        of_first = tf.reduce_max(self.logits[:, :, 0] + self.first, axis=2, keepdims=True)
        return tf.concat([of_first, highest[:, :, 1:]], axis=2)

    def select(self, chosen: tf.Tensor) -> tf.Tensor:
        """Returns blocks, `(rows, beam, n, size)`, by their indices, `(rows, beam, n)` int32."""
        selected = tf.gather(self.logits, chosen, batch_dims=2)
        if self.first is None:
            return selected
        return selected + tf.where((chosen == 0)[..., tf.newaxis], self.first, 0.0)


def _block_size(vocab_size, k):
    """Returns the number of tokens of a block.

    There are about as many as blocks for each of the k, which is fastest.
    """
    expected = vocab_size or 64 * 64 * k  # that of a batch's own candidates is unknown
    size = 2 ** max(round(math.log2(expected / k) / 2), 1)
    if vocab_size is None:
        return size
    # Without a rest nothing is copied.
    exact = [x for x in range(size // 2 + 1, 2 * size) if vocab_size % x == 0]
    return min(exact, key=lambda x: abs(x - size), default=size)


def _in_blocks(logits, k, block):
    """Returns logits as `(rows, beam, blocks, block)`; -inf fills up the last block."""
    if logits.shape[-1] is None:
        size = tf.shape(logits)[-1]
        num_blocks = tf.maximum((size + block - 1) // block, k)
        added = num_blocks * block - size
    else:
        num_blocks = -(-logits.shape[-1] // block)
        added = num_blocks * block - logits.shape[-1]
    if not isinstance(added, int) or added:
        logits = tf.pad(logits, [[0, 0], [0, 0], [0, added]], constant_values=IMPOSSIBLE)
    return tf.reshape(logits, (-1, logits.shape[1], num_blocks, block))


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

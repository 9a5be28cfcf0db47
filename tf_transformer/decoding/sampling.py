"""Translations drawn at random from a model's distribution."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tf_transformer.decoding.beam_search import StepModel
from tf_transformer.decoding.logits_processing import merge_ends

_LARGEST_TEMPERATURE = 1e6


class SamplingOptions(NamedTuple):
    """How each row is drawn, `(rows,)` tensors.

    Attributes:
        temperature: float32; logits are divided by it. 0 takes the most probable token.
        top_k: int32, draws among so many most probable tokens; 0 among all.
        top_p: float32, among the fewest most probable tokens that have this probability together
            (Holtzman et al., 2020); 0 or 1 among all.
        seed: int64; the same seed, source and options give the same sample, whatever else is in
            the batch.
        max_length: int32, most tokens.
    """

    temperature: tf.Tensor
    top_k: tf.Tensor
    top_p: tf.Tensor
    seed: tf.Tensor
    max_length: tf.Tensor


class Samples(NamedTuple):
    """What was drawn.

    Attributes:
        ids: `(rows, length)` int32, without begin and end id, padded with 0.
        log_probs: `(rows,)` float32, log p(ids, end | source) of the model itself, in nats.
        lengths: `(rows,)` int32.
    """

    ids: tf.Tensor
    log_probs: tf.Tensor
    lengths: tf.Tensor


def sample(
    model: StepModel,
    state: Any,
    *,
    begin_id: int,
    end_ids: Sequence[int],
    options: SamplingOptions,
    suppressed_ids: tuple[int, ...] = (),
) -> Samples:
    """Draws one output for each row, token by token.

    Args:
        model: as for `beam_search`, with a beam of 1.
        state: of the model, before any token.
        begin_id, end_ids, suppressed_ids: see `beam_search`.
        options: of every row.
    """
    rows = tf.shape(options.seed)[0]
    alone = tf.zeros((rows, 1), tf.int32)

    def advance(step, newest, ids, log_probs, lengths, done, state):
        state = tf.cond(
            (step > 0) & (step % model.compaction_interval == 0),
            lambda: model.select_rows(tf.range(rows), ~done[:, None], alone, step, state),
            lambda: state,
        )
        logits, _, state = model.decode_step(newest[:, tf.newaxis], alone, step, state)
        logits = merge_ends(logits, end_ids)[:, 0]
        drawn = _draw(logits, step, options, suppressed_ids)
        drawn = tf.where(done | (step >= options.max_length), end_ids[0], drawn)
        gained = tf.gather(tf.nn.log_softmax(logits), drawn, batch_dims=1)
        log_probs += tf.where(done, 0.0, gained)
        done |= drawn == end_ids[0]
        ids = tf.concat([ids, tf.where(done, 0, drawn)[:, tf.newaxis]], axis=1)
        return step + 1, drawn, ids, log_probs, lengths + tf.cast(~done, tf.int32), done, state

    loop = (
        tf.constant(0),
        tf.fill((rows,), begin_id),
        alone[:, :0],
        tf.zeros((rows,)),
        tf.zeros((rows,), tf.int32),
        tf.fill((rows,), False),
        state,
    )
    free = [tf.TensorShape([]), *(tf.TensorShape([None] * n) for n in (1, 2, 1, 1, 1))]
    shapes = tf.nest.map_structure(lambda x: tf.TensorShape([None] * x.shape.rank), state)
    _, _, ids, log_probs, lengths, _, _ = tf.while_loop(
        lambda step, newest, ids, log_probs, lengths, done, state: ~tf.reduce_all(done),
        advance,
        loop,
        shape_invariants=(*free, shapes),
    )
    return Samples(ids, log_probs, lengths)


def _draw(logits, step, options, suppressed_ids):
    """One token a row, `(rows,)`: the first at which the cumulative probability exceeds u."""
    vocab_size = logits.shape[1]
    for token in suppressed_ids:
        logits = tf.where(tf.range(vocab_size) == token, float("-inf"), logits)
    is_greedy = options.temperature <= 0
    # NaN is as good as 1; beyond the largest all tokens are alike already.
    is_usable = options.temperature > 0
    temperature = tf.minimum(tf.where(is_usable, options.temperature, 1.0), _LARGEST_TEMPERATURE)
    temperature = temperature[:, tf.newaxis]
    ordered, ids = tf.math.top_k(logits / temperature, vocab_size)
    probabilities = tf.nn.softmax(ordered)
    ranks = tf.range(vocab_size)
    before = tf.cumsum(probabilities, axis=1, exclusive=True)
    top_k = tf.where(options.top_k > 0, options.top_k, vocab_size)
    top_k = tf.where(is_greedy, 1, top_k)[:, tf.newaxis]
    top_p = tf.where(options.top_p > 0, options.top_p, 1.0)[:, tf.newaxis]
    kept = (ranks < top_k) & ((before < top_p) | (ranks == 0))
    cumulative = tf.cumsum(tf.where(kept, probabilities, 0.0), axis=1)
    threshold = uniform(options.seed, step)[:, tf.newaxis] * cumulative[:, -1:]
    place = tf.math.count_nonzero(cumulative <= threshold, axis=1, dtype=tf.int32)
    last = tf.math.count_nonzero(kept, axis=1, dtype=tf.int32) - 1
    return tf.gather(ids, tf.minimum(place, last), batch_dims=1)


def uniform(seed: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
    """A number in [0, 1) from each seed and the step alone, by splitmix64's mixing.

    TensorFlow's generators take one seed for a whole tensor, so that a row's draw would depend on
    its place in the batch.
    """
    golden, first, second = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB

    def shifted(x, bits):
        return tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, tf.constant(bits, tf.uint64)))

    x = tf.bitcast(tf.cast(seed, tf.int64), tf.uint64)
    for _ in range(2):  # the seed alone first, so that seeds in a row have nothing in common
        x = shifted(x + tf.constant(golden, tf.uint64), 30) * tf.constant(first, tf.uint64)
        x = shifted(x, 27) * tf.constant(second, tf.uint64)
        x = shifted(x, 31) + tf.cast(step, tf.uint64)
    x = shifted(x * tf.constant(first, tf.uint64), 31)
    # The 24 highest bits, as many as float32 holds.
    return tf.cast(tf.bitwise.right_shift(x, tf.constant(40, tf.uint64)), tf.float32) * 2.0**-24

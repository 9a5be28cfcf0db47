"""Sampling: outputs drawn at random from a model's distribution."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tf_transformer.decoding.logits_processing import IMPOSSIBLE, merge_end_ids
from tf_transformer.decoding.search_interface import StepModel
from tf_transformer.decoding.weighted_choice import weighted_choice

_LARGEST_TEMPERATURE = 1e6


class SamplingOptions(NamedTuple):
    """Per-row options, `(rows,)` tensors; `top_k`, `top_p` and `epsilon` may be None.

    Without `top_k` and `top_p`, the vocabulary need not be sorted, which is faster.

    Attributes:
        temperature: float32, divisor of the logits; 0 takes the most probable token.
        top_k: int32, number of most probable tokens to draw from; 0 means all.
        top_p: float32, draws from the smallest set of most probable tokens whose total probability
            is at least `top_p` (Holtzman et al., 2020); 0 or 1 means all.
        seed: int64; the same seed, source and options give the same sample, whatever the other rows
            of the batch.
        max_length: int32, maximum number of tokens.
        epsilon: float32, draws from the tokens with at least this probability, or else takes the
            most probable one (Hewitt et al., 2022); 0 means all.
    """

    temperature: tf.Tensor
    top_k: tf.Tensor | None
    top_p: tf.Tensor | None
    seed: tf.Tensor
    max_length: tf.Tensor
    epsilon: tf.Tensor | None = None


class Samples(NamedTuple):
    """One sample per row.

    Attributes:
        ids: `(rows, length)` int32, without begin and end id, padded with 0.
        log_probs: `(rows,)` float32, log p(ids, end | source) in nats, of the model's distribution
            before temperature, `top_k`, `top_p` and `epsilon`.
        lengths: `(rows,)` int32, number of tokens in `ids`.
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
    prefix: tf.Tensor | None = None,
    suppressed_ids: tuple[int, ...] = (),
) -> Samples:
    """Draws one output for each row, token by token.

    Args:
        model: model to draw from, with a beam of 1, see `StepModel`.
        state: the model's state before the first token.
        begin_id: the token before the first.
        end_ids: tokens that end an output, see `beam_search`.
        options: per-row options.
        prefix: `(rows, prefix_length)` int32, tokens that every output starts with; they count for
            `lengths` and `max_length`, not for `log_probs`.
        suppressed_ids: tokens that are never drawn.
    """
    rows = tf.shape(options.seed)[0]
    parents = tf.zeros((rows, 1), tf.int32)  # the only hypothesis of each row
    prefix = parents[:, :0] if prefix is None else prefix
    num_given = tf.shape(prefix)[1]
    given = tf.pad(prefix, [[0, 0], [0, 1]])

    def advance(step, newest, ids, log_probs, lengths, done, state):
        state = tf.cond(
            (step > 0) & (step % model.compaction_interval == 0),
            lambda: model.select_rows(tf.range(rows), ~done[:, None], parents, step, state),
            lambda: state,
        )
        logits, _, state = model.decode_step(newest[:, tf.newaxis], parents, step, state)
        logits = merge_end_ids(logits, end_ids)[:, 0]
        drawn = _draw(logits, step, options, suppressed_ids)
        is_given = step < num_given
        drawn = tf.where(is_given, given[:, tf.minimum(step, num_given)], drawn)
        drawn = tf.where(done | (step >= options.max_length), end_ids[0], drawn)
        drawn_log_probs = tf.gather(tf.nn.log_softmax(logits), drawn, batch_dims=1)
        log_probs += tf.where(done | is_given, 0.0, drawn_log_probs)
        done |= drawn == end_ids[0]
        ids = tf.concat([ids, tf.where(done, 0, drawn)[:, tf.newaxis]], axis=1)
        return step + 1, drawn, ids, log_probs, lengths + tf.cast(~done, tf.int32), done, state

    loop = (
        tf.constant(0),
        tf.fill((rows,), begin_id),
        parents[:, :0],
        tf.zeros((rows,)),
        tf.zeros((rows,), tf.int32),
        tf.fill((rows,), False),
        state,
    )
    shapes = [tf.TensorShape([]), *(tf.TensorShape([None] * n) for n in (1, 2, 1, 1, 1))]
    state_shapes = tf.nest.map_structure(lambda x: tf.TensorShape([None] * x.shape.rank), state)
    _, _, ids, log_probs, lengths, _, _ = tf.while_loop(
        lambda step, newest, ids, log_probs, lengths, done, state: ~tf.reduce_all(done),
        advance,
        loop,
        shape_invariants=(*shapes, state_shapes),
    )
    return Samples(ids, log_probs, lengths)


def _draw(logits, step, options, suppressed_ids):
    """Draws one token per row, `(rows,)`: the first whose cumulative probability exceeds u."""
    vocab_size = logits.shape[1]
    is_suppressed = np.isin(np.arange(vocab_size), suppressed_ids)
    logits = tf.where(is_suppressed, IMPOSSIBLE, logits)
    is_greedy = options.temperature <= 0
    # NaN becomes 1. At the largest temperature the distribution is practically uniform.
    is_usable = options.temperature > 0
    temperature = tf.minimum(tf.where(is_usable, options.temperature, 1.0), _LARGEST_TEMPERATURE)
    temperature = temperature[:, tf.newaxis]
    if options.top_k is None and options.top_p is None:
        return _draw_unsorted(logits / temperature, step, options, is_greedy)
    ordered, ids = tf.math.top_k(logits / temperature, vocab_size)
    probabilities = tf.nn.softmax(ordered)
    ranks = tf.range(vocab_size)
    preceding = tf.cumsum(probabilities, axis=1, exclusive=True)
    given_k = tf.zeros_like(options.seed, tf.int32) if options.top_k is None else options.top_k
    top_k = tf.where(given_k > 0, given_k, vocab_size)
    top_k = tf.where(is_greedy, 1, top_k)[:, tf.newaxis]
    given_p = tf.zeros_like(options.temperature) if options.top_p is None else options.top_p
    top_p = tf.where(given_p > 0, given_p, 1.0)[:, tf.newaxis]
    kept = (ranks < top_k) & ((preceding < top_p) | (ranks == 0))
    if options.epsilon is not None:
        kept &= (probabilities >= options.epsilon[:, tf.newaxis]) | (ranks == 0)
    cumulative = tf.cumsum(tf.where(kept, probabilities, 0.0), axis=1)
    threshold = uniform(options.seed, step)[:, tf.newaxis] * cumulative[:, -1:]
    rank = tf.math.count_nonzero(cumulative <= threshold, axis=1, dtype=tf.int32)
    last_rank = tf.math.count_nonzero(kept, axis=1, dtype=tf.int32) - 1
    return tf.gather(ids, tf.minimum(rank, last_rank), batch_dims=1)


def _draw_unsorted(logits, step, options, is_greedy):
    """Draws one token per row without `top_k` and `top_p`, in the order of the vocabulary.

    Args:
        logits: `(rows, vocab)`, divided by the temperature.
        step: number of the token.
        options: the options.
        is_greedy: `(rows,)` bool, whether to take the most probable token.
    """
    probabilities = tf.nn.softmax(logits)
    most_probable = tf.argmax(probabilities, axis=1, output_type=tf.int32)
    if options.epsilon is not None:
        is_kept = probabilities >= options.epsilon[:, tf.newaxis]
        probabilities = tf.where(is_kept, probabilities, 0.0)
    drawn, found = weighted_choice(probabilities, uniform(options.seed, step))
    return tf.where(found & ~is_greedy, drawn, most_probable)


def uniform(seed: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
    """Returns a number in [0, 1) that depends only on the seed and the step, by splitmix64.

    TensorFlow's generators take one seed per tensor, so a row's number would depend on its index in
    the batch.

    Args:
        seed: `(rows,)` int64.
        step: `()` int32.

    Returns:
        `(rows,)` float32.
    """
    golden, first, second = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB

    def shifted(x, bits):
        return tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, tf.constant(bits, tf.uint64)))

    x = tf.bitcast(tf.cast(seed, tf.int64), tf.uint64)
    for _ in range(2):  # two rounds, so that consecutive seeds give independent numbers
        x = shifted(x + tf.constant(golden, tf.uint64), 30) * tf.constant(first, tf.uint64)
        x = shifted(x, 27) * tf.constant(second, tf.uint64)
        x = shifted(x, 31) + tf.cast(step, tf.uint64)
    x = shifted(x * tf.constant(first, tf.uint64), 31)
    # The 24 highest bits: a float32 has 24 significant bits.
    return tf.cast(tf.bitwise.right_shift(x, tf.constant(40, tf.uint64)), tf.float32) * 2.0**-24

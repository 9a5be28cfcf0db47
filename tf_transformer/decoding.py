"""Greedy and beam search over a step function; they know no model.

A step function maps the newest token of every hypothesis, `(batch, beam)` int32, and a cache to
the logits of the next token, `(batch, beam, vocab)` float32, and the new cache. The cache is a
nest of tensors whose first two axes are batch and beam; an axis of static size 0 grows.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

StepFunction = Callable[[tf.Tensor, Any], tuple[tf.Tensor, Any]]

MAX_BEAM_SIZE = 1000

_IMPOSSIBLE = float("-inf")


class Hypotheses(NamedTuple):
    """What a search found, best first.

    Attributes:
        ids: `(batch, beam, length)` int32, without begin and end id, padded with 0.
        scores: `(batch, beam)` float32, `log_probs / length_penalty`; -inf where there are fewer
            hypotheses than the beam could hold.
        log_probs: `(batch, beam)` float32, log p(ids, end | source) in nats.
        lengths: `(batch, beam)` int32, tokens in `ids`.
    """

    ids: tf.Tensor
    scores: tf.Tensor
    log_probs: tf.Tensor
    lengths: tf.Tensor


def length_penalty(length: Any, alpha: float) -> tf.Tensor:
    """lp(n) = ((5 + n) / 6)^alpha   (Wu et al., 2016, equation 14).

    Args:
        length: n, tokens of a hypothesis, its end token included.
        alpha: 0 ranks by log-probability, which favours short outputs; 1 nearly by the mean.

    Returns:
        float32, of the shape of `length`.
    """
    return ((5.0 + tf.cast(length, tf.float32)) / 6.0) ** alpha


def check_search_arguments(beam_size: int, num_best: int, alpha: float) -> None:
    """Refuses what a beam search cannot do.

    Raises:
        ValueError: names the argument, what is expected and what came.
    """
    if not 1 <= beam_size <= MAX_BEAM_SIZE:
        raise ValueError(
            f"`beam_size` must be between 1 and {MAX_BEAM_SIZE}. Received: beam_size={beam_size}"
        )
    if not 1 <= num_best <= beam_size:
        raise ValueError(
            "`num_best` must be between 1 and `beam_size`. "
            f"Received: num_best={num_best}, beam_size={beam_size}"
        )
    if not alpha >= 0:
        raise ValueError(f"The length penalty's alpha must not be negative. Received: {alpha}")


def with_ends(step_function: StepFunction, end_ids: Sequence[int]) -> StepFunction:
    """Lets any of several tokens end a hypothesis, for a search whose end id is the first of them.

    The end's probability becomes the sum of theirs, and the others are never chosen, so that no
    output is found twice under different ends.

    Args:
        step_function: of the model.
        end_ids: at least one.
    """
    if len(end_ids) == 1:
        return step_function

    def step(newest, cache):
        logits, cache = step_function(newest, cache)
        ids = tf.range(tf.shape(logits)[2])
        is_end = tf.reduce_any(ids[:, tf.newaxis] == list(end_ids), axis=1)
        end = tf.reduce_logsumexp(tf.gather(logits, list(end_ids), axis=2), axis=2, keepdims=True)
        logits = tf.where(is_end, _IMPOSSIBLE, logits)
        return tf.where(ids == end_ids[0], end, logits), cache

    return step


def greedy_search(
    step_function: StepFunction,
    cache: Any,
    *,
    begin_id: int,
    end_id: int,
    max_lengths: tf.Tensor,
    alpha: float = 0.0,
    suppressed_ids: Sequence[int] = (),
) -> Hypotheses:
    """Takes the most probable token at every step, until the end id.

    Args: as for `beam_search`; the cache's beam axis has size 1.

    Returns:
        Hypotheses with a beam of 1.
    """

    def unfinished(step, ids, newest, log_probs, lengths, done, cache):
        return ~tf.reduce_all(done)

    def advance(step, ids, newest, log_probs, lengths, done, cache):
        logits, cache = step_function(newest, cache)
        token_ids, token_log_probs = _best_tokens(
            logits, 1, end_id, suppressed_ids, must_end=step >= max_lengths
        )
        newest = tf.where(done, end_id, token_ids[:, :, 0])
        log_probs += tf.where(done, 0.0, token_log_probs[:, :, 0])
        done |= newest == end_id
        lengths += tf.cast(~done, tf.int32)
        ids = tf.concat([ids, tf.where(done, 0, newest)[:, :, tf.newaxis]], axis=2)
        return step + 1, ids, newest, log_probs, lengths, done, cache

    batch_size = tf.shape(max_lengths)[0]
    state = (
        tf.constant(0),
        tf.zeros((batch_size, 1, 0), tf.int32),
        tf.fill((batch_size, 1), begin_id),
        tf.zeros((batch_size, 1)),
        tf.zeros((batch_size, 1), tf.int32),
        tf.zeros((batch_size, 1), tf.bool),
        cache,
    )
    _, ids, _, log_probs, lengths, _, _ = tf.while_loop(
        unfinished, advance, state, shape_invariants=tf.nest.map_structure(_growing_shape, state)
    )
    scores = log_probs / length_penalty(lengths + 1, alpha)
    return Hypotheses(ids, scores, log_probs, lengths)


def beam_search(
    step_function: StepFunction,
    cache: Any,
    *,
    beam_size: int,
    begin_id: int,
    end_id: int,
    max_lengths: tf.Tensor,
    alpha: float = 0.0,
    num_best: int = 1,
    suppressed_ids: Sequence[int] = (),
) -> Hypotheses:
    """Keeps the `beam_size` most probable hypotheses at every step.

    Each step ranks all one-token extensions of a sentence's live hypotheses by log-probability and
    keeps the best. Those that end leave the beam, which narrows by one for each, and wait apart,
    ranked by score = log-probability / length penalty. So live and finished hypotheses together
    never exceed `beam_size`, a beam of 1 is greedy search, and a beam as wide as the number of
    possible outputs is exhaustive search.

    A sentence is done once no live hypothesis can still enter its `num_best` best: a
    log-probability only falls, so a live one never scores above its log-probability over the
    penalty of the longest output allowed. This stop never changes the `num_best` best. Rows of the
    batch do not influence each other.

    Args:
        step_function: see the module's description.
        cache: before any token; beam axis of size `beam_size`.
        beam_size: width of the beam.
        begin_id: first input of the step function.
        end_id: ends a hypothesis.
        max_lengths: `(batch,)` int32, most tokens of an output, at least 0, not counting the end
            token; a hypothesis that reaches it can only end.
        alpha: exponent of the length penalty, at least 0.
        num_best: how many hypotheses of each sentence the caller wants, at most `beam_size`.
        suppressed_ids: never chosen; probabilities are not renormalised.

    Returns:
        The finished hypotheses, best first; the first `num_best` are exact, the rest depend on when
        the sentence was done.

    Raises:
        ValueError: `beam_size`, `num_best` or `alpha` is out of range.
    """
    check_search_arguments(beam_size, num_best, alpha)
    # The static size where there is one: inside the loop's body tf.shape would hide it.
    batch_size = max_lengths.shape[0] or tf.shape(max_lengths)[0]
    longest_penalty = length_penalty(max_lengths + 1, alpha)[:, tf.newaxis]

    def unfinished(step, live, finished, cache):
        return tf.reduce_any(_is_open(live, finished))

    def _is_open(live, finished):
        """Rows whose best live hypothesis could still enter the `num_best` best."""
        bound = tf.reduce_max(live.log_probs / longest_penalty, axis=1)
        return bound > finished.scores[:, num_best - 1]

    def advance(step, live, finished, cache):
        is_open = _is_open(live, finished)[:, tf.newaxis]
        logits, cache = step_function(live.newest, cache)
        token_ids, token_log_probs = _best_tokens(
            logits, beam_size, end_id, suppressed_ids, must_end=step >= max_lengths
        )
        # The best extensions of a row, as many as its beam is wide by now.
        extensions = live.log_probs[:, :, tf.newaxis] + token_log_probs
        per_hypothesis = tf.shape(extensions)[2]
        log_probs, chosen = tf.math.top_k(tf.reshape(extensions, (batch_size, -1)), beam_size)
        width = beam_size - _count(finished.scores)
        log_probs = tf.where(tf.range(beam_size) < width, log_probs, _IMPOSSIBLE)
        parents = chosen // per_hypothesis
        newest = tf.gather(tf.reshape(token_ids, (batch_size, -1)), chosen, batch_dims=1)
        ids = tf.gather(live.ids, parents, batch_dims=1)
        ended = newest == end_id
        finished = _add_finished(
            finished, ids, log_probs, tf.fill(tf.shape(newest), step), ended & is_open
        )
        live = _Live(
            ids=tf.concat([ids, newest[:, :, tf.newaxis]], axis=2),
            newest=newest,
            log_probs=tf.where(ended | ~is_open, _IMPOSSIBLE, log_probs),
        )
        return step + 1, live, finished, _reorder(cache, parents, beam_size)

    def _add_finished(finished, ids, log_probs, lengths, ended):
        """Merges newly ended hypotheses into the finished ones, best score first."""
        scores = tf.where(ended, log_probs / length_penalty(lengths + 1, alpha), _IMPOSSIBLE)
        new = Hypotheses(ids, scores, log_probs, lengths)
        both = [tf.concat([old, add], axis=1) for old, add in zip(finished, new, strict=True)]
        _, order = tf.math.top_k(both[1], beam_size)
        ids, scores, log_probs, lengths = (tf.gather(x, order, batch_dims=1) for x in both)
        # One more column, so that finished ids stay as long as live ones.
        return Hypotheses(tf.pad(ids, [[0, 0], [0, 0], [0, 1]]), scores, log_probs, lengths)

    shape = (batch_size, beam_size)
    first_only = tf.range(beam_size) == 0
    state = (
        tf.constant(0),
        _Live(
            ids=tf.zeros((*shape, 0), tf.int32),
            newest=tf.fill(shape, begin_id),
            # All hypotheses begin alike: only the first may be extended.
            log_probs=tf.broadcast_to(tf.where(first_only, 0.0, _IMPOSSIBLE), shape),
        ),
        Hypotheses(
            ids=tf.zeros((*shape, 0), tf.int32),
            scores=tf.fill(shape, _IMPOSSIBLE),
            log_probs=tf.fill(shape, _IMPOSSIBLE),
            lengths=tf.zeros(shape, tf.int32),
        ),
        cache,
    )
    _, _, finished, _ = tf.while_loop(
        unfinished, advance, state, shape_invariants=tf.nest.map_structure(_growing_shape, state)
    )
    return finished


class _Live(NamedTuple):
    """Unfinished hypotheses of a beam search, best first.

    Attributes:
        ids: `(batch, beam, step)` int32.
        newest: `(batch, beam)` int32, the last column of `ids`, or the begin id.
        log_probs: `(batch, beam)` float32; -inf where the beam has narrowed.
    """

    ids: tf.Tensor
    newest: tf.Tensor
    log_probs: tf.Tensor


def _best_tokens(logits, count, end_id, suppressed_ids, must_end):
    """The best next tokens of every hypothesis.

    Only the best candidates are touched: the vocabulary-wide work is one log-sum-exp and one top-k.

    Args:
        logits: `(batch, beam, vocab)`.
        count: how many.
        end_id, suppressed_ids: see `beam_search`.
        must_end: `(batch,)` bool, rows where every token but the end is impossible.

    Returns:
        ids and log-probabilities, `(batch, beam, k)`, impossible ones at -inf; k is `count` and as
        many more as could be suppressed, or the whole vocabulary where that is smaller.
    """
    normalizer = tf.reduce_logsumexp(logits, axis=2, keepdims=True)
    k = tf.minimum(count + len(suppressed_ids), tf.shape(logits)[2])
    best, ids = tf.math.top_k(logits, k)
    log_probs = best - normalizer
    for suppressed in suppressed_ids:
        log_probs = tf.where(ids == suppressed, _IMPOSSIBLE, log_probs)
    # Where the end is due, it takes the first place and empties the others.
    must_end = must_end[:, tf.newaxis, tf.newaxis]
    first = tf.range(k) == 0
    end_log_prob = logits[:, :, end_id, tf.newaxis] - normalizer
    log_probs = tf.where(must_end, tf.where(first, end_log_prob, _IMPOSSIBLE), log_probs)
    ids = tf.where(must_end & first, end_id, ids)
    if suppressed_ids and count == 1:
        chosen = tf.argmax(log_probs, axis=2, output_type=tf.int32)[:, :, tf.newaxis]
        ids, log_probs = (tf.gather(x, chosen, batch_dims=2) for x in (ids, log_probs))
    return ids, log_probs


def _count(scores):
    """Finished hypotheses of each row, `(batch, 1)`."""
    return tf.math.count_nonzero(scores > _IMPOSSIBLE, axis=1, keepdims=True, dtype=tf.int32)


def _reorder(cache, parents, beam_size):
    if beam_size == 1:
        return cache
    return tf.nest.map_structure(lambda x: tf.gather(x, parents, batch_dims=1), cache)


def _growing_shape(tensor):
    """The static shape with unknown sizes where an axis starts at 0, to grow."""
    return tf.TensorShape([size or None for size in tensor.shape])

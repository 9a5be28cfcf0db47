"""Beam search with any model that extends hypotheses token by token.

A beam of 1 is greedy search, see `greedy_search.py`. Options may differ from row to row, and the
rows of a batch do not influence each other.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tf_transformer.decoding.greedy_search import GreedySearch
from tf_transformer.decoding.logits_processing import (
    IMPOSSIBLE,
    block_repeated_ngrams,
    log_sum_exp,
    merge_end_ids,
    top_k,
)
from tf_transformer.decoding.search_interface import (
    OPEN_SHARE,
    Hypotheses,
    SearchOptions,
    StepModel,
    check_search_arguments,
    coverage_score,
    growing_shape,
    is_given,
    length_penalty,
    prefix_lengths,
    scored_length,
    without_none,
)
from tf_transformer.layers.masks import check_padding_mask


def beam_search(
    model: StepModel,
    state: Any,
    *,
    beam_size: int,
    begin_id: int,
    end_ids: Sequence[int],
    options: SearchOptions,
    num_best: int | tf.Tensor = 1,
    suppressed_ids: Sequence[int] = (),
) -> Hypotheses:
    """Searches outputs, keeping the `beam_size` most probable hypotheses at every step.

    Each step ranks all one-token extensions of a sentence's live hypotheses by log-probability and
    keeps the best. Hypotheses that end move to a list of finished hypotheses, ranked by
    score = log-probability / length penalty, and the beam narrows by one for each. So there are
    never more than `beam_size` live and finished hypotheses together, a beam of 1 is greedy search,
    and a beam as wide as the number of possible outputs is exhaustive search.

    A sentence is finished when no live hypothesis can enter its `num_best` best any more. As a
    log-probability can only fall, a live hypothesis never scores above its log-probability divided
    by the penalty of the longest allowed output. This early stop never changes the `num_best` best.
    Finished sentences leave the batch.

    Args:
        model: model to search with, see `StepModel`.
        state: the model's state before the first token.
        beam_size: width of the beam.
        begin_id: the first token of every hypothesis.
        end_ids: tokens that end a hypothesis. The probability of the end is the sum of theirs, so
            that no output is found twice with different end tokens.
        options: per-row options.
        num_best: number of hypotheses to return exactly per sentence, at most `beam_size`; an int,
            or a scalar tensor, which is not checked.
        suppressed_ids: tokens that are never chosen; probabilities are not renormalized.

    Returns:
        The finished hypotheses, best first. The first `num_best` are exact; the others depend on
        when the sentence was finished.

    Raises:
        InputError: `beam_size` or `num_best` is out of range, or the `source_mask` of a
            `coverage_penalty` is not one.
    """
    check_search_arguments(beam_size, 1 if tf.is_tensor(num_best) else num_best, 0.0)
    if beam_size == 1:
        greedy = GreedySearch(model, tuple(end_ids), tuple(suppressed_ids))
        return greedy.run(state, begin_id, options)
    search = Search(model, beam_size, tuple(end_ids), num_best, tuple(suppressed_ids))
    return search.run(state, begin_id, options)


class SearchRows(NamedTuple):
    """The state of the sentences that are in the batch.

    Attributes:
        index: `(rows,)` int32, index of each row in the original batch.
        options: per-row options; those that were not given are `()`.
        ids: `(rows, beam, step)` int32, live hypotheses, best first.
        newest: `(rows, beam)` int32, the last column of `ids`, or the begin id.
        parents: `(rows, beam)` int32, index of each hypothesis in the previous step.
        log_probs: `(rows, beam)` float32, of live hypotheses; -inf for finished ones.
        coverage: `(rows, beam, source_length)` float32, sum of the attention so far; `()` without a
            coverage penalty.
        finished: `Hypotheses` of these rows: ids `(rows, beam, step)`, the others `(rows, beam)`.
        is_open: `(rows,)` bool, whether a live hypothesis can still enter the `num_best` best.
    """

    index: tf.Tensor
    options: SearchOptions
    ids: tf.Tensor
    newest: tf.Tensor
    parents: tf.Tensor
    log_probs: tf.Tensor
    coverage: Any
    finished: Hypotheses
    is_open: tf.Tensor


@dataclasses.dataclass
class Search:
    """A search with the arguments of `beam_search` that are the same for all rows and steps."""

    model: StepModel
    beam_size: int
    end_ids: tuple[int, ...]
    num_best: int | tf.Tensor
    suppressed_ids: tuple[int, ...]

    def run(self, state: Any, begin_id: int, options: SearchOptions) -> Hypotheses:
        """Searches; the arguments are those of `beam_search`."""
        rows = self.initial_rows(options, tf.shape(options.max_length)[0], begin_id)
        loop = (tf.constant(0), rows, rows.finished, state)
        _, rows, results, _ = tf.while_loop(
            lambda step, rows, results, state: tf.reduce_any(rows.is_open),
            self._advance,
            loop,
            shape_invariants=(
                *tf.nest.map_structure(growing_shape, loop[:3]),
                tf.nest.map_structure(lambda x: tf.TensorShape([None] * x.shape.rank), state),
            ),
        )
        return _write_results(results, rows)

    def initial_rows(self, options, batch_size, begin_id):
        """Returns the `SearchRows` before the first step."""
        alpha = tf.broadcast_to(tf.cast(options.length_penalty, tf.float32), (batch_size,))
        options = without_none(options)._replace(length_penalty=alpha)
        shape = (batch_size, self.beam_size)
        zeros, impossible = tf.zeros(shape, tf.int32), tf.fill(shape, IMPOSSIBLE)
        no_ids = tf.zeros((*shape, 0), tf.int32)
        coverage = ()
        if is_given(options.coverage_penalty):
            check_padding_mask(options.source_mask)
            coverage = tf.zeros((*shape, tf.shape(options.source_mask)[1]))
        return SearchRows(
            index=tf.range(batch_size),
            options=options,
            ids=no_ids,
            newest=tf.fill(shape, begin_id),
            parents=zeros,
            # All hypotheses are equal at first, so only one of them may be extended.
            log_probs=tf.where(tf.range(self.beam_size) == 0, 0.0, impossible),
            coverage=coverage,
            finished=Hypotheses(no_ids, impossible, impossible, zeros),
            is_open=tf.fill((batch_size,), True),
        )

    def _advance(self, step, rows, results, state):
        """Runs one step.

        Args:
            step: `()` int32, number of tokens of every live hypothesis.
            rows: the `SearchRows` in the batch.
            results: `Hypotheses` of the original batch, written when rows leave.
            state: the model's state.

        Returns:
            The arguments of the next step.
        """
        # 1. Finished rows leave the batch.
        share = tf.reduce_mean(tf.cast(rows.is_open, tf.float32))
        is_due = (step > 0) & (step % self.model.compaction_interval == 0)
        rows, results, state = tf.cond(
            (share <= OPEN_SHARE) | is_due,
            lambda: self._keep_open_rows(step, rows, results, state),
            lambda: (rows, results, state),
        )
        rows, state = self.extend(step, rows, state)
        return step + 1, rows, results, state

    def extend(self, step, rows, state):
        """Extends every live hypothesis by one token and keeps the best.

        Args:
            step: `()` int32, number of tokens of every live hypothesis.
            rows: the `SearchRows` in the batch.
            state: the model's state.

        Returns:
            The new `SearchRows` and the new state.
        """
        # 2. The model computes logits from the newest tokens, (rows, beam, vocab).
        with_coverage = is_given(rows.options.coverage_penalty)
        logits, attention, state = self.model.decode_step(
            rows.newest, rows.parents, step, state, return_attention=with_coverage
        )
        # 3. The best extensions of a row, as many as its beam is wide now, (rows, beam).
        log_probs, parents, newest = self.choose_extensions(logits, rows, step, state)
        # 4. The beam is reordered: ids (rows, beam, step), coverage (rows, beam, source_length).
        ids = tf.gather(rows.ids, parents, batch_dims=1)
        coverage = rows.coverage
        if with_coverage:
            coverage = tf.gather(coverage + attention, parents, batch_dims=1)
        # 5. Hypotheses that end leave the beam and are ranked among the finished ones.
        ended = newest == self.end_ids[0]
        new = self._end(rows.options, ids, log_probs, coverage, step)
        finished = _merge(rows.finished, new, ended & rows.is_open[:, tf.newaxis], self.beam_size)
        log_probs = tf.where(ended, IMPOSSIBLE, log_probs)
        ids, finished_ids = self.with_column(ids, newest, finished.ids, step)
        finished = finished._replace(ids=finished_ids)
        rows = rows._replace(
            ids=ids,
            newest=newest,
            parents=parents,
            log_probs=log_probs,
            coverage=coverage,
            finished=finished,
            is_open=rows.is_open & self._may_improve(rows.options, log_probs, finished),
        )
        return rows, state

    def choose_extensions(self, logits, rows, step, state):
        """Chooses the extensions of each row that stay in its beam.

        Args:
            logits: `(rows, beam, vocab)` of the next tokens.
            rows: the `SearchRows` in the batch.
            step: `()` int32, number of tokens of every live hypothesis.
            state: the model's state after the step.

        Returns:
            Their log-probabilities, the indices of the hypotheses that they extend, and their
            newest tokens, `(rows, beam)` each; -inf for hypotheses that are not live.
        """
        # The best k next tokens of every hypothesis, (rows, beam, k).
        token_ids, token_log_probs = self.best_tokens(logits, rows, step, state)
        extensions = rows.log_probs[:, :, tf.newaxis] + token_log_probs
        k = token_ids.shape[2]
        log_probs, chosen = tf.math.top_k(
            tf.reshape(extensions, (-1, self.beam_size * k)), self.beam_size
        )
        log_probs = tf.where(self.is_within_beam(rows, state), log_probs, IMPOSSIBLE)
        parents = chosen // k
        newest = tf.gather(tf.reshape(token_ids, (-1, self.beam_size * k)), chosen, batch_dims=1)
        return log_probs, parents, newest

    def with_column(self, live, newest, finished, step):
        """Appends the newest tokens, of live hypotheses, and padding, of finished ones.

        Args:
            live: `(rows, beam, step)` int32, ids of live hypotheses.
            newest: `(rows, beam)` int32.
            finished: `(rows, beam, step)` int32, ids of finished hypotheses.
            step: `()` int32.

        Returns:
            The ids of live and finished hypotheses, `(rows, beam, step + 1)`.
        """
        live = tf.concat([live, newest[:, :, tf.newaxis]], axis=2)
        return live, tf.pad(finished, [[0, 0], [0, 0], [0, 1]])

    def is_within_beam(self, rows, state):
        """Returns `(rows, beam)` bool, True for as many hypotheses as may be live in each row.

        Args:
            rows: the `SearchRows` in the batch.
            state: the model's state after the step.
        """
        width = self.beam_size
        if is_given(rows.options.beam_size):
            width = rows.options.beam_size[:, tf.newaxis]
        is_finished = rows.finished.scores > IMPOSSIBLE
        count = tf.math.count_nonzero(is_finished, axis=1, keepdims=True, dtype=tf.int32)
        return tf.range(self.beam_size) < width - count

    def _may_improve(self, options, log_probs, finished):
        """Returns whether a live hypothesis can still enter the `num_best` best, `(rows,)` bool.

        A log-probability can only fall, and the longest output has the largest penalty.
        """
        longest = scored_length(options, options.max_length + 1)
        bound = tf.reduce_max(log_probs, axis=1) / length_penalty(longest, options.length_penalty)
        last = tf.gather(finished.scores, self.num_best - 1, axis=1)
        if is_given(options.beam_size):
            indices = tf.minimum(options.beam_size, self.num_best) - 1
            last = tf.gather(finished.scores, indices, batch_dims=1)
        return bound > last

    def _end(self, options, ids, log_probs, coverage, step):
        """Returns the live hypotheses as finished ones, as if they ended now, `(rows, beam)`."""
        length = scored_length(options, step + 1)
        scores = log_probs / length_penalty(length, options.length_penalty)[:, tf.newaxis]
        if is_given(options.coverage_penalty):
            scores += coverage_score(options, coverage)
        return Hypotheses(ids, scores, log_probs, tf.fill(tf.shape(log_probs), step))

    def best_tokens(self, logits, rows, step, state):
        """Returns the best next tokens and their log-probabilities, both `(rows, beam, k)`.

        Tokens that are not allowed have -inf. The only operations over the vocabulary are a
        log-sum-exp, a sum and a top-k, where k is `beam_size`, and one more where the end may not
        be allowed yet, but at most the size of the vocabulary.
        """
        options, end_id = rows.options, self.end_ids[0]
        logits = merge_end_ids(logits, self.end_ids)
        normalizer = log_sum_exp(logits)
        allowed_logits = logits
        if is_given(options.no_repeat_ngram):
            allowed_logits = self.without_repetitions(logits, rows, step, state)
        count = self.beam_size + is_given(options.min_length)
        best, ids = self.candidate_tokens(allowed_logits, count, state)
        log_probs = best - normalizer
        if is_given(options.min_length):
            is_early = (ids == end_id) & (step < options.min_length)[:, tf.newaxis, tf.newaxis]
            log_probs = tf.where(is_early, IMPOSSIBLE, log_probs)
        end_log_probs = logits[:, :, end_id, tf.newaxis] - normalizer
        return self._force_tokens(ids, log_probs, end_log_probs, options, step)

    def without_repetitions(self, logits, rows, step, state):
        """Sets the logits of tokens that would repeat an n-gram to -inf, `(rows, beam, vocab)`.

        Args:
            logits: `(rows, beam, vocab)` of the next tokens.
            rows: the `SearchRows` in the batch.
            step: `()` int32, number of tokens of every live hypothesis.
            state: the model's state after the step.
        """
        return block_repeated_ngrams(logits, rows.ids, rows.options.no_repeat_ngram)

    def candidate_tokens(self, logits, count, state):
        """Returns the logits and ids of the tokens to consider, both `(rows, beam, k)`.

        Suppressed tokens are not considered.

        Args:
            logits: `(rows, beam, vocab)`, -inf for tokens that are not allowed.
            count: the number of best tokens to consider.
            state: the model's state after the step.
        """
        return top_k(logits, min(count, logits.shape[2] or count), self.suppressed_ids)

    def _force_tokens(self, ids, log_probs, end_log_probs, options, step):
        """Forces the prefix, and the end id at the length limit: all other tokens get -inf."""
        is_last = (step >= options.max_length)[:, tf.newaxis, tf.newaxis]
        is_first = tf.range(ids.shape[2] or tf.shape(ids)[2]) == 0  # (k,)
        log_probs = tf.where(is_last, tf.where(is_first, end_log_probs, IMPOSSIBLE), log_probs)
        ids = tf.where(is_last & is_first, self.end_ids[0], ids)
        if is_given(options.prefix):
            column = tf.minimum(step, tf.shape(options.prefix)[1] - 1)
            given = tf.gather(options.prefix, column, axis=1)[:, tf.newaxis, tf.newaxis]
            is_forced = (step < prefix_lengths(options))[:, tf.newaxis, tf.newaxis]
            # Tokens of the prefix do not change the log-probability.
            log_probs = tf.where(is_forced, tf.where(is_first, 0.0, IMPOSSIBLE), log_probs)
            ids = tf.where(is_forced & is_first, given, ids)
        return ids, log_probs

    def _keep_open_rows(self, step, rows, results, state):
        """Writes the finished hypotheses of all rows into the results and keeps the open rows."""
        results = _write_results(results, rows)
        kept = tf.cast(tf.where(rows.is_open)[:, 0], tf.int32)
        alive = rows.log_probs > IMPOSSIBLE
        state = self.model.select_rows(kept, alive, rows.parents, step, state)
        rows = tf.nest.map_structure(lambda x: tf.gather(x, kept), rows)
        return rows, results, state


def _merge(finished, new, ended, beam_size):
    """Merges newly ended hypotheses into the finished ones, best score first."""
    new = new._replace(scores=tf.where(ended, new.scores, IMPOSSIBLE))
    both = [tf.concat([old, add], axis=1) for old, add in zip(finished, new, strict=True)]
    _, order = tf.math.top_k(both[1], beam_size)
    return Hypotheses(*(tf.gather(x, order, batch_dims=1) for x in both))


def _write_results(results, rows):
    """Writes the finished hypotheses of some rows into the results, `(batch, beam, ...)`."""
    longer = tf.shape(rows.finished.ids)[2] - tf.shape(results.ids)[2]
    results = results._replace(ids=tf.pad(results.ids, [[0, 0], [0, 0], [0, longer]]))
    indices = rows.index[:, tf.newaxis]
    return Hypotheses(
        *(
            tf.tensor_scatter_nd_update(old, indices, new)
            for old, new in zip(results, rows.finished, strict=True)
        )
    )

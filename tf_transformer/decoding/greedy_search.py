"""Greedy search: the most probable token at every step.

It finds what a beam of 1 finds, without ranking, parents and lists of finished hypotheses.
"""

import dataclasses
from typing import Any, NamedTuple

import tensorflow as tf

from tf_transformer.decoding.logits_processing import (
    IMPOSSIBLE,
    best_token,
    block_repeated_ngrams,
    forbid,
    log_sum_exp,
    merge_end_ids,
)
from tf_transformer.decoding.search_interface import (
    OPEN_SHARE,
    Hypotheses,
    SearchOptions,
    StepModel,
    coverage_score,
    growing_shape,
    is_given,
    length_penalty,
    prefix_lengths,
    scored_length,
    without_none,
)
from tf_transformer.layers.masks import check_padding_mask
from tf_transformer.text.special_ids import PAD_ID

_NEEDED_AT_THE_END = ("length_penalty", "beam_size", "coverage_penalty", "source_mask")


class Outputs(NamedTuple):
    """The output of each row, so far.

    Attributes:
        ids: `(rows, step)` int32, without begin and end id, padded with 0.
        log_probs: `(rows,)` float32, log p(ids | source, prefix) in nats; -inf if there is no
            output, because no token was allowed.
        lengths: `(rows,)` int32, number of tokens in `ids`.
        coverage: `(rows, source_length)` float32, sum of the attention; `()` without a coverage
            penalty.
    """

    ids: tf.Tensor
    log_probs: tf.Tensor
    lengths: tf.Tensor
    coverage: Any


class GreedyRows(NamedTuple):
    """The state of the sentences that are in the batch.

    Attributes:
        index: `(rows,)` int32, index of each row in the original batch.
        options: per-row options; `()` stands for those that no step needs.
        newest: `(rows,)` int32, the newest token, or the begin id.
        is_open: `(rows,)` bool, whether the output has not ended.
        outputs: the outputs so far.
    """

    index: tf.Tensor
    options: SearchOptions
    newest: tf.Tensor
    is_open: tf.Tensor
    outputs: Outputs


@dataclasses.dataclass
class GreedySearch:
    """A greedy search with the arguments of `beam_search` that are the same for all rows."""

    model: StepModel
    end_ids: tuple[int, ...]
    suppressed_ids: tuple[int, ...]

    def run(self, state: Any, begin_id: int, options: SearchOptions) -> Hypotheses:
        """Searches; the arguments are those of `beam_search`, and the beam size is 1."""
        options = without_none(options)
        rows = self.initial_rows(options, begin_id)
        loop = (tf.constant(0), rows, rows.outputs, state)
        _, rows, results, _ = tf.while_loop(
            lambda step, rows, results, state: tf.reduce_any(rows.is_open),
            self._advance,
            loop,
            shape_invariants=(
                *tf.nest.map_structure(growing_shape, loop[:3]),
                tf.nest.map_structure(lambda x: tf.TensorShape([None] * x.shape.rank), state),
            ),
        )
        return hypotheses(_write_results(results, rows), options)

    def initial_rows(self, options, begin_id):
        """Returns the `GreedyRows` before the first step."""
        batch_size = tf.shape(options.max_length)[0]
        coverage = ()
        if is_given(options.coverage_penalty):
            check_padding_mask(options.source_mask)
            coverage = tf.zeros_like(options.source_mask, tf.float32)
        return GreedyRows(
            index=tf.range(batch_size),
            options=options._replace(**dict.fromkeys(_NEEDED_AT_THE_END, ())),
            newest=tf.fill((batch_size,), begin_id),
            is_open=tf.fill((batch_size,), True),
            outputs=Outputs(
                ids=tf.zeros((batch_size, 0), tf.int32),
                log_probs=tf.zeros((batch_size,)),
                lengths=tf.zeros((batch_size,), tf.int32),
                coverage=coverage,
            ),
        )

    def _advance(self, step, rows, results, state):
        """Runs one step.

        Args:
            step: `()` int32, number of tokens of every output that has not ended.
            rows: the `GreedyRows` in the batch.
            results: `Outputs` of the original batch, written when rows leave.
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
        """Extends every output that has not ended by its best token.

        Args:
            step: `()` int32, number of tokens of every output that has not ended.
            rows: the `GreedyRows` in the batch.
            state: the model's state.

        Returns:
            The new `GreedyRows` and the new state.
        """
        # 2. The model computes logits from the newest tokens, (rows, 1, vocab).
        with_coverage = is_given(rows.outputs.coverage)
        attention: Any
        logits, attention, state = self.model.decode_step(
            rows.newest[:, tf.newaxis],
            tf.zeros_like(rows.newest)[:, tf.newaxis],
            step,
            state,
            return_attention=with_coverage,
        )
        # 3. The best token of each row, (rows,).
        newest, log_probs = self._choose(logits, rows.options, rows.outputs.ids, step)
        # 4. Outputs end with the end, or where no token is allowed.
        goes_on = rows.is_open & (newest != self.end_ids[0]) & (log_probs > IMPOSSIBLE)
        outputs = rows.outputs
        column = tf.where(goes_on, newest, PAD_ID)
        if with_coverage:
            added = tf.where(rows.is_open[:, tf.newaxis], attention[:, 0], 0.0)
            outputs = outputs._replace(coverage=outputs.coverage + added)
        outputs = outputs._replace(
            ids=self.with_column(outputs.ids, column, step),
            log_probs=outputs.log_probs + tf.where(rows.is_open, log_probs, 0.0),
            lengths=outputs.lengths + tf.cast(goes_on, tf.int32),
        )
        return rows._replace(newest=newest, is_open=goes_on, outputs=outputs), state

    def with_column(self, ids, newest, step):
        """Appends the newest tokens.

        Args:
            ids: `(rows, step)` int32.
            newest: `(rows,)` int32.
            step: `()` int32.
        """
        return tf.concat([ids, newest[:, tf.newaxis]], axis=1)

    def _choose(self, logits, options, ids, step):
        """Returns the next token of each row and its log-probability, both `(rows,)`.

        The log-probability is -inf where no token is allowed.

        Args:
            logits: `(rows, 1, vocab)` of the next tokens.
            options: the options of the rows.
            ids: `(rows, step)` int32, the tokens so far, which only `no_repeat_ngram` reads.
            step: `()` or `(rows,)` int32, number of tokens so far.
        """
        end_id = self.end_ids[0]
        logits = merge_end_ids(logits, self.end_ids)
        allowed = logits
        if is_given(options.no_repeat_ngram):
            allowed = block_repeated_ngrams(logits, ids[:, tf.newaxis], options.no_repeat_ngram)
        allowed = tf.squeeze(allowed, 1)
        if is_given(options.min_length):
            is_early = step < options.min_length
            allowed = tf.cond(
                tf.reduce_any(is_early),
                lambda: tf.where(is_early[:, tf.newaxis], forbid(allowed, [end_id]), allowed),
                lambda: allowed,
            )
        best, newest = best_token(allowed, self.suppressed_ids)
        # The end is forced at the length limit.
        is_last = step >= options.max_length
        newest = tf.where(is_last, end_id, newest)
        best = tf.where(is_last, logits[:, 0, end_id], best)
        log_probs = best - log_sum_exp(logits)[:, 0, 0]
        if is_given(options.prefix):
            is_prefix = step < prefix_lengths(options)
            column = tf.where(is_prefix, step, 0)
            forced = tf.gather(options.prefix, column, axis=1, batch_dims=1)
            newest = tf.where(is_prefix, forced, newest)
            log_probs = tf.where(is_prefix, 0.0, log_probs)
        return newest, log_probs

    def _keep_open_rows(self, step, rows, results, state):
        """Writes the outputs of all rows into the results and keeps the open rows."""
        results = _write_results(results, rows)
        kept = tf.cast(tf.where(rows.is_open)[:, 0], tf.int32)
        alive = rows.is_open[:, tf.newaxis]
        state = self.model.select_rows(kept, alive, tf.zeros_like(alive, tf.int32), step, state)
        rows = tf.nest.map_structure(lambda x: tf.gather(x, kept), rows)
        return rows, results, state


def _write_results(results, rows):
    """Writes the outputs of some rows into the results, `(batch, ...)`."""
    longer = tf.shape(rows.outputs.ids)[1] - tf.shape(results.ids)[1]
    results = results._replace(ids=tf.pad(results.ids, [[0, 0], [0, longer]]))
    indices = rows.index[:, tf.newaxis]
    return tf.nest.map_structure(
        lambda old, new: tf.tensor_scatter_nd_update(old, indices, new), results, rows.outputs
    )


def hypotheses(outputs: Outputs, options: SearchOptions) -> Hypotheses:
    """Returns the `Hypotheses` of all rows, with a beam of 1."""
    length = scored_length(options, outputs.lengths + 1)  # with the end
    scores = outputs.log_probs / length_penalty(length, options.length_penalty)
    if is_given(options.coverage_penalty):
        scores += coverage_score(options, outputs.coverage[:, tf.newaxis])[:, 0]
    is_found = outputs.log_probs != IMPOSSIBLE
    found = Hypotheses(
        tf.where(is_found[:, tf.newaxis], outputs.ids, PAD_ID),
        tf.where(is_found, scores, IMPOSSIBLE),
        outputs.log_probs,
        tf.where(is_found, outputs.lengths, 0),
    )
    return Hypotheses(*(part[:, tf.newaxis] for part in found))

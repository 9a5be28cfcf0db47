"""Beam search with any model that extends hypotheses token by token.

Greedy search is a beam of 1. Options may differ from row to row, and the rows of a batch do not
influence each other.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from tf_transformer.argument_types import is_number, is_whole
from tf_transformer.decoding.logits_processing import (
    IMPOSSIBLE,
    block_repeated_ngrams,
    log_sum_exp,
    merge_end_ids,
    top_k,
)
from tf_transformer.decoding.search_options import LARGEST_LENGTH_PENALTY, MAX_BEAM_SIZE
from tf_transformer.errors import InputError
from tf_transformer.layers.masks import check_padding_mask
from tf_transformer.printable import shown
from tf_transformer.text.special_ids import PAD_ID

# Finished rows leave the batch when at most this fraction of its rows is unfinished.
_OPEN_SHARE = 0.8


class StepModel(Protocol):
    """Interface of models for `beam_search`: the next token's logits from a state.

    The state is a nest of tensors.

    Attributes:
        compaction_interval: a search calls `select_rows` before every step whose index is a
            positive multiple of this interval, and may call it before other steps.
    """

    compaction_interval: int

    def decode_step(
        self,
        newest: tf.Tensor,
        parents: tf.Tensor,
        position: tf.Tensor,
        state: Any,
        return_attention: bool = False,
    ) -> tuple[tf.Tensor, tf.Tensor | None, Any]:
        """Computes the next token's logits of every hypothesis.

        Args:
            newest: `(rows, beam)` int32, the newest token of every hypothesis.
            parents: `(rows, beam)` int32, index in the previous step of the hypothesis that each
                one extends.
            position: int32, position of the newest tokens in the output; the begin id has 0.
            state: the state after the previous step.
            return_attention: whether to return the attention.

        Returns:
            The logits of the next token, `(rows, beam, vocab)` float32, the attention to the
            source, `(rows, beam, source_length)` float32 or None, and the new state. If `vocab` is
            not known in the graph, it is at least the beam size plus the number of special ids.
        """

    def select_rows(
        self,
        rows: tf.Tensor,
        alive: tf.Tensor,
        parents: tf.Tensor,
        position: tf.Tensor,
        state: Any,
    ) -> Any:
        """Returns the state of some rows.

        Args:
            rows: `(kept,)` int32, indices of the rows to keep.
            alive: `(rows, beam)` bool, True at hypotheses that will be extended.
            parents: `(rows, beam)` int32, as for the next `decode_step`.
            position: position of the next step's tokens.
            state: the state of all rows.
        """


class SearchOptions(NamedTuple):
    """Per-row options, `(rows,)` tensors; options that are None add nothing to the graph.

    Attributes:
        max_length: int32, maximum number of tokens of an output without the end id, which is forced
            at this length.
        length_penalty: float32, alpha of `length_penalty`.
        beam_size: int32, from 1 to the beam size of the search.
        min_length: int32, minimum number of tokens of an output.
        no_repeat_ngram: int32, size n; no n-gram of this size occurs twice in an output, except
            within the phrases of a `ConstrainedSearch`; 0 allows all.
        coverage_penalty: float32, beta of Wu et al., 2016, equation 14:
            score += beta * sum_i log(min(sum_j attention_ij, 1)) over the source positions i.
        source_mask: `(rows, source_length)` bool, positions that must be covered; required with
            `coverage_penalty`.
        prefix: `(rows, length)` int32 padded with 0, forced tokens at the start of every output.
            Scores and length penalties leave them out.
    """

    max_length: Any
    length_penalty: Any = 0.0
    beam_size: Any = None
    min_length: Any = None
    no_repeat_ngram: Any = None
    coverage_penalty: Any = None
    source_mask: Any = None
    prefix: Any = None


class Hypotheses(NamedTuple):
    """Outputs found by a search, best first.

    Attributes:
        ids: `(batch, beam, length)` int32, without begin and end id, padded with 0.
        scores: `(batch, beam)` float32, `log_probs / length_penalty` plus the coverage penalty;
            -inf if there are fewer hypotheses than `beam`.
        log_probs: `(batch, beam)` float32, log p(ids, end | source, prefix) in nats.
        lengths: `(batch, beam)` int32, number of tokens in `ids`.
    """

    ids: tf.Tensor
    scores: tf.Tensor
    log_probs: tf.Tensor
    lengths: tf.Tensor


def length_penalty(length: Any, alpha: Any) -> tf.Tensor:
    """Computes lp(n) = ((5 + n) / 6)^alpha   (Wu et al., 2016, equation 14).

    Args:
        length: n, number of tokens of a hypothesis, including the end.
        alpha: 0 ranks by log-probability, which favors short outputs; 1 ranks almost by the mean
            log-probability per token.

    Returns:
        float32 tensor of the shape of `length`.
    """
    return ((5.0 + tf.cast(length, tf.float32)) / 6.0) ** alpha


def check_search_arguments(beam_size: int, num_best: int, alpha: float) -> None:
    """Checks the arguments of a beam search.

    Args:
        beam_size: width of the beam.
        num_best: number of outputs per sentence.
        alpha: length penalty.

    Raises:
        InputError: an argument has the wrong type or is out of range.
    """
    if not is_whole(beam_size) or not 1 <= beam_size <= MAX_BEAM_SIZE:
        raise InputError(
            f"`beam_size` must be an integer between 1 and {MAX_BEAM_SIZE}. "
            f"Received: beam_size={shown(beam_size)}"
        )
    if not is_whole(num_best) or not 1 <= num_best <= beam_size:
        raise InputError(
            "`num_best` must be an integer between 1 and `beam_size`. "
            f"Received: num_best={shown(num_best)}, beam_size={beam_size}"
        )
    if not is_number(alpha) or not 0 <= alpha <= LARGEST_LENGTH_PENALTY:
        raise InputError(
            f"`length_penalty` must be between 0 and {LARGEST_LENGTH_PENALTY:g}. "
            f"Received: length_penalty={shown(alpha)}"
        )


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
                *tf.nest.map_structure(_growing_shape, loop[:3]),
                tf.nest.map_structure(lambda x: tf.TensorShape([None] * x.shape.rank), state),
            ),
        )
        return _write_results(results, rows)

    def initial_rows(self, options, batch_size, begin_id):
        """Returns the `SearchRows` before the first step."""
        alpha = tf.broadcast_to(tf.cast(options.length_penalty, tf.float32), (batch_size,))
        # The nest of loop variables must not contain None.
        absent = {name: () for name, value in options._asdict().items() if value is None}
        options = options._replace(length_penalty=alpha, **absent)
        shape = (batch_size, self.beam_size)
        zeros, impossible = tf.zeros(shape, tf.int32), tf.fill(shape, IMPOSSIBLE)
        no_ids = tf.zeros((*shape, 0), tf.int32)
        coverage = ()
        if _is_given(options.coverage_penalty):
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
            (share <= _OPEN_SHARE) | is_due,
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
        with_coverage = _is_given(rows.options.coverage_penalty)
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
        if _is_given(rows.options.beam_size):
            width = rows.options.beam_size[:, tf.newaxis]
        is_finished = rows.finished.scores > IMPOSSIBLE
        count = tf.math.count_nonzero(is_finished, axis=1, keepdims=True, dtype=tf.int32)
        return tf.range(self.beam_size) < width - count

    def _may_improve(self, options, log_probs, finished):
        """Returns whether a live hypothesis can still enter the `num_best` best, `(rows,)` bool.

        A log-probability can only fall, and the longest output has the largest penalty.
        """
        longest = _scored_length(options, options.max_length + 1)
        bound = tf.reduce_max(log_probs, axis=1) / length_penalty(longest, options.length_penalty)
        last = tf.gather(finished.scores, self.num_best - 1, axis=1)
        if _is_given(options.beam_size):
            indices = tf.minimum(options.beam_size, self.num_best) - 1
            last = tf.gather(finished.scores, indices, batch_dims=1)
        return bound > last

    def _end(self, options, ids, log_probs, coverage, step):
        """Returns the live hypotheses as finished ones, as if they ended now, `(rows, beam)`."""
        length = _scored_length(options, step + 1)
        scores = log_probs / length_penalty(length, options.length_penalty)[:, tf.newaxis]
        if _is_given(options.coverage_penalty):
            missing = tf.math.log(tf.clip_by_value(coverage, 1e-9, 1.0))
            missing = tf.where(options.source_mask[:, tf.newaxis], missing, 0.0)
            scores += options.coverage_penalty[:, tf.newaxis] * tf.reduce_sum(missing, axis=2)
        return Hypotheses(ids, scores, log_probs, tf.fill(tf.shape(log_probs), step))

    def best_tokens(self, logits, rows, step, state):
        """Returns the best next tokens and their log-probabilities, both `(rows, beam, k)`.

        Tokens that are not allowed have -inf. The only operations over the vocabulary are a
        log-sum-exp and a top-k, where k is `beam_size` plus the number of tokens that could be
        suppressed, but at most the size of the vocabulary.
        """
        options, end_id = rows.options, self.end_ids[0]
        logits = merge_end_ids(logits, self.end_ids)
        normalizer = log_sum_exp(logits)
        allowed_logits = logits
        if _is_given(options.no_repeat_ngram):
            allowed_logits = self.without_repetitions(logits, rows, step, state)
        suppressed = self.suppressed_ids
        count = self.beam_size + len(suppressed) + _is_given(options.min_length)
        best, ids = self.candidate_tokens(allowed_logits, count, state)
        log_probs = best - normalizer
        for token in suppressed:
            log_probs = tf.where(ids == token, IMPOSSIBLE, log_probs)
        if _is_given(options.min_length):
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

        Args:
            logits: `(rows, beam, vocab)`, -inf for tokens that are not allowed.
            count: the number of best tokens to consider.
            state: the model's state after the step.
        """
        return top_k(logits, min(count, logits.shape[2] or count))

    def _force_tokens(self, ids, log_probs, end_log_probs, options, step):
        """Forces the prefix, and the end id at the length limit: all other tokens get -inf."""
        is_last = (step >= options.max_length)[:, tf.newaxis, tf.newaxis]
        is_first = tf.range(ids.shape[2] or tf.shape(ids)[2]) == 0  # (k,)
        log_probs = tf.where(is_last, tf.where(is_first, end_log_probs, IMPOSSIBLE), log_probs)
        ids = tf.where(is_last & is_first, self.end_ids[0], ids)
        if _is_given(options.prefix):
            column = tf.minimum(step, tf.shape(options.prefix)[1] - 1)
            given = tf.gather(options.prefix, column, axis=1)[:, tf.newaxis, tf.newaxis]
            is_given = (step < _prefix_lengths(options))[:, tf.newaxis, tf.newaxis]
            # Tokens of the prefix do not change the log-probability.
            log_probs = tf.where(is_given, tf.where(is_first, 0.0, IMPOSSIBLE), log_probs)
            ids = tf.where(is_given & is_first, given, ids)
        return ids, log_probs

    def _keep_open_rows(self, step, rows, results, state):
        """Writes the finished hypotheses of all rows into the results and keeps the open rows."""
        results = _write_results(results, rows)
        kept = tf.cast(tf.where(rows.is_open)[:, 0], tf.int32)
        alive = rows.log_probs > IMPOSSIBLE
        state = self.model.select_rows(kept, alive, rows.parents, step, state)
        rows = tf.nest.map_structure(lambda x: tf.gather(x, kept), rows)
        return rows, results, state


def _is_given(option) -> bool:
    return not isinstance(option, tuple)


def _prefix_lengths(options):
    return tf.math.count_nonzero(options.prefix != PAD_ID, axis=1, dtype=tf.int32)


def _scored_length(options, length):
    """Returns the length for the penalty, `(rows,)`: without the prefix, and at least 1.

    No hypothesis ends within the prefix, but ends with -inf are scored there, too. A negative
    length would give a negative penalty and turn their scores into +inf.
    """
    if _is_given(options.prefix):
        return tf.maximum(length - _prefix_lengths(options), 1)
    return length


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


def _growing_shape(tensor):
    """Returns the loop's static shape: the number of rows falls, and axes of unknown size grow."""
    return tf.TensorShape([None, *(size or None for size in tensor.shape[1:])][: tensor.shape.rank])

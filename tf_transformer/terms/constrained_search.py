"""Beam search whose outputs must contain given phrases, with dynamic beam allocation.

Hokamp and Liu, 2017, "Lexically Constrained Decoding for Sequence Generation Using Grid Beam
Search"; Post and Vilar, 2018, "Fast Lexically Constrained Decoding with Dynamic Beam Allocation for
Neural Machine Translation". Deviations: a hypothesis counts the progress of all phrases at once, so
that one token can serve two of them; a phrase may have several spellings; the slots of the beam are
dealt to the banks in turns; and finished hypotheses do not narrow the beam, as those that wrote a
phrase too early finish first.
"""

import dataclasses
from typing import Any, NamedTuple

import tensorflow as tf

from tf_transformer.decoding.beam_search import Search
from tf_transformer.decoding.logits_processing import (
    IMPOSSIBLE,
    ends_in_repeated_ngram,
    is_among,
)
from tf_transformer.decoding.search_interface import StepModel
from tf_transformer.terms.constraints import Constraints, PhraseTracker, TokenTables


class TrackedState(NamedTuple):
    """A model's state, and the tracker of the hypotheses' phrases."""

    state: Any
    tracker: PhraseTracker


class TrackedModel:
    """A `StepModel` that also tracks the phrases of the hypotheses.

    Args:
        model: the model to search with.
        tables: characters of the tokens.
    """

    def __init__(self, model: StepModel, tables: TokenTables):
        self.model = model
        self.tables = tables
        self.compaction_interval = model.compaction_interval

    def start(self, state: Any, constraints: Constraints, beam_size: int) -> TrackedState:
        """Returns the state before the first token.

        Args:
            state: the model's state.
            constraints: the phrases.
            beam_size: number of hypotheses per row.
        """
        return TrackedState(state, PhraseTracker.start(constraints, self.tables, beam_size))

    def decode_step(
        self,
        newest: tf.Tensor,
        parents: tf.Tensor,
        position: tf.Tensor,
        state: TrackedState,
        return_attention: bool = False,
    ) -> tuple[tf.Tensor, tf.Tensor | None, TrackedState]:
        """Computes the next token's logits of every hypothesis, see `StepModel.decode_step`."""
        logits, attention, inner = self.model.decode_step(
            newest, parents, position, state.state, return_attention
        )
        tracker = state.tracker.advance(newest, parents, self.tables)
        return logits, attention, TrackedState(inner, tracker)

    def select_rows(
        self,
        rows: tf.Tensor,
        alive: tf.Tensor,
        parents: tf.Tensor,
        position: tf.Tensor,
        state: TrackedState,
    ) -> TrackedState:
        """Returns the state of some rows, see `StepModel.select_rows`."""
        inner = self.model.select_rows(rows, alive, parents, position, state.state)
        return TrackedState(
            inner, tf.nest.map_structure(lambda x: tf.gather(x, rows), state.tracker)
        )


@dataclasses.dataclass
class ConstrainedSearch(Search):
    """A `Search` with a `TrackedModel`, whose outputs contain the phrases of their rows.

    A hypothesis ends only when it has all phrases. At the length limit the live hypotheses end
    that lack the fewest occurrences, unless one with all phrases has ended before. Hypotheses that
    can no longer write what they lack within the limit are given up, as long as others can. As the
    bank with the fewest missing tokens always has a slot, phrases that fit into the limit one after
    the other are always found. The hypotheses of a row without phrases are those of `Search`.

    A phrase may repeat n-grams, of itself and of what precedes it. A hypothesis that repeats one as
    a part of a phrase must go on with it, so that nothing else is repeated.
    """

    model: TrackedModel

    def extend(self, step, rows, state):
        """Extends every live hypothesis, and notes what it must go on with, see `Search`."""
        rows, state = super().extend(step, rows, state)
        sizes, tracker = rows.options.no_repeat_ngram, state.tracker
        if isinstance(sizes, tuple):  # not given
            return rows, state
        due = tf.cond(
            tf.reduce_any(sizes > 0),
            lambda: tracker.find_due(
                rows.newest, rows.parents, ends_in_repeated_ngram(rows.ids, sizes)
            ),
            lambda: tracker.due,
        )
        return rows, state._replace(tracker=tracker._replace(due=due))

    def without_repetitions(self, logits, rows, step, state):
        """Blocks tokens that would repeat an n-gram, but not those of phrases, see `Search`."""
        allowed = super().without_repetitions(logits, rows, step, state)
        is_due = tf.reduce_any(state.tracker.due, axis=(2, 3))[..., tf.newaxis]

        def allow():
            tokens = state.tracker.repeatable_tokens(rows.options.max_length - step)
            tokens = _flatten_spellings(tokens)
            own = tf.gather(logits, tokens, axis=2, batch_dims=2)
            own = tf.where(tokens == 0, IMPOSSIBLE, own)  # padding is never chosen
            shape = tf.shape(tokens)
            row, beam, _ = tf.meshgrid(*map(tf.range, tf.unstack(shape)), indexing="ij")
            indices = tf.stack([row, beam, tokens], axis=3)
            of_phrases = tf.where(is_due, IMPOSSIBLE, allowed)
            of_phrases = tf.tensor_scatter_nd_update(of_phrases, indices, own)
            return tf.ensure_shape(of_phrases, logits.shape)  # a beam of 1 is lost in `tf.where`

        return tf.cond(tf.reduce_any(rows.options.no_repeat_ngram > 0), allow, lambda: allowed)

    def candidate_tokens(self, logits, count, state):
        """Returns the best tokens, and the next ones of all phrases, see `Search`."""
        # The end may be too early; an unknown vocabulary may have only `count` tokens.
        count += logits.shape[2] is not None
        best, ids = super().candidate_tokens(logits, count, state)
        extra = _flatten_spellings(state.tracker.next_tokens())
        extra_logits = tf.gather(logits, extra, axis=2, batch_dims=2)
        # Each token once.
        is_known = tf.reduce_any(extra[..., tf.newaxis] == ids[:, :, tf.newaxis], axis=3)
        order = tf.range(tf.shape(extra)[2])
        is_same = extra[..., tf.newaxis] == extra[:, :, tf.newaxis]
        is_known |= tf.reduce_any(is_same & (order < order[:, tf.newaxis]), axis=3)
        is_known |= is_among(extra, self.suppressed_ids)
        extra_logits = tf.where(is_known | (extra == 0), IMPOSSIBLE, extra_logits)
        return tf.concat([best, extra_logits], axis=2), tf.concat([ids, extra], axis=2)

    def is_within_beam(self, rows, state):
        """Returns whether hypotheses may be live: in rows with phrases as many as may be at first.

        Args:
            rows: the `SearchRows` in the batch.
            state: the model's state.
        """
        has_phrases = tf.reduce_any(state.tracker.constraints.needed > 0, axis=1, keepdims=True)
        no_finished = rows.finished._replace(scores=tf.fill(tf.shape(rows.log_probs), IMPOSSIBLE))
        at_first = super().is_within_beam(rows._replace(finished=no_finished), state)
        return tf.where(has_phrases, at_first, super().is_within_beam(rows, state))

    def choose_extensions(self, logits, rows, step, state):
        """Chooses extensions from all banks in turn, see `Search.choose_extensions`."""
        token_ids, token_log_probs = self.best_tokens(logits, rows, step, state)
        extensions = rows.log_probs[:, :, tf.newaxis] + token_log_probs  # (rows, beam, n)
        progress = state.tracker.extend(token_ids, self.model.tables)
        missing = state.tracker.missing(progress)
        is_end = token_ids == self.end_ids[0]
        extensions = _without_early_ends(extensions, is_end, missing, rows, step)
        extensions = _within_limit(extensions, is_end, missing, rows, step)
        n = tf.shape(token_ids)[2]
        extensions, banks, token_ids = (
            tf.reshape(x, (-1, self.beam_size * n))
            for x in (extensions, missing.num_tokens, token_ids)
        )
        chosen = _choose_from_banks(extensions, banks, self.beam_size)
        log_probs = tf.gather(extensions, chosen, batch_dims=1)
        log_probs = tf.where(self.is_within_beam(rows, state), log_probs, IMPOSSIBLE)
        return log_probs, chosen // n, tf.gather(token_ids, chosen, batch_dims=1)


def _flatten_spellings(tokens):
    """Returns tokens of `(rows, beam, phrases, spellings)` as `(rows, beam, all)`."""
    rows, beam, phrases, spellings = tf.unstack(tf.shape(tokens))
    return tf.reshape(tokens, (rows, beam, phrases * spellings))


def _without_early_ends(extensions, is_end, missing, rows, step):
    """Sets ends of hypotheses that lack phrases to -inf; where all must end, all but the best.

    All must end at the limit, and if no other token is allowed, as where none may be repeated.
    """
    can_continue = tf.reduce_any((extensions > IMPOSSIBLE) & ~is_end, axis=(1, 2))
    unmet = tf.where(extensions > IMPOSSIBLE, missing.num_occurrences, tf.int32.max)
    is_least = unmet == tf.reduce_min(unmet, axis=(1, 2), keepdims=True)
    must_end = ((step >= rows.options.max_length) | ~can_continue) & ~_has_finished(rows)
    may_end = (missing.num_occurrences == 0) | (is_least & must_end[:, tf.newaxis, tf.newaxis])
    return tf.where(is_end & ~may_end, IMPOSSIBLE, extensions)


def _within_limit(extensions, is_end, missing, rows, step):
    """Sets extensions to -inf that cannot be completed, if it is certain that another one can."""
    left = (rows.options.max_length - step - 1)[:, tf.newaxis, tf.newaxis]
    suffices = (missing.num_tokens <= left) & ~is_end & (extensions > IMPOSSIBLE)
    is_certain = tf.reduce_any(suffices, axis=(1, 2)) | _has_finished(rows)
    is_possible = (missing.least_tokens <= left) | is_end
    return tf.where(is_possible | ~is_certain[:, tf.newaxis, tf.newaxis], extensions, IMPOSSIBLE)


def _has_finished(rows):
    """Returns `(rows,)` bool, whether a row has a finished hypothesis."""
    return tf.reduce_any(rows.finished.scores > IMPOSSIBLE, axis=1)


def _choose_from_banks(scores: tf.Tensor, banks: tf.Tensor, count: int) -> tf.Tensor:
    """Chooses the best of the lowest bank, then the best of every bank, the second best, and so on.

    Where there are more banks than slots, those with the best scores get one: the hypotheses that
    have begun no phrase yet keep theirs. With one bank the best are chosen.

    Args:
        scores: `(rows, candidates)` float32; those with -inf come last.
        banks: `(rows, candidates)` int32, from 0.
        count: number of candidates to choose.

    Returns:
        Their indices, `(rows, count)` int32.
    """
    num_candidates = tf.shape(scores)[1]
    sorted_scores, by_score = tf.math.top_k(scores, num_candidates)
    banks = tf.gather(banks, by_score, batch_dims=1)
    # Impossible candidates in a bank of their own, behind all others.
    banks = tf.where(sorted_scores > IMPOSSIBLE, banks, tf.int32.max)
    by_bank = tf.argsort(banks, axis=1, stable=True)
    banks = tf.gather(banks, by_bank, batch_dims=1)
    ranks = tf.cast(tf.range(num_candidates) - tf.searchsorted(banks, banks), tf.int64)
    ranks = tf.where(banks == tf.int32.max, tf.cast(num_candidates, tf.int64), ranks)
    keys = ranks * tf.cast(num_candidates, tf.int64) + tf.cast(by_bank, tf.int64)
    keys = tf.where(tf.range(num_candidates) == 0, tf.int64.min + 1, keys)
    _, chosen = tf.math.top_k(-keys, count)
    chosen = tf.gather(by_bank, chosen, batch_dims=1)
    return tf.gather(by_score, chosen, batch_dims=1)

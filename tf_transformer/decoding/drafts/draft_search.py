"""Greedy search by draft and verification: several tokens a step   (Stern et al., 2018).

The model's draft heads propose the K tokens after the newest one, one step of the decoder computes
what greedy search chooses after each of them, and the longest prefix of the proposal that is what
greedy search chooses is kept, with the choice that follows it. So each step adds 1 to K + 1 tokens,
and the output is that of `GreedySearch`. What a step costs beside one of a single token depends on
model, rows and machine: `python -m benchmarks.drafts` measures it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tf_transformer.decoding.drafts.draft_decoder import DraftDecoder
from tf_transformer.decoding.greedy_search import GreedySearch, Outputs, hypotheses
from tf_transformer.decoding.logits_processing import IMPOSSIBLE, best_token
from tf_transformer.decoding.search_interface import (
    Hypotheses,
    SearchOptions,
    is_given,
    without_none,
)
from tf_transformer.decoding.translation_options import TranslationOptions
from tf_transformer.text.special_ids import PAD_ID

# More rows are searched faster without drafts, see `python -m benchmarks.drafts`.
MOST_ROWS = 2
_NEEDED_BY_TOKENS = ("max_length", "min_length", "prefix")


def can_draft(ids: tf.Tensor, options: TranslationOptions | None) -> tf.Tensor:
    """Returns whether a batch is searched with drafts, a bool.

    Args:
        ids: `(batch, length)`, the sources.
        options: per-sentence options, or None. `no_repeat_ngram` and `coverage_penalty` depend on
            each token of the output so far, and are left to `GreedySearch`.
    """
    is_small = tf.shape(ids)[0] <= MOST_ROWS
    return is_small if options is None else is_small & options.without_history()


def draft_search(
    decoder: DraftDecoder,
    state: Any,
    *,
    begin_id: int,
    end_ids: Sequence[int],
    options: SearchOptions,
    suppressed_ids: Sequence[int],
    beam_size: int = 1,
) -> Hypotheses:
    """Searches as `beam_search` does with a beam of 1, in fewer steps.

    Args:
        decoder: the model, with its draft heads.
        state: its state before the first token.
        begin_id: see `beam_search`.
        end_ids: see `beam_search`.
        options: see `beam_search`; `no_repeat_ngram` and `coverage_penalty` are ignored.
        suppressed_ids: see `beam_search`.
        beam_size: 1.

    Returns:
        The `Hypotheses`.
    """
    search = DraftSearch(decoder, tuple(end_ids), tuple(suppressed_ids))
    return search.run(state, begin_id, options)


class DraftRows(NamedTuple):
    """The state of the sentences.

    Attributes:
        newest: `(rows,)` int32, the newest token, or the begin id.
        drafts: `(rows, K)` int32, what may follow it.
        accepted: `(rows,)` int32, number of drafts of the previous step that were accepted.
        is_open: `(rows,)` bool, whether the output has not ended.
        outputs: the outputs so far; `outputs.ids` has space for the longest.
    """

    newest: tf.Tensor
    drafts: tf.Tensor
    accepted: tf.Tensor
    is_open: tf.Tensor
    outputs: Outputs


class DraftSearch(GreedySearch):
    """A `GreedySearch` with a `DraftDecoder`."""

    model: DraftDecoder

    def run(self, state: Any, begin_id: int, options: SearchOptions) -> Hypotheses:
        """Searches; the arguments are those of `beam_search`, and the beam size is 1."""
        options = without_none(options)._replace(no_repeat_ngram=(), coverage_penalty=())
        by_token = _by_token(options, self.model.beam_size)
        rows, _ = tf.while_loop(
            lambda rows, state: tf.reduce_any(rows.is_open),
            lambda rows, state: self.advance(rows, by_token, state),
            (self.first_rows(options, begin_id), state),
        )
        outputs = rows.outputs
        ids = outputs.ids[:, : tf.maximum(tf.reduce_max(outputs.lengths), 1)]
        return hypotheses(outputs._replace(ids=ids), options)

    def first_rows(self, options: SearchOptions, begin_id: int) -> DraftRows:
        """Returns the `DraftRows` before the first step; their drafts are begin ids."""
        shape = tf.shape(options.max_length)
        nothing = tf.zeros(shape, tf.int32)
        return DraftRows(
            newest=tf.fill(shape, begin_id),
            drafts=tf.fill((shape[0], self.model.num_drafts), begin_id),
            accepted=nothing,
            is_open=tf.fill(shape, True),
            outputs=Outputs(
                ids=tf.zeros((shape[0], self.model.compaction_interval), tf.int32),
                log_probs=tf.zeros(shape),
                lengths=nothing,
                coverage=(),
            ),
        )

    def advance(self, rows: DraftRows, options: SearchOptions, state: Any) -> tuple[DraftRows, Any]:
        """Runs one step.

        Args:
            rows: the `DraftRows`.
            options: the options of each token of a step, `(rows * (K + 1),)`.
            state: the model's state.

        Returns:
            The new `DraftRows` and the new state.
        """
        outputs, num_tokens = rows.outputs, self.model.beam_size
        index = tf.range(num_tokens)
        # 1. One step of the decoder computes what greedy search chooses after each token.
        tokens = tf.concat([rows.newest[:, tf.newaxis], rows.drafts], axis=1)
        logits, hidden, state = self.model.verify(tokens, outputs.lengths, rows.accepted, state)
        steps = tf.reshape(outputs.lengths[:, tf.newaxis] + index, (-1,))
        flat = tf.reshape(logits, (-1, 1, tf.shape(logits)[2]))
        flat.set_shape((None, 1, logits.shape[2]))
        chosen, log_probs = (
            tf.reshape(x, (-1, num_tokens)) for x in self._choose(flat, options, (), steps)
        )
        # 2. A choice counts if all tokens before it were chosen, too, and did not end the output.
        is_right = tf.cast(rows.drafts == chosen[:, :-1], tf.int32)
        accepted = tf.reduce_sum(tf.math.cumprod(is_right, axis=1), axis=1)
        goes_on = (chosen != self.end_ids[0]) & (log_probs > IMPOSSIBLE)
        before = tf.math.cumprod(tf.cast(goes_on, tf.int32), axis=1, exclusive=True) > 0
        counts = (index <= accepted[:, tf.newaxis]) & before & rows.is_open[:, tf.newaxis]
        is_open = rows.is_open & tf.reduce_all(goes_on | ~counts, axis=1)
        # 3. The tokens are written at the end of each output.
        new = tf.where(counts & goes_on, chosen, PAD_ID)
        offset = tf.range(tf.shape(outputs.ids)[1]) - outputs.lengths[:, tf.newaxis]
        written = tf.gather(new, tf.clip_by_value(offset, 0, num_tokens - 1), batch_dims=1)
        is_new = (offset >= 0) & (offset < num_tokens)
        outputs = outputs._replace(
            ids=tf.where(is_new, written, outputs.ids),
            log_probs=outputs.log_probs + tf.reduce_sum(tf.where(counts, log_probs, 0.0), axis=1),
            lengths=outputs.lengths
            + tf.math.count_nonzero(counts & goes_on, axis=1, dtype=tf.int32),
        )
        # 4. The heads draft what may follow the last choice.
        newest = tf.gather(chosen, accepted, batch_dims=1)
        last = tf.gather(hidden, accepted, batch_dims=1)
        proposed = self.model.draft(last, newest, state)
        drafts = best_token(tf.reshape(proposed, (-1, tf.shape(proposed)[2])))[1]
        drafts = tf.reshape(drafts, (-1, num_tokens - 1))
        return DraftRows(newest, drafts, accepted, is_open, outputs), state


def _by_token(options, num_tokens):
    """Returns the options that choose each token of a step, `(rows * (K + 1),)`."""
    names = [name for name in _NEEDED_BY_TOKENS if is_given(getattr(options, name))]
    repeated = {name: tf.repeat(getattr(options, name), num_tokens, axis=0) for name in names}
    return options._replace(**repeated)

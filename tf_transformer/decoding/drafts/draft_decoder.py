"""Incremental decoding of several tokens a step: those that the model's draft heads propose."""

from typing import Any

import tensorflow as tf

from tf_transformer.decoding.incremental_decoder import DecodingState, IncrementalDecoder
from tf_transformer.decoding.prefix_cache import PrefixCache
from tf_transformer.models.base import DecoderModel
from tf_transformer.models.ensemble import Ensemble
from tf_transformer.shortlists.candidates import Candidates


class DraftDecoder(IncrementalDecoder):
    """Decodes a chain of tokens per sentence and step, and drafts the next ones.

    The steps compute the same logits as those of an `IncrementalDecoder` would, one after the
    other.

    Args:
        model: a `Transformer` with `draft_heads`.
        largest_output: the largest number of tokens of an output.
        candidates: the target ids to consider, or None for all, see `IncrementalDecoder`.

    Attributes:
        num_drafts: K, the number of tokens that are drafted.
    """

    def __init__(
        self,
        model: DecoderModel,
        largest_output: tf.Tensor | int,
        candidates: Candidates | None = None,
    ):
        self.num_drafts = model.config.draft_heads
        super().__init__(model, self.num_drafts + 1, candidates)
        self.cache_type = PrefixCache
        # One entry for the begin id, and those of drafts that are longer than the output may be.
        self.compaction_interval = largest_output + self.num_drafts + 1

    def _further_weights(self):
        return self.model.draft_heads.weights

    def verify(
        self, tokens: tf.Tensor, positions: tf.Tensor, accepted: tf.Tensor, state: DecodingState
    ) -> tuple[tf.Tensor, tf.Tensor, DecodingState]:
        """Computes the logits of what follows each token of a chain.

        Args:
            tokens: `(rows, K + 1)` int32, the newest token of each row and its drafts.
            positions: `(rows,)` int32, position of the newest token.
            accepted: `(rows,)` int32, the number of drafts of the previous step that were accepted.
            state: the state after the previous step.

        Returns:
            The logits, `(rows, K + 1, vocab)` float32, the decoder's output,
            `(rows, K + 1, d_model)`, and the new state.
        """
        cache: Any = state.cache
        begun = cache.begin_chain(positions, accepted, self.beam_size)
        # Drafts may be longer than the model's positions; they are not accepted.
        columns = positions[:, tf.newaxis] + tf.range(self.beam_size)
        columns = tf.minimum(columns, self.model.config.max_length - 1)
        with self._weights_read(state):
            hidden, _, state = self._advance(tokens, tf.reshape(columns, (-1,)), begun, state)
            logits = self._logits(hidden, state.allowed, self.beam_size)
        return logits, tf.reshape(hidden, (-1, self.beam_size, hidden.shape[-1])), state

    def draft(self, hidden: tf.Tensor, newest: tf.Tensor, state: DecodingState) -> tf.Tensor:
        """Computes the logits of the tokens after the newest one, `(rows, K, vocab)` float32.

        Args:
            hidden: `(rows, d_model)`, the decoder's output from which the newest token was chosen.
            newest: `(rows,)` int32, the newest token.
            state: the state after the step.
        """
        with self._weights_read(state):
            vectors = self.model.draft(
                hidden[:, tf.newaxis],
                self._target_ids(newest)[:, tf.newaxis],
                state.projected_memory,
                state.memory_mask,
                few_queries=True,
            )
            vectors = tf.reshape(vectors, (-1, hidden.shape[-1]))
            return self._logits(vectors, state.allowed, self.num_drafts)


def has_draft_heads(model: DecoderModel | Ensemble) -> bool:
    """Returns whether a model can draft; an ensemble cannot."""
    return getattr(model, "draft_heads", None) is not None

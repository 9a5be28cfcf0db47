"""Incremental decoding with several models."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tf_transformer.decoding.incremental_decoder import DecodingState, IncrementalDecoder
from tf_transformer.models.base import DecoderModel
from tf_transformer.models.ensemble import Ensemble


class EnsembleDecoder:
    """The decoders of an ensemble's members as one `StepModel`.

    All have the same hypotheses, and each its own cache.

    Args:
        ensemble: the ensemble.
        decoders: a decoder of each member.
    """

    def __init__(self, ensemble: Ensemble, decoders: list[IncrementalDecoder]):
        self._ensemble, self._decoders = ensemble, decoders
        self.compaction_interval = decoders[0].compaction_interval

    def start(
        self, rows: tf.Tensor | int, memories: tuple[tf.Tensor, ...], memory_padding_mask: tf.Tensor
    ) -> tuple[DecodingState, ...]:
        """Returns the state before the first token, see `IncrementalDecoder.start`.

        Args:
            rows: number of sentences.
            memories: the result of `Ensemble.encode`.
            memory_padding_mask: `(rows, source_length)` bool, True at real tokens.
        """
        return tuple(
            decoder.start(rows, memory, memory_padding_mask)
            for decoder, memory in zip(self._decoders, memories, strict=True)
        )

    def decode_step(
        self,
        newest: tf.Tensor,
        parents: tf.Tensor,
        position: tf.Tensor | int,
        state: tuple[DecodingState, ...],
        return_attention: bool = False,
    ) -> tuple[tf.Tensor, tf.Tensor | None, tuple[DecodingState, ...]]:
        """Computes the next token's logits of every hypothesis, see `StepModel.decode_step`."""
        steps = [
            decoder.decode_step(newest, parents, position, its_state, return_attention)
            for decoder, its_state in zip(self._decoders, state, strict=True)
        ]
        logits, attention, states = zip(*steps, strict=True)
        return (
            self._ensemble.mean(logits),
            self._ensemble.mean(attention) if return_attention else None,
            states,
        )

    def select_rows(
        self,
        rows: tf.Tensor,
        alive: tf.Tensor,
        parents: tf.Tensor,
        position: tf.Tensor | int,
        state: tuple[DecodingState, ...],
    ) -> tuple[DecodingState, ...]:
        """Returns the state of some rows, see `StepModel.select_rows`."""
        return tuple(
            decoder.select_rows(rows, alive, parents, position, its_state)
            for decoder, its_state in zip(self._decoders, state, strict=True)
        )


def make_decoder(
    model: DecoderModel | Ensemble, make: Callable[[DecoderModel], IncrementalDecoder]
) -> Any:
    """Returns the decoder of a model or an ensemble.

    Args:
        model: the model.
        make: returns the decoder of a single model.
    """
    if isinstance(model, Ensemble):
        return EnsembleDecoder(model, [make(member) for member in model.members])
    return make(model)

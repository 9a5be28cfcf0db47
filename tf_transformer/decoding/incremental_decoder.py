"""A model as beam search sees it: one token a hypothesis and step."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tf_transformer.backend import require_tensorflow
from tf_transformer.decoding.kv_cache import HIDDEN, Cache, begin_step, empty_cache, keep_hypotheses
from tf_transformer.models.base import DecoderModel

require_tensorflow("Decoding token by token")


class DecodingState(NamedTuple):
    """What `StepDecoder.decode_step` goes on from.

    Attributes:
        cache: keys and values of the target so far.
        projected_memory: a list of one dict a layer, keys and values of the memory, `(rows,
            num_heads, source_length, head_dim)`; `()` in a language model.
        memory_bias: `(rows, 1, 1, source_length)` float32, added to the scores of
            cross-attention; `()` in a language model.
    """

    cache: Cache
    projected_memory: Any
    memory_bias: Any


class StepDecoder:
    """The decoder of a model as a `StepModel`.

    Its steps compute the same logits as the model's parallel pass. The weights are read once, when
    it is made: make it where it is used, outside of the search's loop.

    Args:
        model: a `Transformer` or `LanguageModel`.
        beam_size: hypotheses of each sentence.
    """

    def __init__(self, model: DecoderModel, beam_size: int = 1):
        self.model = model
        self.beam_size = beam_size
        weights = [*model.decoder.weights, *model.target_embedding.weights]
        for layer in (model.target_positions, model.logits_projection):
            weights += layer.weights if layer is not None else []
        if hasattr(model, "logits_bias"):
            weights.append(model.logits_bias)
        self._values = [(weight, tf.convert_to_tensor(weight)) for weight in weights]

    def start(
        self,
        rows: tf.Tensor | int,
        memory: tf.Tensor | None = None,
        memory_padding_mask: tf.Tensor | None = None,
    ) -> DecodingState:
        """The state before any token.

        Args:
            rows: sentences.
            memory: `(rows, source_length, d_model)`, of `Transformer.encode`.
            memory_padding_mask: `(rows, source_length)` bool, True at real tokens.
        """
        decoder = self.model.decoder
        attentions = [layer.self_attention for layer in decoder.stacked_layers]
        shapes = [(attention.num_heads, attention.head_dim) for attention in attentions]
        cache = empty_cache(shapes, rows, self.beam_size, self.model.compute_dtype)
        if memory is None:
            return DecodingState(cache, (), ())
        bias = tf.where(memory_padding_mask, 0.0, HIDDEN)[:, tf.newaxis, tf.newaxis]
        return DecodingState(cache, decoder.project_memory(memory), bias)

    def decode_step(
        self,
        newest: tf.Tensor,
        parents: tf.Tensor,
        number: tf.Tensor | int,
        state: DecodingState,
        return_attention: bool = False,
    ) -> tuple[tf.Tensor, tf.Tensor | None, DecodingState]:
        """Reads the newest token of every hypothesis, see `StepModel`.

        The attention is the mean of the last layer's heads.
        """
        cache, context = begin_step(state.cache, parents, number)
        with keras.StatelessScope(state_mapping=self._values):
            logits, caches, weights = self.model.step(
                tf.reshape(newest, (-1,)),
                tf.reshape(number, (1,)),
                context,
                cache.layers,
                state.projected_memory,
                state.memory_bias,
            )
        logits = tf.reshape(logits, (-1, self.beam_size, logits.shape[-1]))
        attention = None
        if return_attention:
            attention = tf.reduce_mean(tf.cast(weights, tf.float32), axis=1)
        return logits, attention, state._replace(cache=cache._replace(layers=caches))

    def keep_hypotheses(
        self,
        rows: tf.Tensor,
        alive: tf.Tensor,
        parents: tf.Tensor,
        number: tf.Tensor | int,
        state: DecodingState,
    ) -> DecodingState:
        """The state of some rows and their living hypotheses, see `StepModel`."""
        return DecodingState(
            keep_hypotheses(state.cache, rows, alive, parents, number),
            *tf.nest.map_structure(
                lambda part: tf.gather(part, rows), (state.projected_memory, state.memory_bias)
            ),
        )

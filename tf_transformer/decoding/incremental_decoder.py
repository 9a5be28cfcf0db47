"""A model as beam search sees it: one token per hypothesis and step."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tf_transformer.backend import require_tensorflow
from tf_transformer.decoding.kv_cache import KVCache, begin_step, compact, empty_cache, select_rows
from tf_transformer.layers.masks import padding_attention_mask
from tf_transformer.models.base import DecoderModel

require_tensorflow("Decoding token by token")


class DecodingState(NamedTuple):
    """What `IncrementalDecoder.decode_step` continues from.

    Attributes:
        cache: keys and values of the target so far.
        projected_memory: a list of one dict per layer, keys and values of the memory,
            `(rows, num_heads, source_length, head_dim)`; `()` in a language model.
        memory_mask: `(rows, 1, 1, source_length)` bool, True at real tokens; `()` in a language
            model.
    """

    cache: KVCache
    projected_memory: Any
    memory_mask: Any


class IncrementalDecoder:
    """The decoder of a model as a `StepModel`.

    Its steps compute the same logits as the model's parallel pass. The weights are read once, when
    it is constructed: construct it where it is used, outside of the search's loop.

    Args:
        model: a `Transformer` or `LanguageModel`.
        beam_size: hypotheses of each sentence.

    Attributes:
        compaction_interval: steps that a cache has space for before it must be compacted.
    """

    compaction_interval = 8

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
            rows: number of sentences.
            memory: `(rows, source_length, d_model)`, of `Transformer.encode`.
            memory_padding_mask: `(rows, source_length)` bool, True at real tokens.
        """
        decoder = self.model.decoder
        attentions = [layer.self_attention for layer in decoder.stacked_layers]
        shapes = [(attention.num_heads, attention.head_dim) for attention in attentions]
        cache = empty_cache(
            shapes, rows, self.beam_size, self.compaction_interval, self.model.compute_dtype
        )
        if memory is None:
            return DecodingState(cache, (), ())
        projected = decoder.project_memory(memory)
        return DecodingState(cache, projected, padding_attention_mask(memory_padding_mask))

    def decode_step(
        self,
        newest: tf.Tensor,
        parents: tf.Tensor,
        position: tf.Tensor | int,
        state: DecodingState,
        return_attention: bool = False,
    ) -> tuple[tf.Tensor, tf.Tensor | None, DecodingState]:
        """Reads the newest token of every hypothesis, see `StepModel`.

        The attention is the mean of the last layer's heads.
        """
        cache, step = begin_step(state.cache, parents, position)
        with keras.StatelessScope(state_mapping=self._values):
            logits, caches, weights = self.model.step(
                tf.reshape(newest, (-1,)),
                tf.reshape(position, (1,)),
                cache.layers,
                step,
                state.projected_memory,
                state.memory_mask,
            )
        logits = tf.reshape(logits, (-1, self.beam_size, logits.shape[-1]))
        attention = None
        if return_attention:
            attention = tf.reduce_mean(tf.cast(weights, tf.float32), axis=1)
        return logits, attention, state._replace(cache=cache._replace(layers=caches))

    def select_rows(
        self,
        rows: tf.Tensor,
        alive: tf.Tensor,
        parents: tf.Tensor,
        position: tf.Tensor | int,
        state: DecodingState,
    ) -> DecodingState:
        """The state of some rows and their live hypotheses, see `StepModel`."""
        cache = select_rows(state.cache, rows)
        cache = tf.cond(
            cache.next_entry < tf.shape(cache.visible)[2],
            lambda: cache,
            lambda: compact(
                cache,
                tf.gather(alive, rows),
                tf.gather(parents, rows),
                position,
                self.compaction_interval,
            ),
        )
        return DecodingState(
            cache,
            *tf.nest.map_structure(
                lambda part: tf.gather(part, rows), (state.projected_memory, state.memory_mask)
            ),
        )

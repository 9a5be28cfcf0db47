"""The decoder ("Attention Is All You Need", 3.1), all positions at once or token by token."""

from typing import Any

import keras

from tf_transformer.attention import CrossAttention, SelfAttention
from tf_transformer.stack import Stack, SublayeredLayer


@keras.saving.register_keras_serializable(package="tf_transformer")
class DecoderLayer(SublayeredLayer):
    """Masked self-attention, cross-attention and feed-forward, each in a residual connection.

    Args: those of `SublayeredLayer`.

    Call arguments:
        inputs: `(batch, target_length, d_model)`.
        memory: `(batch, source_length, d_model)`.
        attention_mask: for self-attention; boolean, True = may attend, broadcasts to
            `(batch, num_heads, target_length, target_length)`.
        cross_attention_mask: for cross-attention, broadcasts to
            `(batch, num_heads, target_length, source_length)`.
        training: True applies dropout.

    Returns:
        `(batch, target_length, d_model)`.
    """

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.self_attention = self._attention(SelfAttention, "self_attention")
        self.self_attention_residual = self._residual("self_attention_residual")
        self.cross_attention = self._attention(CrossAttention, "cross_attention")
        self.cross_attention_residual = self._residual("cross_attention_residual")

    def build(self, inputs_shape, memory_shape=None):
        super().build(inputs_shape)

    def call(self, inputs, memory, attention_mask=None, cross_attention_mask=None, training=None):
        # 1. masked self-attention
        attended = self.self_attention(
            self.self_attention_residual.before(inputs), attention_mask, training=training
        )
        hidden = self.self_attention_residual(inputs, attended, training=training)
        # 2. cross-attention
        attended = self.cross_attention(
            self.cross_attention_residual.before(hidden),
            memory,
            cross_attention_mask,
            training=training,
        )
        hidden = self.cross_attention_residual(hidden, attended, training=training)
        # 3. feed-forward
        return self._apply_feed_forward(hidden, training)

    def step(self, inputs, cache, projected_memory, cross_attention_mask):
        """The same three sublayers for the newest token of every hypothesis.

        Args:
            inputs: `(batch, beam, d_model)`.
            cache: of the self-attention, see `SelfAttention.step`.
            projected_memory: of the cross-attention, see `CrossAttention.project_memory`.
            cross_attention_mask: `(batch, 1, 1, source_length)`.

        Returns:
            `(batch, beam, d_model)` and the cache with one more position.
        """
        # 1. masked self-attention
        attended, cache = self.self_attention.step(
            self.self_attention_residual.before(inputs), cache
        )
        hidden = self.self_attention_residual(inputs, attended)
        # 2. cross-attention: the hypotheses of a sentence are so many queries to one memory
        attended = self.cross_attention.attend(
            self.cross_attention_residual.before(hidden), projected_memory, cross_attention_mask
        )
        hidden = self.cross_attention_residual(hidden, attended)
        # 3. feed-forward
        return self._apply_feed_forward(hidden, training=False), cache


@keras.saving.register_keras_serializable(package="tf_transformer")
class Decoder(Stack):
    """A stack of `DecoderLayer`s.

    Args: `num_layers`, and those of `DecoderLayer`.

    Call arguments:
        inputs: embedded target, `(batch, target_length, d_model)`.
        memory: `(batch, source_length, d_model)`.
        attention_mask, cross_attention_mask, training: see `DecoderLayer`.

    Returns:
        `(batch, target_length, d_model)`.
    """

    layer_class = DecoderLayer

    def build(self, inputs_shape, memory_shape=None):
        super().build(inputs_shape)

    def call(self, inputs, memory, attention_mask=None, cross_attention_mask=None, training=None):
        hidden = inputs
        for layer in self.stacked_layers:
            hidden = layer(hidden, memory, attention_mask, cross_attention_mask, training=training)
        return self._finish(hidden)

    def empty_cache(self, batch_size, beam_size):
        """One empty self-attention cache a layer."""
        return [
            layer.self_attention.empty_cache(batch_size, beam_size) for layer in self.stacked_layers
        ]

    def project_memory(self, memory):
        """One pair of cross-attention keys and values a layer."""
        return [layer.cross_attention.project_memory(memory) for layer in self.stacked_layers]

    def step(self, inputs, cache, projected_memory, cross_attention_mask):
        """`DecoderLayer.step` through the stack, with lists of caches and projected memories."""
        hidden = inputs
        new_cache = []
        for layer, layer_cache, layer_memory in zip(
            self.stacked_layers, cache, projected_memory, strict=True
        ):
            hidden, layer_cache = layer.step(
                hidden, layer_cache, layer_memory, cross_attention_mask
            )
            new_cache.append(layer_cache)
        return self._finish(hidden), new_cache

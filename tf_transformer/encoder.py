"""The encoder ("Attention Is All You Need", 3.1)."""

from typing import Any

import keras

from tf_transformer.attention import SelfAttention
from tf_transformer.stack import Stack, SublayeredLayer


@keras.saving.register_keras_serializable(package="tf_transformer")
class EncoderLayer(SublayeredLayer):
    """Self-attention and feed-forward, each in a residual connection.

    Args: those of `SublayeredLayer`.

    Call arguments:
        inputs: `(batch, source_length, d_model)`.
        attention_mask: boolean, True = may attend, broadcasts to
            `(batch, num_heads, source_length, source_length)`.
        training: True applies dropout.

    Returns:
        `(batch, source_length, d_model)`.
    """

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.self_attention = self._attention(SelfAttention, "self_attention")
        self.self_attention_residual = self._residual("self_attention_residual")

    def call(self, inputs, attention_mask=None, training=None):
        # 1. self-attention
        attended = self.self_attention(
            self.self_attention_residual.before(inputs), attention_mask, training=training
        )
        hidden = self.self_attention_residual(inputs, attended, training=training)
        # 2. feed-forward
        return self._apply_feed_forward(hidden, training)


@keras.saving.register_keras_serializable(package="tf_transformer")
class Encoder(Stack):
    """A stack of `EncoderLayer`s; its output is the memory that the decoder attends to.

    Args: `num_layers`, and those of `EncoderLayer`.

    Call arguments:
        inputs: embedded source, `(batch, source_length, d_model)`.
        attention_mask: boolean, True = may attend, broadcasts to
            `(batch, num_heads, source_length, source_length)`.
        training: True applies dropout.

    Returns:
        `(batch, source_length, d_model)`.
    """

    layer_class = EncoderLayer

    def call(self, inputs, attention_mask=None, training=None):
        hidden = inputs
        for layer in self.stacked_layers:
            hidden = layer(hidden, attention_mask, training=training)
        return self._finish(hidden)

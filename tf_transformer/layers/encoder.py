"""The encoder ("Attention Is All You Need", 3.1)."""

from typing import Any, NamedTuple

import keras

from tf_transformer.layers.layout import PADDED, SentenceLayout
from tf_transformer.layers.stack import Stack, TransformerLayer


class EncoderStates(NamedTuple):
    """Intermediate results of an encoder of N layers.

    Attributes:
        hidden: the embedding and the output of every layer, N + 1 tensors of
            `(batch, source_length, d_model)`.
        attention: attention weights of every layer, N tensors of
            `(batch, num_heads, source_length, source_length)`.
    """

    hidden: list[Any]
    attention: list[Any]


@keras.saving.register_keras_serializable(package="tf_transformer")
class EncoderLayer(TransformerLayer):
    """Self-attention and feed-forward, each in a residual connection.

    Args:
        **settings: the fields of `LayerSettings`.

    Call arguments:
        inputs: `(batch, source_length, d_model)`.
        attention_mask: boolean, True = may attend, four axes that broadcast to
            `(batch, num_heads, source_length, source_length)`.
        training: True applies dropout.
        layout: layout of `inputs` and outputs, see `layers.layout`.
        score_bias: `(1, num_heads, source_length, source_length)` float32, added to the scores
            of self-attention, see `RelativeBias`; or None.

    Returns:
        `(batch, source_length, d_model)`.
    """

    def call(
        self,
        inputs,
        attention_mask=None,
        training=None,
        layout: SentenceLayout = PADDED,
        score_bias=None,
    ):
        return self.attend(inputs, attention_mask, training, layout, score_bias)[0]

    def attend(
        self,
        inputs,
        attention_mask=None,
        training=None,
        layout: SentenceLayout = PADDED,
        score_bias=None,
    ):
        """Computes `call`, and returns the attention weights as well.

        Returns:
            `(batch, source_length, d_model)` and the weights
            `(batch, num_heads, source_length, source_length)`.
        """
        # 1. self-attention
        attended, weights = self.self_attention.attend(
            self.self_attention_residual.sublayer_inputs(inputs),
            attention_mask,
            training,
            layout,
            score_bias,
        )
        hidden = self.self_attention_residual(inputs, attended, training=training)
        # 2. feed-forward
        return self._apply_feed_forward(hidden, training), weights


@keras.saving.register_keras_serializable(package="tf_transformer")
class Encoder(Stack):
    """A stack of `EncoderLayer`s, whose output is the memory to which the decoder attends.

    Args:
        **settings: the fields of `StackSettings` and of `LayerSettings`.

    Call arguments:
        inputs: embedded source, `(batch, source_length, d_model)`.
        attention_mask: boolean, True = may attend, four axes that broadcast to
            `(batch, num_heads, source_length, source_length)`.
        training: True applies dropout.
        layout: layout of `inputs` and outputs, see `layers.layout`.

    Returns:
        The memory, `(batch, source_length, d_model)`.
    """

    layer_class = EncoderLayer

    def call(self, inputs, attention_mask=None, training=None, layout: SentenceLayout = PADDED):
        score_bias = self._score_bias(inputs, layout)

        def run_layer(layer_index, hidden):
            layer = self.stacked_layers[layer_index]
            return layer(
                hidden, attention_mask, training=training, layout=layout, score_bias=score_bias
            )

        return self._run(inputs, run_layer)[0]

    def states(self, inputs, attention_mask=None, training=None) -> tuple[Any, EncoderStates]:
        """Computes `call`, and returns the intermediate results as well."""
        attention, score_bias = [], self._score_bias(inputs, PADDED)

        def run_layer(layer_index, hidden):
            layer = self.stacked_layers[layer_index]
            hidden, weights = layer.attend(hidden, attention_mask, training, PADDED, score_bias)
            attention.append(weights)
            return hidden

        memory, hidden = self._run(inputs, run_layer)
        return memory, EncoderStates(hidden, attention)

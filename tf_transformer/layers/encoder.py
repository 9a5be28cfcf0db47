"""The encoder ("Attention Is All You Need", 3.1)."""

import keras

from tf_transformer.layers.layer_states import EncoderStates
from tf_transformer.layers.stack import Stack, SublayeredLayer


@keras.saving.register_keras_serializable(package="tf_transformer")
class EncoderLayer(SublayeredLayer):
    """Self-attention and feed-forward, each in a residual connection.

    Args: those of `SublayeredLayer`.

    Call arguments:
        inputs: `(batch, source_length, d_model)`.
        attention_mask: boolean, True = may attend, broadcasts to
            `(batch, num_heads, source_length, source_length)`.
        training: True applies dropout.
        head_mask: `(num_heads,)`, 0 takes a head out; None keeps all.
        return_attention: True also returns the attention weights.
        packing: `Packing`, where inputs and outputs are `(tokens, d_model)`, without padding.

    Returns:
        `(batch, source_length, d_model)`; with `return_attention` a pair of it and the weights
        `(batch, num_heads, source_length, source_length)`.
    """

    def call(
        self,
        inputs,
        attention_mask=None,
        training=None,
        head_mask=None,
        return_attention=False,
        packing=None,
    ):
        # 1. self-attention
        attended, weights = self.self_attention(
            self.self_attention_residual.before(inputs),
            attention_mask,
            training=training,
            head_mask=head_mask,
            return_attention=True,
            packing=packing,
        )
        hidden = self.self_attention_residual(inputs, attended, training=training)
        # 2. feed-forward
        outputs = self._apply_feed_forward(hidden, training)
        return (outputs, weights) if return_attention else outputs


@keras.saving.register_keras_serializable(package="tf_transformer")
class Encoder(Stack):
    """A stack of `EncoderLayer`s; its output is the memory that the decoder attends to.

    Args: those of `Stack` and of `EncoderLayer`.

    Call arguments:
        inputs: embedded source, `(batch, source_length, d_model)`.
        attention_mask: boolean, True = may attend, broadcasts to
            `(batch, num_heads, source_length, source_length)`.
        training: True applies dropout.
        head_masks: `(num_layers, num_heads)`, 0 takes a head out; None keeps all.
        return_states: True also returns what lies between the layers, see `EncoderStates`.
        packing: see `EncoderLayer`.

    Returns:
        `(batch, source_length, d_model)`; with `return_states` a pair of it and `EncoderStates`.
    """

    layer_class = EncoderLayer

    def call(
        self,
        inputs,
        attention_mask=None,
        training=None,
        head_masks=None,
        return_states=False,
        packing=None,
    ):
        attention = []

        def run_layer(number, layer, hidden):
            outputs = layer(
                hidden,
                attention_mask,
                training=training,
                head_mask=None if head_masks is None else head_masks[number],
                return_attention=return_states,
                packing=packing,
            )
            if not return_states:
                return outputs
            hidden, weights = outputs
            attention.append(weights)
            return hidden

        memory, outputs = self._run(inputs, run_layer)
        return (memory, EncoderStates(outputs, attention)) if return_states else memory

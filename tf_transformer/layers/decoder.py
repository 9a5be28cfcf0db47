"""The decoder ("Attention Is All You Need", 3.1), all positions at once or token by token."""

from typing import Any

import keras

from tf_transformer.layers.attention import CrossAttention
from tf_transformer.layers.layer_states import DecoderStates
from tf_transformer.layers.stack import Stack, SublayeredLayer


@keras.saving.register_keras_serializable(package="tf_transformer")
class DecoderLayer(SublayeredLayer):
    """Masked self-attention, cross-attention and feed-forward, each in a residual connection.

    Args: those of `SublayeredLayer`, and
        cross_attention: False leaves it out, as in a language model.
        cross_num_heads: heads of the cross-attention; `num_heads` when None.

    Call arguments:
        inputs: `(batch, target_length, d_model)`.
        memory: `(batch, source_length, memory_width)`; None without cross-attention.
        attention_mask: for self-attention; boolean, True = may attend, broadcasts to
            `(batch, num_heads, target_length, target_length)`.
        cross_attention_mask: for cross-attention, broadcasts to
            `(batch, num_heads, target_length, source_length)`.
        training: True applies dropout.
        head_mask, cross_head_mask: `(num_heads,)`, 0 takes a head out; None keeps all.
        return_attention: True also returns the attention weights.
        packing, memory_packing: see `CrossAttention`.

    Returns:
        `(batch, target_length, d_model)`; with `return_attention` a triple of it and the weights of
        self-attention, `(batch, num_heads, target_length, target_length)`, and of cross-attention,
        `(batch, cross_num_heads, target_length, source_length)` or None.
    """

    def __init__(
        self, *, cross_attention: bool = True, cross_num_heads: int | None = None, **kwargs: Any
    ):
        super().__init__(**kwargs)
        self.has_cross_attention = cross_attention
        self.cross_num_heads = cross_num_heads or self.num_heads
        if cross_attention:
            self.cross_attention = CrossAttention(
                num_heads=self.cross_num_heads,
                dropout_rate=self.attention_dropout_rate,
                initial_gain=self.initial_gain,
                dtype=self.dtype_policy,
                name="cross_attention",
            )
            self.cross_attention_residual = self._residual("cross_attention_residual")

    def build(self, inputs_shape, memory_shape=None):
        if self.has_cross_attention:
            self.cross_attention.build(inputs_shape, memory_shape)
        super().build(inputs_shape)

    def call(
        self,
        inputs,
        memory=None,
        attention_mask=None,
        cross_attention_mask=None,
        training=None,
        head_mask=None,
        cross_head_mask=None,
        return_attention=False,
        packing=None,
        memory_packing=None,
    ):
        # 1. masked self-attention
        attended, weights = self.self_attention(
            self.self_attention_residual.before(inputs),
            attention_mask,
            training=training,
            head_mask=head_mask,
            return_attention=True,
            packing=packing,
        )
        hidden = self.self_attention_residual(inputs, attended, training=training)
        # 2. cross-attention
        cross_weights = None
        if self.has_cross_attention:
            attended, cross_weights = self.cross_attention(
                self.cross_attention_residual.before(hidden),
                memory,
                cross_attention_mask,
                training=training,
                head_mask=cross_head_mask,
                return_attention=True,
                packing=packing,
                memory_packing=memory_packing,
            )
            hidden = self.cross_attention_residual(hidden, attended, training=training)
        # 3. feed-forward
        outputs = self._apply_feed_forward(hidden, training)
        return (outputs, weights, cross_weights) if return_attention else outputs

    def step(self, inputs, layer_cache, context, projected_memory=None, memory_bias=None):
        """The same sublayers for the newest token of every hypothesis.

        Args:
            inputs: `(rows * beam, d_model)`.
            layer_cache, context: see `SelfAttention.step`.
            projected_memory, memory_bias: see `CrossAttention.step`.

        Returns:
            `(rows * beam, d_model)`, the layer's cache with the entries of this step, and the
            weights of cross-attention, `(rows, num_heads, beam, source_length)`, or None.
        """
        # 1. masked self-attention
        attended, layer_cache = self.self_attention.step(
            self.self_attention_residual.before(inputs), layer_cache, context
        )
        hidden = self.self_attention_residual(inputs, attended)
        # 2. cross-attention: the hypotheses of a sentence are so many queries to one memory
        weights = None
        if self.has_cross_attention:
            attended, weights = self.cross_attention.step(
                self.cross_attention_residual.before(hidden),
                projected_memory,
                memory_bias,
                return_attention=True,
            )
            hidden = self.cross_attention_residual(hidden, attended)
        # 3. feed-forward
        return self._apply_feed_forward(hidden, training=False), layer_cache, weights

    def get_config(self):
        return super().get_config() | {
            "cross_attention": self.has_cross_attention,
            "cross_num_heads": self.cross_num_heads,
        }


@keras.saving.register_keras_serializable(package="tf_transformer")
class Decoder(Stack):
    """A stack of `DecoderLayer`s.

    Args: those of `Stack` and of `DecoderLayer`.

    Call arguments:
        inputs: embedded target, `(batch, target_length, d_model)`.
        memory: `(batch, source_length, memory_width)`; None without cross-attention.
        attention_mask, cross_attention_mask, training: see `DecoderLayer`.
        head_masks, cross_head_masks: `(num_layers, num_heads)`, 0 takes a head out; None keeps all.
        return_states: True also returns what lies between the layers, see `DecoderStates`.
        packing, memory_packing: see `CrossAttention`.

    Returns:
        `(batch, target_length, d_model)`; with `return_states` a pair of it and `DecoderStates`.
    """

    layer_class = DecoderLayer

    def build(self, inputs_shape, memory_shape=None):
        super().build(inputs_shape, memory_shape)

    def call(
        self,
        inputs,
        memory=None,
        attention_mask=None,
        cross_attention_mask=None,
        training=None,
        head_masks=None,
        cross_head_masks=None,
        return_states=False,
        packing=None,
        memory_packing=None,
    ):
        attention, cross_attention = [], []

        def run_layer(number, layer, hidden):
            outputs = layer(
                hidden,
                memory,
                attention_mask,
                cross_attention_mask,
                training=training,
                head_mask=None if head_masks is None else head_masks[number],
                cross_head_mask=None if cross_head_masks is None else cross_head_masks[number],
                return_attention=return_states,
                packing=packing,
                memory_packing=memory_packing,
            )
            if not return_states:
                return outputs
            hidden, weights, cross_weights = outputs
            attention.append(weights)
            if cross_weights is not None:
                cross_attention.append(cross_weights)
            return hidden

        outputs, hidden = self._run(inputs, run_layer)
        if not return_states:
            return outputs
        return outputs, DecoderStates(hidden, attention, cross_attention)

    def project_memory(self, memory):
        """One pair of cross-attention keys and values a layer."""
        return [layer.cross_attention.project_memory(memory) for layer in self.stacked_layers]

    def step(self, inputs, context, caches, projected_memory=(), memory_bias=None):
        """`DecoderLayer.step` through the stack.

        Args:
            inputs: `(rows * beam, d_model)`.
            context: `StepContext`.
            caches: of the self-attention, one a layer.
            projected_memory: of `project_memory`.
            memory_bias: `(rows, 1, 1, source_length)`.

        Returns:
            `(rows * beam, d_model)`, the new caches, and the last layer's weights of
            cross-attention, or None.
        """
        new_caches, weights = [], []

        def run_layer(number, layer, hidden):
            hidden, layer_cache, layer_weights = layer.step(
                hidden,
                caches[number],
                context,
                projected_memory[number] if projected_memory else None,
                memory_bias,
            )
            new_caches.append(layer_cache)
            weights.append(layer_weights)
            return hidden

        hidden, _ = self._run(inputs, run_layer)
        return hidden, new_caches, weights[-1]

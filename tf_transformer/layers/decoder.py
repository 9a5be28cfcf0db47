"""The decoder ("Attention Is All You Need", 3.1), for all positions at once or token by token."""

from typing import Any, NamedTuple

import keras

from tf_transformer.layer_settings import DecoderLayerSettings
from tf_transformer.layers.attention import CrossAttention
from tf_transformer.layers.layout import PADDED, Beam, SentenceLayout
from tf_transformer.layers.ssru import SSRU
from tf_transformer.layers.stack import Stack, TransformerLayer


class DecoderStates(NamedTuple):
    """Intermediate results of a decoder of N layers.

    Attributes:
        hidden: the embedding and the output of every layer, N + 1 tensors of
            `(batch, target_length, d_model)`.
        self_attention: self-attention weights of every layer, N tensors of
            `(batch, num_heads, target_length, target_length)`; empty without self-attention.
        cross_attention: cross-attention weights of every layer, N tensors of
            `(batch, cross_num_heads, target_length, source_length)`; empty without
            cross-attention.
    """

    hidden: list[Any]
    self_attention: list[Any]
    cross_attention: list[Any]


@keras.saving.register_keras_serializable(package="tf_transformer")
class DecoderLayer(TransformerLayer):
    """Masked self-attention, cross-attention and feed-forward, each in a residual connection.

    With `autoregression="ssru"`, a recurrent layer takes the place of self-attention.

    Args:
        **settings: the fields of `DecoderLayerSettings`.

    Call arguments:
        inputs: `(batch, target_length, d_model)`.
        memory: `(batch, source_length, memory_width)`; None without cross-attention.
        attention_mask: for self-attention; boolean, True = may attend, four axes that broadcast to
            `(batch, num_heads, target_length, target_length)`.
        cross_attention_mask: for cross-attention, four axes that broadcast to
            `(batch, cross_num_heads, target_length, source_length)`.
        training: True applies dropout.
        layout: layout of `inputs` and outputs; `layout.memory` is the layout of `memory`.
        score_bias: `(1, num_heads, target_length, target_length)` float32, added to the scores
            of self-attention, see `RelativeBias`; or None.

    Returns:
        `(batch, target_length, d_model)`.
    """

    settings_class = DecoderLayerSettings
    settings: DecoderLayerSettings

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.has_cross_attention = self.settings.cross_attention
        if self.has_cross_attention:
            self.cross_attention = CrossAttention(
                num_heads=self.settings.cross_num_heads or self.settings.num_heads,
                head_dim=self.settings.head_dim,
                use_bias=self.settings.dense_bias,
                dropout_rate=self.settings.attention_dropout_rate,
                initial_gain=self.settings.initial_gain,
                dtype=self.dtype_policy,
                name="cross_attention",
            )
            self.cross_attention_residual = self._residual("cross_attention_residual")

    def _add_first_sublayer(self):
        if self.settings.autoregression == "self_attention":
            super()._add_first_sublayer()
            return
        self.ssru = SSRU(
            initial_gain=self.settings.initial_gain, dtype=self.dtype_policy, name="ssru"
        )
        self.ssru_residual = self._residual("ssru_residual")

    def _first_sublayer(self):
        """Returns the sublayer that connects the positions, and its residual connection."""
        if self.settings.autoregression == "self_attention":
            return self.self_attention, self.self_attention_residual
        return self.ssru, self.ssru_residual

    def build(self, inputs_shape, memory_shape=None):
        if self.has_cross_attention:
            self.cross_attention.build(inputs_shape, memory_shape)
        super().build(inputs_shape)

    def masks_of_call(  # the arguments of `call`
        self, inputs, memory=None, attention_mask=None, cross_attention_mask=None, *_, **__
    ):
        masks = [(attention_mask, inputs, inputs)]
        return masks if memory is None else [*masks, (cross_attention_mask, inputs, memory)]

    def call(
        self,
        inputs,
        memory=None,
        attention_mask=None,
        cross_attention_mask=None,
        training=None,
        layout: SentenceLayout = PADDED,
        score_bias=None,
    ):
        masks = (attention_mask, cross_attention_mask)
        return self.attend(inputs, memory, *masks, training, layout, score_bias)[0]

    def attend(
        self,
        inputs,
        memory=None,
        attention_mask=None,
        cross_attention_mask=None,
        training=None,
        layout: SentenceLayout = PADDED,
        score_bias=None,
    ):
        """Computes `call`, and returns the attention weights as well.

        Returns:
            `(batch, target_length, d_model)` and the weights of self-attention,
            `(batch, num_heads, target_length, target_length)` or None, and of cross-attention,
            `(batch, cross_num_heads, target_length, source_length)` or None.
        """
        return self._run_sublayers(
            inputs,
            lambda first, x: first.attend(x, attention_mask, training, layout, score_bias),
            lambda x: self.cross_attention.attend(
                x, memory, cross_attention_mask, training, layout
            ),
            training,
        )

    def align(
        self,
        inputs,
        memory,
        head: int,
        masks: tuple[Any, Any] = (None, None),
        training=None,
        layout: SentenceLayout = PADDED,
        score_bias=None,
    ):
        """Computes `call`, and returns the logarithm of a head's cross-attention as well.

        Args:
            inputs: see `call`.
            memory: see `call`.
            head: index of the head.
            masks: `attention_mask` and `cross_attention_mask` of `call`.
            training: see `call`.
            layout: see `call`.
            score_bias: see `call`.

        Returns:
            `(batch, target_length, d_model)` and `(batch, target_length, source_length)` float32,
            see `CrossAttention.align`.
        """
        outputs, _, log_weights = self._run_sublayers(
            inputs,
            lambda first, x: first.attend(x, masks[0], training, layout, score_bias),
            lambda x: self.cross_attention.align(x, memory, head, masks[1], training, layout),
            training,
        )
        return outputs, log_weights

    def step(
        self, inputs, layer_cache, step, projected_memory=None, memory_mask=None, score_bias=None
    ):
        """Computes the layer for the newest token of every hypothesis.

        Args:
            inputs: `(rows * beam, d_model)`.
            layer_cache: this layer's part of a `KVCache` or a `RecurrentCache`.
            step: the `CacheStep` or `RecurrentStep` of the decoding step.
            projected_memory: the result of `CrossAttention.project_memory`; None without
                cross-attention.
            memory_mask: `(rows, 1, 1, source_length)` bool, True = may attend.
            score_bias: see `RelativeBias.at`; or None.

        Returns:
            `(rows * beam, d_model)`, the layer's cache after this step, and the weights of
            cross-attention, `(rows, cross_num_heads, beam, source_length)`, or None.
        """
        return self._run_sublayers(
            inputs,
            lambda first, x: first.step(x, layer_cache, step, score_bias),
            # The hypotheses of a row are queries of the same memory.
            lambda x: self.cross_attention.attend_projected(
                x, projected_memory, memory_mask, layout=Beam(step.beam_size)
            ),
        )

    def _run_sublayers(self, inputs, run_first, attend_to_memory, training=None):
        """Runs the three sublayers.

        Each function returns the sublayer's output and a second result, which is returned.
        """
        # 1. masked self-attention, or the recurrent layer
        first, residual = self._first_sublayer()
        outputs, from_first = run_first(first, residual.sublayer_inputs(inputs))
        hidden = residual(inputs, outputs, training=training)
        # 2. cross-attention
        from_memory = None
        if self.has_cross_attention:
            attended, from_memory = attend_to_memory(
                self.cross_attention_residual.sublayer_inputs(hidden)
            )
            hidden = self.cross_attention_residual(hidden, attended, training=training)
        # 3. feed-forward
        return self._apply_feed_forward(hidden, training), from_first, from_memory


@keras.saving.register_keras_serializable(package="tf_transformer")
class Decoder(Stack):
    """A stack of `DecoderLayer`s.

    Args:
        **settings: the fields of `StackSettings` and of `DecoderLayerSettings`.

    Call arguments:
        inputs: embedded target, `(batch, target_length, d_model)`.
        memory: `(batch, source_length, memory_width)`; None without cross-attention.
        attention_mask: for self-attention; boolean, True = may attend, four axes that broadcast to
            `(batch, num_heads, target_length, target_length)`.
        cross_attention_mask: for cross-attention, four axes that broadcast to
            `(batch, cross_num_heads, target_length, source_length)`.
        training: True applies dropout.
        layout: layout of `inputs` and outputs; `layout.memory` is the layout of `memory`.

    Returns:
        `(batch, target_length, d_model)`.
    """

    layer_class = DecoderLayer
    is_bidirectional = False
    layer_settings: DecoderLayerSettings

    @property
    def _has_self_attention(self) -> bool:
        return self.layer_settings.autoregression == "self_attention"

    def build(self, inputs_shape, memory_shape=None):
        super().build(inputs_shape, memory_shape)

    def masks_of_call(  # the arguments of `call`
        self, inputs, memory=None, attention_mask=None, cross_attention_mask=None, *_, **__
    ):
        masks = [(attention_mask, inputs, inputs)]
        return masks if memory is None else [*masks, (cross_attention_mask, inputs, memory)]

    def call(
        self,
        inputs,
        memory=None,
        attention_mask=None,
        cross_attention_mask=None,
        training=None,
        layout: SentenceLayout = PADDED,
    ):
        score_bias = self._score_bias(inputs, layout)

        def run_layer(layer_index, hidden):
            layer = self.stacked_layers[layer_index]
            return layer(
                hidden,
                memory,
                attention_mask,
                cross_attention_mask,
                training=training,
                layout=layout,
                score_bias=score_bias,
            )

        return self._run(inputs, run_layer)[0]

    def states(
        self,
        inputs,
        memory=None,
        attention_mask=None,
        cross_attention_mask=None,
        training=None,
    ) -> tuple[Any, DecoderStates]:
        """Computes `call`, and returns the intermediate results as well."""
        attention, cross_attention = [], []
        score_bias = self._score_bias(inputs, PADDED)

        def run_layer(layer_index, hidden):
            hidden, weights, cross_weights = self.stacked_layers[layer_index].attend(
                hidden, memory, attention_mask, cross_attention_mask, training, PADDED, score_bias
            )
            if weights is not None:
                attention.append(weights)
            if cross_weights is not None:
                cross_attention.append(cross_weights)
            return hidden

        outputs, hidden = self._run(inputs, run_layer)
        return outputs, DecoderStates(hidden, attention, cross_attention)

    def align(
        self,
        inputs,
        memory,
        layer_and_head: tuple[int, int],
        masks: tuple[Any, Any] = (None, None),
        training=None,
        layout: SentenceLayout = PADDED,
    ):
        """Computes `call`, and returns the logarithm of a head's cross-attention as well.

        Args:
            inputs: see `call`.
            memory: see `call`.
            layer_and_head: indices of the layer and of the head.
            masks: `attention_mask` and `cross_attention_mask` of `call`.
            training: see `call`.
            layout: see `call`.

        Returns:
            `(batch, target_length, d_model)` and `(batch, target_length, source_length)` float32,
            see `CrossAttention.align`.
        """
        aligning_layer, head = layer_and_head
        log_weights, score_bias = None, self._score_bias(inputs, layout)

        def run_layer(layer_index, hidden):
            nonlocal log_weights
            layer = self.stacked_layers[layer_index]
            options = dict(training=training, layout=layout, score_bias=score_bias)
            if layer_index != aligning_layer:
                return layer(hidden, memory, *masks, **options)
            hidden, log_weights = layer.align(hidden, memory, head, masks, **options)
            return hidden

        outputs, _ = self._run(inputs, run_layer)
        return outputs, log_weights

    def project_memory(self, memory):
        """Returns the cross-attention keys and values of every layer."""
        return [layer.cross_attention.project_memory(memory) for layer in self.stacked_layers]

    def step(self, inputs, caches, step, projected_memory=(), memory_mask=None):
        """Runs `DecoderLayer.step` of every layer.

        Args:
            inputs: `(rows * beam, d_model)`.
            caches: `KVCache.layers` or `RecurrentCache.layers`.
            step: the `CacheStep` or `RecurrentStep` of the decoding step.
            projected_memory: the result of `project_memory`; empty without cross-attention.
            memory_mask: `(rows, 1, 1, source_length)` bool, True = may attend.

        Returns:
            `(rows * beam, d_model)`, the new caches, and the last layer's cross-attention weights
            or None.
        """
        new_caches, weights = [], []
        bias = self.relative_bias
        score_bias = None if bias is None else bias.at(step.distances)

        def run_layer(layer_index, hidden):
            hidden, layer_cache, layer_weights = self.stacked_layers[layer_index].step(
                hidden,
                caches[layer_index],
                step,
                projected_memory[layer_index] if projected_memory else None,
                memory_mask,
                score_bias,
            )
            new_caches.append(layer_cache)
            weights.append(layer_weights)
            return hidden

        hidden, _ = self._run(inputs, run_layer)
        return hidden, new_caches, weights[-1]

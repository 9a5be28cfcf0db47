"""Base classes of encoder and decoder: a layer, and a stack of layers."""

import dataclasses
from collections.abc import Callable
from typing import Any

from keras import ops

from tf_transformer.layer_settings import LayerSettings, StackSettings
from tf_transformer.layers.attention import SelfAttention
from tf_transformer.layers.feed_forward import FeedForward
from tf_transformer.layers.layer_history import LayerHistory
from tf_transformer.layers.layout import SentenceLayout
from tf_transformer.layers.masks import MaskedLayer
from tf_transformer.layers.normalization import make_norm
from tf_transformer.layers.positions import RelativeBias
from tf_transformer.layers.residual import Residual


class TransformerLayer(MaskedLayer):
    """Base class of encoder and decoder layers: their self-attention and feed-forward sublayers.

    Args:
        name: name of the layer.
        dtype: dtype or dtype policy.
        trainable: whether the weights are trained.
        **settings: the fields of `settings_class`.

    Attributes:
        settings: the settings.
    """

    settings_class: type[LayerSettings] = LayerSettings

    def __init__(
        self, *, name: str | None = None, dtype: Any = None, trainable: bool = True, **settings: Any
    ):
        super().__init__(name=name, dtype=dtype, trainable=trainable)
        self.settings = self.settings_class(**settings)
        self._add_first_sublayer()
        self.feed_forward = FeedForward(
            d_ff=self.settings.d_ff,
            activation=self.settings.activation,
            use_bias=self.settings.dense_bias,
            dropout_rate=self.settings.feed_forward_dropout_rate,
            initial_gain=self.settings.initial_gain,
            dtype=self.dtype_policy,
            name="feed_forward",
        )
        self.feed_forward_residual = self._residual("feed_forward_residual")

    def _add_first_sublayer(self):
        """Creates the sublayer that connects the positions, and its residual connection."""
        self.self_attention = SelfAttention(
            num_heads=self.settings.num_heads,
            head_dim=self.settings.head_dim,
            use_bias=self.settings.dense_bias,
            dropout_rate=self.settings.attention_dropout_rate,
            relative_positions=self.settings.relative_positions,
            max_relative_distance=self.settings.max_relative_distance,
            initial_gain=self.settings.initial_gain,
            dtype=self.dtype_policy,
            name="self_attention",
        )
        self.self_attention_residual = self._residual("self_attention_residual")

    def _residual(self, name: str) -> Residual:
        return Residual(
            norm_position=self.settings.norm_position,
            norm_type=self.settings.norm_type,
            dropout_rate=self.settings.dropout_rate,
            epsilon=self.settings.layer_norm_epsilon,
            dtype=self.dtype_policy,
            name=name,
        )

    def _apply_feed_forward(self, inputs, training):
        sublayer_inputs = self.feed_forward_residual.sublayer_inputs(inputs)
        outputs = self.feed_forward(sublayer_inputs, training=training)
        return self.feed_forward_residual(inputs, outputs, training=training)

    def build(self, inputs_shape):
        for sublayer in self.layers:
            if not sublayer.built:
                sublayer.build(inputs_shape)
        self.built = True

    def compute_output_shape(self, inputs_shape, *_, **__):
        return inputs_shape

    def get_config(self):
        return super().get_config() | dataclasses.asdict(self.settings)


class Stack(MaskedLayer):
    """Base class of encoder and decoder: N identical layers, with an optional norm at the end.

    Post-norm layers end with a norm, so the paper's stacks need no final norm.

    Args:
        name: name of the stack.
        dtype: dtype or dtype policy.
        trainable: whether the weights are trained.
        **settings: the fields of `StackSettings`, and those of the layers' settings.

    Attributes:
        settings: the settings of the stack.
        layer_settings: those of its layers.
        relative_bias: the bias of all layers with `relative_positions="buckets"`, else None.
        is_centred: whether each row of the input loses its mean, see `quantization.folded_norms`.
    """

    layer_class: type[TransformerLayer]
    is_bidirectional = True
    is_centred = False

    def __init__(
        self, *, name: str | None = None, dtype: Any = None, trainable: bool = True, **settings: Any
    ):
        super().__init__(name=name, dtype=dtype, trainable=trainable)
        own = {field.name for field in dataclasses.fields(StackSettings)} & settings.keys()
        self.settings = StackSettings(**{key: settings[key] for key in own})
        self.layer_settings = self.layer_class.settings_class(
            **{key: value for key, value in settings.items() if key not in own}
        )
        self.stacked_layers = [
            self.layer_class(
                **dataclasses.asdict(self._settings_of_layer(layer_index)),
                dtype=self.dtype_policy,
                name=f"layer_{layer_index}",
            )
            for layer_index in range(self.settings.num_layers)
        ]
        norm_position, norm_type = self.layer_settings.norm_position, self.layer_settings.norm_type
        epsilon = self.layer_settings.layer_norm_epsilon
        if self.settings.layer_history:
            self.history = LayerHistory(
                num_layers=self.settings.num_layers,
                norm_position=norm_position,
                norm_type=norm_type,
                epsilon=epsilon,
                dtype=self.dtype_policy,
                name="history",
            )
        self.relative_bias = self._make_relative_bias()
        self.final_norm = None
        final_norm = self.settings.final_norm
        if norm_position == "pre" if final_norm is None else final_norm:
            self.final_norm = make_norm(norm_type, epsilon, self.dtype_policy, "final_norm")

    def _make_relative_bias(self) -> RelativeBias | None:
        settings = self.layer_settings
        if settings.relative_positions != "buckets" or not self._has_self_attention:
            return None
        return RelativeBias(
            num_heads=settings.num_heads,
            num_buckets=self.settings.relative_buckets,
            max_distance=settings.max_relative_distance,
            is_bidirectional=self.is_bidirectional,
            dtype=self.dtype_policy,
            name="relative_bias",
        )

    @property
    def _has_self_attention(self) -> bool:
        return True

    def _score_bias(self, inputs, layout: SentenceLayout):
        """Returns what is added to the scores of self-attention in all layers, or None."""
        if self.relative_bias is None:
            return None
        positions = ops.arange(layout.length(inputs), dtype="int32")
        return self.relative_bias(positions, positions)

    def _settings_of_layer(self, layer_index):
        if not self.settings.depth_scaled_initialization:
            return self.layer_settings
        gain = self.layer_settings.initial_gain * (layer_index + 1) ** -0.5
        return dataclasses.replace(self.layer_settings, initial_gain=gain)

    def build(self, inputs_shape, *layer_shapes):
        for layer in self.stacked_layers:
            layer.build(inputs_shape, *layer_shapes)
        if self.settings.layer_history:
            self.history.build([inputs_shape, inputs_shape])
        if self.relative_bias is not None:
            self.relative_bias.build((None,), (None,))
        if self.final_norm is not None:
            self.final_norm.build(inputs_shape)
        self.built = True

    def _run(self, hidden, run_layer: Callable[[int, Any], Any]):
        """Runs all layers.

        Args:
            hidden: `(batch, length, d_model)`.
            run_layer: function from a layer's index and input to its output.

        Returns:
            The stack's output, and the list of the embedding and all layers' outputs.
        """
        if self.is_centred:
            hidden = hidden - ops.mean(hidden, axis=-1, keepdims=True)
        outputs, states = [hidden], [hidden]
        for layer_index in range(self.settings.num_layers):
            hidden = run_layer(layer_index, hidden)
            outputs.append(hidden)
            if self.settings.layer_history:
                hidden, state = self.history([*states, hidden])
                states.append(state)
        return hidden if self.final_norm is None else self.final_norm(hidden), outputs

    def compute_output_shape(self, inputs_shape, *_, **__):
        return inputs_shape

    def get_config(self):
        settings = dataclasses.asdict(self.settings) | dataclasses.asdict(self.layer_settings)
        return super().get_config() | settings

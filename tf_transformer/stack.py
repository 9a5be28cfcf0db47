"""What encoder and decoder share: a layer made of sublayers, and a stack of such layers."""

from typing import Any

import keras

from tf_transformer.feed_forward import FeedForward
from tf_transformer.residual import Residual


class SublayeredLayer(keras.layers.Layer):
    """A layer of attention sublayers and one feed-forward sublayer, each in a `Residual`.

    Args:
        num_heads: heads of every attention sublayer.
        d_ff: inner width of the feed-forward sublayer.
        dropout_rate: on each sublayer's output.
        attention_dropout_rate: on attention weights.
        feed_forward_dropout_rate: on the inner activations of the feed-forward sublayer.
        norm_position: "post" or "pre", see `Residual`.
        layer_norm_epsilon: of every layer norm.
    """

    def __init__(
        self,
        *,
        num_heads: int,
        d_ff: int,
        dropout_rate: float = 0.0,
        attention_dropout_rate: float = 0.0,
        feed_forward_dropout_rate: float = 0.0,
        norm_position: str = "post",
        layer_norm_epsilon: float = 1e-6,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.d_ff = d_ff
        self.dropout_rate = dropout_rate
        self.attention_dropout_rate = attention_dropout_rate
        self.feed_forward_dropout_rate = feed_forward_dropout_rate
        self.norm_position = norm_position
        self.layer_norm_epsilon = layer_norm_epsilon
        self.feed_forward = FeedForward(
            d_ff=d_ff,
            dropout_rate=feed_forward_dropout_rate,
            dtype=self.dtype_policy,
            name="feed_forward",
        )
        self.feed_forward_residual = self._residual("feed_forward_residual")

    def _residual(self, name: str) -> Residual:
        return Residual(
            norm_position=self.norm_position,
            dropout_rate=self.dropout_rate,
            epsilon=self.layer_norm_epsilon,
            dtype=self.dtype_policy,
            name=name,
        )

    def _attention(self, attention_class: type, name: str) -> keras.layers.Layer:
        return attention_class(
            num_heads=self.num_heads,
            dropout_rate=self.attention_dropout_rate,
            dtype=self.dtype_policy,
            name=name,
        )

    def _apply_feed_forward(self, inputs, training):
        outputs = self.feed_forward(self.feed_forward_residual.before(inputs), training=training)
        return self.feed_forward_residual(inputs, outputs, training=training)

    def build(self, inputs_shape):
        for sublayer in self._flatten_layers(include_self=False, recursive=False):
            if not sublayer.built:
                sublayer.build(inputs_shape)
        self.built = True

    def compute_output_shape(self, inputs_shape, *_, **__):
        return inputs_shape

    def get_config(self):
        return super().get_config() | {
            "num_heads": self.num_heads,
            "d_ff": self.d_ff,
            "dropout_rate": self.dropout_rate,
            "attention_dropout_rate": self.attention_dropout_rate,
            "feed_forward_dropout_rate": self.feed_forward_dropout_rate,
            "norm_position": self.norm_position,
            "layer_norm_epsilon": self.layer_norm_epsilon,
        }


class Stack(keras.layers.Layer):
    """N identical layers one above the other, and a final norm where norms come first.

    Post-norm layers end in a norm of their own, so the paper's stacks need no final one.

    Args:
        num_layers: N.
        layer_class: of the stacked layers.
        norm_position: "post" or "pre", see `Residual`.
        layer_norm_epsilon: of every layer norm.
        layer_arguments: the other arguments of `layer_class`.
    """

    layer_class: type[SublayeredLayer]

    def __init__(
        self,
        *,
        num_layers: int,
        norm_position: str = "post",
        layer_norm_epsilon: float = 1e-6,
        name: str | None = None,
        dtype: Any = None,
        trainable: bool = True,
        **layer_arguments: Any,
    ):
        super().__init__(name=name, dtype=dtype, trainable=trainable)
        self.num_layers = num_layers
        self.norm_position = norm_position
        self.layer_norm_epsilon = layer_norm_epsilon
        self.layer_arguments = layer_arguments
        self.stacked_layers = [
            self.layer_class(
                norm_position=norm_position,
                layer_norm_epsilon=layer_norm_epsilon,
                dtype=self.dtype_policy,
                name=f"layer_{number}",
                **layer_arguments,
            )
            for number in range(num_layers)
        ]
        if norm_position == "pre":
            self.final_norm = keras.layers.LayerNormalization(
                epsilon=layer_norm_epsilon, dtype=self.dtype_policy, name="final_norm"
            )

    def build(self, inputs_shape):
        for layer in self.stacked_layers:
            layer.build(inputs_shape)
        if self.norm_position == "pre":
            self.final_norm.build(inputs_shape)
        self.built = True

    def _finish(self, hidden):
        return self.final_norm(hidden) if self.norm_position == "pre" else hidden

    def compute_output_shape(self, inputs_shape, *_, **__):
        return inputs_shape

    def get_config(self):
        return (
            super().get_config()
            | {
                "num_layers": self.num_layers,
                "norm_position": self.norm_position,
                "layer_norm_epsilon": self.layer_norm_epsilon,
            }
            | dict(self.layer_arguments)
        )

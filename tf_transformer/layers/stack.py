"""Base classes of encoder and decoder: a layer, and a stack of layers."""

from collections.abc import Callable
from typing import Any

from tf_transformer.layers.attention import SelfAttention
from tf_transformer.layers.feed_forward import FeedForward
from tf_transformer.layers.layer_history import LayerHistory
from tf_transformer.layers.masks import MaskedLayer
from tf_transformer.layers.normalization import make_norm
from tf_transformer.layers.residual import Residual


class TransformerLayer(MaskedLayer):
    """Base class of encoder and decoder layers: their self-attention and feed-forward sublayers.

    Args:
        num_heads: number of heads of the self-attention.
        d_ff: inner width of the feed-forward sublayer.
        activation: activation of the feed-forward sublayer, see `FeedForward`.
        dropout_rate: dropout rate of each sublayer's output.
        attention_dropout_rate: dropout rate of attention weights.
        feed_forward_dropout_rate: dropout rate of the feed-forward sublayer's inner activations.
        norm_position: "post" or "pre", see `Residual`.
        norm_type: type of the norms, see `make_norm`.
        layer_norm_epsilon: epsilon of the norms.
        relative_positions: relative positions in self-attention: "none", "keys" or "keys_values".
        max_relative_distance: positions that are further apart use the vector of this distance.
        initial_gain: factor of the initial weights, see `dense.projection`.
    """

    def __init__(
        self,
        *,
        num_heads: int,
        d_ff: int,
        activation: str = "relu",
        dropout_rate: float = 0.0,
        attention_dropout_rate: float = 0.0,
        feed_forward_dropout_rate: float = 0.0,
        norm_position: str = "post",
        norm_type: str = "layer",
        layer_norm_epsilon: float = 1e-6,
        relative_positions: str = "none",
        max_relative_distance: int = 16,
        initial_gain: float = 1.0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.d_ff = d_ff
        self.activation = activation
        self.dropout_rate = dropout_rate
        self.attention_dropout_rate = attention_dropout_rate
        self.feed_forward_dropout_rate = feed_forward_dropout_rate
        self.norm_position = norm_position
        self.norm_type = norm_type
        self.layer_norm_epsilon = layer_norm_epsilon
        self.relative_positions = relative_positions
        self.max_relative_distance = max_relative_distance
        self.initial_gain = initial_gain
        self._add_first_sublayer()
        self.feed_forward = FeedForward(
            d_ff=d_ff,
            activation=activation,
            dropout_rate=feed_forward_dropout_rate,
            initial_gain=initial_gain,
            dtype=self.dtype_policy,
            name="feed_forward",
        )
        self.feed_forward_residual = self._residual("feed_forward_residual")

    def _add_first_sublayer(self):
        """Creates the sublayer that connects the positions, and its residual connection."""
        self.self_attention = SelfAttention(
            num_heads=self.num_heads,
            dropout_rate=self.attention_dropout_rate,
            relative_positions=self.relative_positions,
            max_relative_distance=self.max_relative_distance,
            initial_gain=self.initial_gain,
            dtype=self.dtype_policy,
            name="self_attention",
        )
        self.self_attention_residual = self._residual("self_attention_residual")

    def _residual(self, name: str) -> Residual:
        return Residual(
            norm_position=self.norm_position,
            norm_type=self.norm_type,
            dropout_rate=self.dropout_rate,
            epsilon=self.layer_norm_epsilon,
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
        return super().get_config() | {
            "num_heads": self.num_heads,
            "d_ff": self.d_ff,
            "activation": self.activation,
            "dropout_rate": self.dropout_rate,
            "attention_dropout_rate": self.attention_dropout_rate,
            "feed_forward_dropout_rate": self.feed_forward_dropout_rate,
            "norm_position": self.norm_position,
            "norm_type": self.norm_type,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "relative_positions": self.relative_positions,
            "max_relative_distance": self.max_relative_distance,
            "initial_gain": self.initial_gain,
        }


class Stack(MaskedLayer):
    """Base class of encoder and decoder: N identical layers, with an optional norm at the end.

    Post-norm layers end with a norm, so the paper's stacks need no final norm.

    Args:
        num_layers: N.
        norm_position: "post" or "pre", see `Residual`.
        final_norm: whether to normalize the output; None means only with `norm_position="pre"`.
        norm_type: type of the norms, see `make_norm`.
        layer_norm_epsilon: epsilon of the norms.
        layer_history: whether each layer's input is a learned combination of the outputs of all
            layers below it, see `LayerHistory`.
        depth_scaled_initialization: whether the initial weights of layer l, counted from 1, are
            scaled by 1 / sqrt(l)   (Zhang et al., 2019, equation 9, with alpha = 1).
        name: name of the stack.
        dtype: dtype or dtype policy.
        trainable: whether the weights are trained.
        **layer_arguments: the other arguments of `layer_class`.
    """

    layer_class: type[TransformerLayer]

    def __init__(
        self,
        *,
        num_layers: int,
        norm_position: str = "post",
        final_norm: bool | None = None,
        norm_type: str = "layer",
        layer_norm_epsilon: float = 1e-6,
        layer_history: bool = False,
        depth_scaled_initialization: bool = False,
        name: str | None = None,
        dtype: Any = None,
        trainable: bool = True,
        **layer_arguments: Any,
    ):
        super().__init__(name=name, dtype=dtype, trainable=trainable)
        self.num_layers = num_layers
        self.norm_position = norm_position
        self.norm_type = norm_type
        self.layer_norm_epsilon = layer_norm_epsilon
        self.layer_history = layer_history
        self.depth_scaled_initialization = depth_scaled_initialization
        self.layer_arguments = layer_arguments
        self.stacked_layers = [
            self.layer_class(
                norm_position=norm_position,
                norm_type=norm_type,
                layer_norm_epsilon=layer_norm_epsilon,
                initial_gain=(layer_index + 1) ** -0.5 if depth_scaled_initialization else 1.0,
                dtype=self.dtype_policy,
                name=f"layer_{layer_index}",
                **layer_arguments,
            )
            for layer_index in range(num_layers)
        ]
        if layer_history:
            self.history = LayerHistory(
                num_layers=num_layers,
                norm_position=norm_position,
                norm_type=norm_type,
                epsilon=layer_norm_epsilon,
                dtype=self.dtype_policy,
                name="history",
            )
        self.final_norm = None
        if norm_position == "pre" if final_norm is None else final_norm:
            self.final_norm = make_norm(
                norm_type, layer_norm_epsilon, self.dtype_policy, "final_norm"
            )

    def build(self, inputs_shape, *layer_shapes):
        for layer in self.stacked_layers:
            layer.build(inputs_shape, *layer_shapes)
        if self.layer_history:
            self.history.build([inputs_shape, inputs_shape])
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
        outputs, states = [hidden], [hidden]
        for layer_index in range(self.num_layers):
            hidden = run_layer(layer_index, hidden)
            outputs.append(hidden)
            if self.layer_history:
                hidden, state = self.history([*states, hidden])
                states.append(state)
        return hidden if self.final_norm is None else self.final_norm(hidden), outputs

    def compute_output_shape(self, inputs_shape, *_, **__):
        return inputs_shape

    def get_config(self):
        return (
            super().get_config()
            | {
                "num_layers": self.num_layers,
                "norm_position": self.norm_position,
                "final_norm": self.final_norm is not None,
                "norm_type": self.norm_type,
                "layer_norm_epsilon": self.layer_norm_epsilon,
                "layer_history": self.layer_history,
                "depth_scaled_initialization": self.depth_scaled_initialization,
            }
            | dict(self.layer_arguments)
        )

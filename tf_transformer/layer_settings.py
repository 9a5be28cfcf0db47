"""Sizes and switches of layers, as one object in place of arguments that are handed down."""

import dataclasses

from tf_transformer.config_checks import Autoregression, check_choice


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerSettings:
    """The settings of an `EncoderLayer`, and those that a `DecoderLayer` shares with it.

    Args:
        num_heads: number of heads of the self-attention.
        head_dim: width of each head; None means d_model / num_heads.
        dense_bias: whether the dense layers have biases.
        d_ff: inner width of the feed-forward sublayer.
        activation: activation of the feed-forward sublayer, see `FeedForward`.
        dropout_rate: dropout rate of each sublayer's output.
        attention_dropout_rate: dropout rate of attention weights.
        feed_forward_dropout_rate: dropout rate of the feed-forward sublayer's inner activations.
        norm_position: "post" or "pre", see `Residual`.
        norm_type: type of the norms, see `make_norm`.
        layer_norm_epsilon: epsilon of the norms.
        relative_positions: relative positions in self-attention: "none", "keys", "keys_values" or
            "buckets", see `SelfAttention`.
        max_relative_distance: positions that are further apart use the vector of this distance.
        initial_gain: factor of the initial weights, see `dense.projection`.
    """

    num_heads: int
    d_ff: int
    head_dim: int | None = None
    dense_bias: bool = True
    activation: str = "relu"
    dropout_rate: float = 0.0
    attention_dropout_rate: float = 0.0
    feed_forward_dropout_rate: float = 0.0
    norm_position: str = "post"
    norm_type: str = "layer"
    layer_norm_epsilon: float = 1e-6
    relative_positions: str = "none"
    max_relative_distance: int = 16
    initial_gain: float = 1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecoderLayerSettings(LayerSettings):
    """The settings of a `DecoderLayer`: those of `LayerSettings`, and these.

    Args:
        cross_attention: whether there is cross-attention; False in a language model.
        cross_num_heads: number of heads of the cross-attention; None means `num_heads`.
        autoregression: how a position sees earlier ones, "self_attention" or "ssru", see `SSRU`.

    Raises:
        InputError: `autoregression` is unknown.
    """

    cross_attention: bool = True
    cross_num_heads: int | None = None
    autoregression: str = "self_attention"

    def __post_init__(self) -> None:
        check_choice("autoregression", self.autoregression, Autoregression)


@dataclasses.dataclass(frozen=True, kw_only=True)
class StackSettings:
    """The settings of an `Encoder` or a `Decoder`, beside those of its layers.

    Args:
        num_layers: N.
        final_norm: whether to normalize the output; None means only with `norm_position="pre"`.
        layer_history: whether each layer's input is a learned combination of the outputs of all
            layers below it, see `LayerHistory`.
        relative_buckets: number of biases with `relative_positions="buckets"`, see `RelativeBias`.
        depth_scaled_initialization: whether the initial weights of layer l, counted from 1, are
            scaled by 1 / sqrt(l)   (Zhang et al., 2019, equation 9, with alpha = 1).
    """

    num_layers: int
    final_norm: bool | None = None
    layer_history: bool = False
    relative_buckets: int = 16
    depth_scaled_initialization: bool = False

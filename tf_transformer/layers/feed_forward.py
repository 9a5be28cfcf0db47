"""Position-wise feed-forward network ("Attention Is All You Need", 3.3)."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from tf_transformer.config_checks import Activation, check_choice
from tf_transformer.layers.dense import projection
from tf_transformer.layers.dropout import Dropout
from tf_transformer.private_interfaces import CompositeLayer

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": ops.relu,
    "gelu": lambda x: ops.gelu(x, approximate=False),
    "gelu_tanh": lambda x: ops.gelu(x, approximate=True),
    "swish": ops.silu,
}
# The activation of the gate in gated variants (Shazeer, 2020).
GATES: dict[str, Callable[[Any], Any]] = {
    "glu": ops.sigmoid,
    "reglu": ACTIVATIONS["relu"],
    "geglu": ACTIVATIONS["gelu"],
    "geglu_tanh": ACTIVATIONS["gelu_tanh"],
    "swiglu": ACTIVATIONS["swish"],
}


@keras.saving.register_keras_serializable(package="tf_transformer")
class FeedForward(CompositeLayer):
    """Position-wise feed-forward network.

    FFN(x) = act(x W_1 + b_1) W_2 + b_2   (equation 2, with act = max(0, .)), or, gated,
    FFN(x) = (act(x W_1 + b_1) * (x V + c)) W_2 + b_2   (Shazeer, 2020, with biases).

    Deviation from the paper: dropout also after the activation, as in the paper's own code.

    Args:
        d_ff: inner width.
        activation: "relu", "gelu" (exact), "gelu_tanh" (approximated by tanh), "swish"; gated:
            "glu", "reglu", "geglu", "geglu_tanh", "swiglu".
        use_bias: whether there are b_1, b_2 and c.
        dropout_rate: dropout rate after the activation.
        initial_gain: factor of the initial weights, see `dense.projection`.

    Call arguments:
        inputs: `(batch, length, d_model)`.
        training: True applies dropout.

    Returns:
        `(batch, length, d_model)`.

    Raises:
        InputError: `activation` is unknown.
    """

    def __init__(
        self,
        *,
        d_ff: int,
        activation: str = "relu",
        use_bias: bool = True,
        dropout_rate: float = 0.0,
        initial_gain: float = 1.0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        check_choice("activation", activation, Activation)
        self.d_ff = d_ff
        self.activation = activation
        self.use_bias = use_bias
        self.dropout_rate = dropout_rate
        self.initial_gain = initial_gain
        self.dropout = Dropout(dropout_rate, dtype=self.dtype_policy, name="dropout")

    def build(self, inputs_shape):
        d_model = inputs_shape[-1]
        options = dict(gain=self.initial_gain, use_bias=self.use_bias, dtype=self.dtype_policy)
        # Gated variants compute the gate and the value in one product.
        num_parts = 2 if self.activation in GATES else 1
        self.inner = projection(d_model, self.d_ff, num_parts=num_parts, name="inner", **options)
        self.outer = projection(self.d_ff, d_model, name="outer", **options)
        self.dropout.build((*inputs_shape[:-1], self.d_ff))
        self.built = True

    def call(self, inputs, training=None):
        if len(inputs.shape) > 2:
            # On a matrix, TensorFlow fuses product, bias and activation into one kernel.
            rows = ops.reshape(inputs, (-1, inputs.shape[-1]))
            return ops.reshape(self.call(rows, training), ops.shape(inputs))
        inner = self.inner(inputs)
        if self.activation == "relu":
            return self.outer(self.dropout.relu_then_dropout(inner, training=training))
        if self.activation in GATES:
            gate, value = ops.split(inner, 2, axis=-1)
            activated = GATES[self.activation](gate) * value
        else:
            activated = ACTIVATIONS[self.activation](inner)
        return self.outer(self.dropout(activated, training=training))

    def compute_output_shape(self, inputs_shape):
        return inputs_shape

    def get_config(self):
        return super().get_config() | {
            "d_ff": self.d_ff,
            "activation": self.activation,
            "use_bias": self.use_bias,
            "dropout_rate": self.dropout_rate,
            "initial_gain": self.initial_gain,
        }

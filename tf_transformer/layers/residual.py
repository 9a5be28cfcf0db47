"""The residual connection around each sublayer, with its dropout and layer norm."""

from typing import Any

import keras

from tf_transformer.config_checks import NormPosition, check_choice
from tf_transformer.layers.dropout import Dropout
from tf_transformer.layers.normalization import make_norm
from tf_transformer.private_interfaces import CompositeLayer


@keras.saving.register_keras_serializable(package="tf_transformer")
class Residual(CompositeLayer):
    """Adds a sublayer's output to its input, with dropout and normalization.

    "post", the paper (section 3.1):      y = norm(x + dropout(sublayer(x)))
    "pre", the Annotated Transformer:     y = x + dropout(sublayer(norm(x)))

    Call it in two parts: `y = residual(x, sublayer(residual.sublayer_inputs(x)))`.

    Args:
        norm_position: "post" or "pre".
        norm_type: type of the norm, see `make_norm`.
        dropout_rate: dropout rate of the sublayer's output.
        epsilon: epsilon of the norm.

    Call arguments:
        inputs: x, `(batch, length, d_model)`.
        sublayer_outputs: `(batch, length, d_model)`.
        training: True applies dropout.

    Returns:
        `(batch, length, d_model)`.

    Raises:
        InputError: `norm_position` is neither "post" nor "pre".
    """

    def __init__(
        self,
        *,
        norm_position: str,
        norm_type: str = "layer",
        dropout_rate: float = 0.0,
        epsilon: float = 1e-6,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        check_choice("norm_position", norm_position, NormPosition)
        self.norm_position = norm_position
        self.dropout_rate = dropout_rate
        self.epsilon = epsilon
        self.norm_type = norm_type
        self.norm = make_norm(norm_type, epsilon, self.dtype_policy, "norm")
        self.dropout = Dropout(dropout_rate, dtype=self.dtype_policy, name="dropout")

    def build(self, inputs_shape):
        if not self.norm.built:  # an earlier call of `sublayer_inputs` builds the norm
            self.norm.build(inputs_shape)
        self.dropout.build(inputs_shape)
        self.built = True

    def sublayer_inputs(self, inputs):
        """Returns the sublayer's input: norm(x) with `norm_position="pre"`, else x."""
        return self.norm(inputs) if self.norm_position == "pre" else inputs

    def call(self, inputs, sublayer_outputs, training=None):
        outputs = inputs + self.dropout(sublayer_outputs, training=training)
        return self.norm(outputs) if self.norm_position == "post" else outputs

    def compute_output_shape(self, inputs_shape, sublayer_outputs_shape=None):
        return inputs_shape

    def get_config(self):
        return super().get_config() | {
            "norm_position": self.norm_position,
            "norm_type": self.norm_type,
            "dropout_rate": self.dropout_rate,
            "epsilon": self.epsilon,
        }

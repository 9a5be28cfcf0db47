"""Position-wise feed-forward network ("Attention Is All You Need", 3.3)."""

from typing import Any

import keras

from tf_transformer.dropout import Dropout


@keras.saving.register_keras_serializable(package="tf_transformer")
class FeedForward(keras.layers.Layer):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2   (equation 2).

    Deviation from the paper: dropout also after the activation, as in the paper's own code.

    Args:
        d_ff: inner width.
        dropout_rate: after the activation.

    Call arguments:
        inputs: `(batch, length, d_model)`.
        training: True applies dropout.

    Returns:
        `(batch, length, d_model)`.
    """

    def __init__(self, *, d_ff: int, dropout_rate: float = 0.0, **kwargs: Any):
        super().__init__(**kwargs)
        self.d_ff = d_ff
        self.dropout_rate = dropout_rate
        self.inner = keras.layers.Dense(
            d_ff, activation="relu", dtype=self.dtype_policy, name="inner"
        )
        self.dropout = Dropout(dropout_rate, dtype=self.dtype_policy, name="dropout")

    def build(self, inputs_shape):
        d_model = inputs_shape[-1]
        self.outer = keras.layers.Dense(d_model, dtype=self.dtype_policy, name="outer")
        self.inner.build((None, d_model))
        self.outer.build((None, self.d_ff))
        self.built = True

    def call(self, inputs, training=None):
        return self.outer(self.dropout(self.inner(inputs), training=training))

    def compute_output_shape(self, inputs_shape):
        return inputs_shape

    def get_config(self):
        return super().get_config() | {"d_ff": self.d_ff, "dropout_rate": self.dropout_rate}

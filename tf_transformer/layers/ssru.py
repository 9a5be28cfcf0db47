"""A recurrent layer that can take the place of a decoder's self-attention (Kim et al., 2019)."""

from typing import Any

import keras
from keras import ops

from tf_transformer.layers.dense import projection
from tf_transformer.layers.kernels import (
    is_tensorflow,
    linear_recurrence,
    plain_linear_recurrence,
)
from tf_transformer.layers.layout import PADDED, SentenceLayout
from tf_transformer.layers.masks import check_attention_mask
from tf_transformer.private_interfaces import CompositeLayer


@keras.saving.register_keras_serializable(package="tf_transformer")
class SSRU(CompositeLayer):
    """Simpler simple recurrent unit   (Kim et al., 2019, "From Research to Production and Back").

    f_t = sigmoid(x_t W_f + b_f)
    c_t = f_t * c_(t-1) + (1 - f_t) * (x_t W),   c_0 = 0
    h_t = max(0, c_t)

    Position t sees the earlier ones through the state c_(t-1), one vector, so a step of decoding
    takes the same time and memory for any length. The products do not depend on the state and are
    computed for all positions at once.

    These are the equations of Marian (`dec-cell: ssru`). It can also drop inputs (`dropout-rnn`)
    and project the outputs (`transformer-rnn-projection`); neither is its default or done here.
    The recurrence is computed in float32 under every dtype policy.

    Args:
        initial_gain: factor of the initial weights, see `dense.projection`.

    Call arguments:
        inputs: x, `(batch, length, d_model)`, with padding only at the end of a sequence.
        layout: layout of `inputs` and outputs, see `layers.layout`.

    Returns:
        h, `(batch, length, d_model)`.
    """

    def __init__(self, *, initial_gain: float = 1.0, **kwargs: Any):
        super().__init__(**kwargs)
        self.initial_gain = initial_gain

    def build(self, inputs_shape):
        self.d_model = inputs_shape[-1]
        # [W, W_f]
        self.value_gate = projection(
            self.d_model,
            self.d_model,
            num_parts=2,
            gain=self.initial_gain,
            use_bias=False,
            dtype=self.dtype_policy,
            name="value_gate",
        )
        self.gate_bias = self.add_weight(
            name="gate_bias", shape=(self.d_model,), initializer="zeros"
        )
        self.built = True

    def call(self, inputs, layout: SentenceLayout = PADDED):
        # (2, batch, 1, length, d_model): all channels as a single head
        parts = layout.split_heads(self.value_gate(inputs), 2, 1)
        # (2, length, batch, d_model)
        factors, terms = self._factors_and_terms(
            *ops.unstack(ops.transpose(parts[:, :, 0], (0, 2, 1, 3)), 2)
        )
        recur = linear_recurrence if is_tensorflow() else plain_linear_recurrence
        states = ops.transpose(recur(factors, terms), (1, 0, 2))  # (batch, length, d_model)
        return layout.join_heads(self._outputs(states)[:, None], self.d_model)

    def attend(
        self,
        inputs,
        attention_mask=None,
        training=None,
        layout: SentenceLayout = PADDED,
        score_bias=None,
    ):
        """Computes `call` with the arguments of `SelfAttention.attend`.

        Returns:
            `(batch, length, d_model)`, and None, as there are no attention weights.

        Raises:
            InputError: as `check_attention_mask`, although the mask has no effect: no position sees
                later ones, and padding is at the end.
        """
        if attention_mask is not None:
            batch, length = inputs.shape[:2] if layout is PADDED else (None, None)
            check_attention_mask(attention_mask, (batch, None, length, length))
        return self(inputs, layout=layout), None

    def step(self, inputs, layer_cache, step, score_bias=None):
        """Computes the layer for the newest token of every hypothesis.

        Args:
            inputs: `(rows * beam, d_model)`.
            layer_cache: this layer's part of a `RecurrentCache`.
            step: the `RecurrentStep` of the decoding step.
            score_bias: not used.

        Returns:
            `(rows * beam, d_model)`, and the new `layer_cache`.
        """
        value, gate = ops.split(self.value_gate(inputs), 2, axis=-1)
        factors, terms = self._factors_and_terms(value, gate)
        states = step.advance(layer_cache, factors, terms)
        return self._outputs(ops.reshape(states, (-1, self.d_model))), states

    def _factors_and_terms(self, value, gate):
        """Returns f and (1 - f) * (x W), float32, from x W and x W_f."""
        gate = ops.cast(gate + ops.cast(self.gate_bias, gate.dtype), "float32")
        return ops.sigmoid(gate), ops.sigmoid(-gate) * ops.cast(value, "float32")

    def _outputs(self, states):
        return ops.cast(ops.relu(states), self.compute_dtype)

    def compute_output_shape(self, inputs_shape):
        return inputs_shape

    def get_config(self):
        return super().get_config() | {"initial_gain": self.initial_gain}

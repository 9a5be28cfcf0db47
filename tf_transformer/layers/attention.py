"""Scaled dot-product attention and its multi-head layers ("Attention Is All You Need", 3.2)."""

import math
from typing import Any

import keras
from keras import ops

from tf_transformer.layers.composite import CompositeLayer
from tf_transformer.layers.dense import projection
from tf_transformer.layers.dropout import Dropout
from tf_transformer.layers.positions import RelativePositions

# Added to the scores of masked keys: far below any score, and finite, so that a row with every
# key masked stays finite too.
_MASKED = -1e9


def attention_weights(query, key, attention_mask=None, relative_keys=None, bias=None):
    """softmax(Q K^T / sqrt(d_k))   (in equation 1).

    With relative positions, Q K^T becomes q_i (k_j + a_ij)^T (Shaw et al., 2018, equation 4).

    Args:
        query: `(..., query_length, head_dim)`.
        key: `(..., key_length, head_dim)`.
        attention_mask: boolean, True = may attend, broadcasts to
            `(..., query_length, key_length)`.
        relative_keys: a, `(query_length, key_length, head_dim)`, or None.
        bias: added to the scores, as a mask that was prepared; broadcasts like `attention_mask`.

    Returns:
        `(..., query_length, key_length)`, in the dtype of `query`; the softmax is computed in
        float32.
    """
    query = query * ops.cast(1.0 / math.sqrt(query.shape[-1]), query.dtype)
    # Not with transposed keys: TensorFlow would write these, and their gradient.
    scores = ops.einsum("...qd,...kd->...qk", query, key)
    if relative_keys is not None:
        scores = scores + ops.einsum("...qd,qkd->...qk", query, relative_keys)
    scores = ops.cast(scores, "float32")
    if bias is not None:
        scores = scores + bias
    if attention_mask is not None:
        scores = scores + (1.0 - ops.cast(attention_mask, "float32")) * _MASKED
    return ops.cast(ops.softmax(scores, axis=-1), query.dtype)


def weighted_values(weights, value, relative_values=None):
    """weights V   (in equation 1); with relative positions sum_j weights_ij (v_j + b_ij).

    Args:
        weights: `(..., query_length, key_length)`.
        value: `(..., key_length, head_dim)`.
        relative_values: b, `(query_length, key_length, head_dim)`, or None.

    Returns:
        `(..., query_length, head_dim)`.
    """
    attended = ops.matmul(weights, value)
    if relative_values is not None:
        attended = attended + ops.einsum("...qk,qkd->...qd", weights, relative_values)
    return attended


def scaled_dot_product_attention(query, key, value, attention_mask=None, dropout=None):
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V   (equation 1).

    Args:
        query, key, attention_mask: see `attention_weights`.
        value: `(..., key_length, head_dim)`.
        dropout: callable applied to the attention weights, or None.

    Returns:
        `(..., query_length, head_dim)`.
    """
    weights = attention_weights(query, key, attention_mask)
    if dropout is not None:
        weights = dropout(weights)
    return weighted_values(weights, value)


class MultiHeadAttention(CompositeLayer):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O   (section 3.2.2).

    What self-attention and cross-attention share: the heads and the output projection. The
    projections have biases, as in the Annotated Transformer; the paper's formula has none.

    Args:
        num_heads: h; must divide the width of the input.
        dropout_rate: on the attention weights.
        initial_gain: scales the initial weights, see `dense`.

    Raises:
        ValueError: when built, if `num_heads` does not divide the width of the input.
    """

    def __init__(
        self,
        *,
        num_heads: int,
        dropout_rate: float = 0.0,
        initial_gain: float = 1.0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.dropout_rate = dropout_rate
        self.initial_gain = initial_gain
        self.dropout = Dropout(dropout_rate, dtype=self.dtype_policy, name="dropout")

    def _projection(self, num_parts: int, name: str, num_inputs: int | None = None):
        return projection(
            num_inputs or self.d_model,
            self.d_model,
            num_parts=num_parts,
            gain=self.initial_gain,
            dtype=self.dtype_policy,
            name=name,
        )

    def build(self, inputs_shape):
        self.d_model = inputs_shape[-1]
        if self.num_heads < 1 or self.d_model % self.num_heads:
            raise ValueError(
                "`num_heads` must divide the width of the input. Received: "
                f"num_heads={self.num_heads}, width={self.d_model}"
            )
        self.head_dim = self.d_model // self.num_heads
        self.output_projection = self._projection(1, "output_projection")
        self.dropout.build((None, self.num_heads, None, None))

    def _split_heads(self, inputs, num_parts, packing=None):
        """`(batch, length, parts * d_model)` to `parts` x `(batch, heads, length, head_dim)`."""
        if packing is not None:
            return packing.split_heads(inputs, num_parts, self.num_heads)
        batch, length = ops.shape(inputs)[:2]
        inputs = ops.reshape(inputs, (batch, length, num_parts, self.num_heads, self.head_dim))
        return ops.unstack(ops.transpose(inputs, (2, 0, 3, 1, 4)), num_parts)

    def _join_heads(self, attended, packing=None):
        """Joins the heads and projects: `(batch, heads, length, head_dim)` to the inputs' axes."""
        if packing is not None:
            return self.output_projection(packing.join_heads(attended))
        batch, _, length, _ = ops.shape(attended)
        # (batch, heads, length, head_dim) -> (batch, length, d_model)
        joined = ops.reshape(
            ops.transpose(attended, (0, 2, 1, 3)), (batch, length, self.num_heads * self.head_dim)
        )
        return self.output_projection(joined)

    def _join_step(self, attended):
        """Joins the heads and projects: `(rows, heads, beam, head_dim)` to two axes."""
        joined = ops.transpose(attended, (0, 2, 1, 3))
        return self.output_projection(ops.reshape(joined, (-1, self.num_heads * self.head_dim)))

    def _finish_weights(self, weights, training, head_mask):
        """Dropout, and the heads that are masked out; `(batch, heads, queries, keys)`."""
        weights = self.dropout(weights, training=training)
        if head_mask is not None:
            weights = weights * ops.cast(head_mask, weights.dtype)[:, None, None]
        return weights

    def get_config(self):
        return super().get_config() | {
            "num_heads": self.num_heads,
            "dropout_rate": self.dropout_rate,
            "initial_gain": self.initial_gain,
        }


@keras.saving.register_keras_serializable(package="tf_transformer")
class SelfAttention(MultiHeadAttention):
    """Multi-head attention of a sequence to itself, with queries, keys and values in one product.

    Args:
        num_heads, dropout_rate, initial_gain: see `MultiHeadAttention`.
        relative_positions: "none", "keys" or "keys_values": where vectors of relative positions
            are added (Shaw et al., 2018).
        max_relative_distance: see `RelativePositions`.

    Call arguments:
        inputs: `(batch, length, d_model)`.
        attention_mask: boolean, True = may attend, broadcasts to
            `(batch, num_heads, length, length)`.
        training: True applies dropout.
        head_mask: `(num_heads,)`, 0 takes a head out; None keeps all.
        return_attention: True also returns the attention weights.
        packing: `Packing`, where inputs and outputs are `(tokens, d_model)`, without padding.

    Returns:
        `(batch, length, d_model)`; with `return_attention` a pair of it and the weights
        `(batch, num_heads, length, length)`.
    """

    def __init__(
        self,
        *,
        relative_positions: str = "none",
        max_relative_distance: int = 16,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.relative_positions = relative_positions
        self.max_relative_distance = max_relative_distance

    def build(self, inputs_shape):
        super().build(inputs_shape)
        self.query_key_value = self._projection(3, "query_key_value")
        if self.relative_positions != "none":
            self.relative_keys = self._relative("relative_keys")
        if self.relative_positions == "keys_values":
            self.relative_values = self._relative("relative_values")
        self.built = True

    def _relative(self, name):
        layer = RelativePositions(
            max_distance=self.max_relative_distance,
            head_dim=self.head_dim,
            dtype=self.dtype_policy,
            name=name,
        )
        layer.build((None,), (None,))
        return layer

    def call(
        self,
        inputs,
        attention_mask=None,
        training=None,
        head_mask=None,
        return_attention=False,
        packing=None,
    ):
        query, key, value = self._split_heads(self.query_key_value(inputs), 3, packing)
        positions = ops.arange(ops.shape(query)[2])
        relative_keys, relative_values = self._relative_vectors(positions, positions)
        weights = attention_weights(query, key, attention_mask, relative_keys)
        finished = self._finish_weights(weights, training, head_mask)
        outputs = self._join_heads(weighted_values(finished, value, relative_values), packing)
        return (outputs, weights) if return_attention else outputs

    def _relative_vectors(self, query_positions, key_positions):
        """What is added to keys and to values, None where nothing is."""
        if self.relative_positions == "none":
            return None, None
        keys = self.relative_keys(query_positions, key_positions)
        if self.relative_positions == "keys":
            return keys, None
        return keys, self.relative_values(query_positions, key_positions)

    def compute_output_shape(self, inputs_shape):
        return inputs_shape

    def step(self, inputs, layer_cache, context):
        """Attends from the newest token of every hypothesis to all its tokens so far.

        Args:
            inputs: `(rows * beam, d_model)`, one token a hypothesis.
            layer_cache: this layer's part of a `Cache`.
            context: `StepContext`.

        Returns:
            `(rows * beam, d_model)`, and the layer's cache with the entries of this step.
        """
        beam = context.bias.shape[2]
        projected = ops.reshape(
            self.query_key_value(inputs), (-1, beam, 3, self.num_heads, self.head_dim)
        )
        # (rows, beam, 3, heads, head_dim) -> (3, rows, heads, beam, head_dim)
        projected = ops.transpose(projected, (2, 0, 3, 1, 4))
        layer_cache = context.write(layer_cache, projected[1:])
        query, key, value = projected[0], layer_cache[0], layer_cache[1]
        if self.relative_positions == "none":
            weights = attention_weights(query, key, bias=context.bias)
            attended = weighted_values(weights, value)
        else:
            attended = self._attend_relatively(query, key, value, context)
        return self._join_step(attended), layer_cache

    def _attend_relatively(self, query, key, value, context):
        """The entries' positions differ from row to row: so do the relative vectors."""
        relative_keys = self.relative_keys.at(context.distances)
        scaled = query * ops.cast(1.0 / math.sqrt(self.head_dim), query.dtype)
        bias = context.bias + ops.cast(
            ops.einsum("rhbd,red->rhbe", scaled, relative_keys), "float32"
        )
        weights = attention_weights(query, key, bias=bias)
        attended = weighted_values(weights, value)
        if self.relative_positions == "keys_values":
            relative_values = self.relative_values.at(context.distances)
            attended = attended + ops.einsum("rhbe,red->rhbd", weights, relative_values)
        return attended

    def get_config(self):
        return super().get_config() | {
            "relative_positions": self.relative_positions,
            "max_relative_distance": self.max_relative_distance,
        }


@keras.saving.register_keras_serializable(package="tf_transformer")
class CrossAttention(MultiHeadAttention):
    """Multi-head attention from the decoder to the encoder's output, the memory.

    Keys and values depend on the memory alone, so decoding computes them once a sentence with
    `project_memory` and attends to them in `step`.

    Args: those of `MultiHeadAttention`.

    Call arguments:
        inputs: `(batch, target_length, d_model)`.
        memory: `(batch, source_length, memory_width)`.
        attention_mask: boolean, True = may attend, broadcasts to
            `(batch, num_heads, target_length, source_length)`.
        training: True applies dropout.
        head_mask: `(num_heads,)`, 0 takes a head out; None keeps all.
        return_attention: True also returns the attention weights.
        packing, memory_packing: `Packing`, where the inputs, and the memory, are without padding.

    Returns:
        `(batch, target_length, d_model)`; with `return_attention` a pair of it and the weights
        `(batch, num_heads, target_length, source_length)`.
    """

    def build(self, inputs_shape, memory_shape=None):
        super().build(inputs_shape)
        self.query = self._projection(1, "query")
        memory_width = memory_shape[-1] if memory_shape else self.d_model
        self.key_value = self._projection(2, "key_value", memory_width)
        self.built = True

    def call(
        self,
        inputs,
        memory,
        attention_mask=None,
        training=None,
        head_mask=None,
        return_attention=False,
        packing=None,
        memory_packing=None,
    ):
        (query,) = self._split_heads(self.query(inputs), 1, packing)
        projected_memory = self.project_memory(memory, memory_packing)
        weights = attention_weights(query, projected_memory["key"], attention_mask)
        finished = self._finish_weights(weights, training, head_mask)
        outputs = self._join_heads(weighted_values(finished, projected_memory["value"]), packing)
        return (outputs, weights) if return_attention else outputs

    def compute_output_shape(self, inputs_shape, memory_shape=None):
        return inputs_shape

    def project_memory(self, memory, packing=None):
        """Keys and values of the memory: two of `(batch, heads, source_length, head_dim)`."""
        key, value = self._split_heads(self.key_value(memory), 2, packing)
        return {"key": key, "value": value}

    def step(self, inputs, projected_memory, bias, return_attention=False):
        """Attends from the newest token of every hypothesis to projected memory.

        Args:
            inputs: `(rows * beam, d_model)`.
            projected_memory: of `project_memory`.
            bias: `(rows, 1, 1, source_length)`, added to the scores.
            return_attention: True also returns the weights, `(rows, num_heads, beam,
                source_length)`.
        """
        rows = ops.shape(bias)[0]
        query = ops.reshape(self.query(inputs), (rows, -1, self.num_heads, self.head_dim))
        query = ops.transpose(query, (0, 2, 1, 3))
        weights = attention_weights(query, projected_memory["key"], bias=bias)
        attended = weighted_values(weights, projected_memory["value"])
        outputs = self._join_step(attended)
        return (outputs, weights) if return_attention else outputs

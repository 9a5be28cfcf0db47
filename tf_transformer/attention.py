"""Scaled dot-product attention and its multi-head layers ("Attention Is All You Need", 3.2)."""

import math
from typing import Any

import keras
from keras import ops

from tf_transformer.dropout import Dropout

# Added to the scores of masked keys: far below any score, and finite, so that a row with every
# key masked stays finite too.
_MASKED = -1e9


def scaled_dot_product_attention(query, key, value, attention_mask=None, dropout=None):
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V   (equation 1).

    Args:
        query: `(..., query_length, head_dim)`.
        key: `(..., key_length, head_dim)`.
        value: `(..., key_length, head_dim)`.
        attention_mask: boolean, True = may attend, broadcasts to
            `(..., query_length, key_length)`.
        dropout: callable applied to the attention weights, or None.

    Returns:
        `(..., query_length, head_dim)`. The softmax is computed in float32.
    """
    query = query * ops.cast(1.0 / math.sqrt(query.shape[-1]), query.dtype)
    scores = ops.cast(ops.matmul(query, ops.swapaxes(key, -1, -2)), "float32")
    if attention_mask is not None:
        scores = scores + (1.0 - ops.cast(attention_mask, "float32")) * _MASKED
    weights = ops.cast(ops.softmax(scores, axis=-1), value.dtype)
    if dropout is not None:
        weights = dropout(weights)
    return ops.matmul(weights, value)


class MultiHeadAttention(keras.layers.Layer):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O   (section 3.2.2).

    What self-attention and cross-attention share: the heads and the output projection. The
    projections have biases, as in the Annotated Transformer; the paper's formula has none.

    Args:
        num_heads: h; must divide the width of the input.
        dropout_rate: on the attention weights.
    """

    def __init__(self, *, num_heads: int, dropout_rate: float = 0.0, **kwargs: Any):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.dropout_rate = dropout_rate
        self.dropout = Dropout(dropout_rate, dtype=self.dtype_policy, name="dropout")

    def _projection(self, num_parts: int, name: str) -> keras.layers.Dense:
        """`num_parts` square projections side by side, each Xavier-uniform by itself."""
        limit = math.sqrt(6.0 / (2 * self.d_model))
        projection = keras.layers.Dense(
            num_parts * self.d_model,
            kernel_initializer=keras.initializers.RandomUniform(-limit, limit),
            dtype=self.dtype_policy,
            name=name,
        )
        projection.build((None, self.d_model))
        return projection

    def build(self, inputs_shape):
        self.d_model = inputs_shape[-1]
        if self.d_model % self.num_heads:
            raise ValueError(
                "`num_heads` must divide the width of the input. Received: "
                f"num_heads={self.num_heads}, width={self.d_model}"
            )
        self.head_dim = self.d_model // self.num_heads
        self.output_projection = self._projection(1, "output_projection")

    def _split_heads(self, inputs, num_parts):
        """`(batch, length, parts * d_model)` to `parts` x `(batch, heads, length, head_dim)`."""
        batch, length = ops.shape(inputs)[:2]
        inputs = ops.reshape(inputs, (batch, length, num_parts, self.num_heads, self.head_dim))
        return ops.unstack(ops.transpose(inputs, (2, 0, 3, 1, 4)), num_parts)

    def _attend(self, query, key, value, attention_mask, training):
        """Attends head by head, joins the heads and projects: to `(batch, query_length, d_model)`.

        query, key and value are `(batch, heads, length, head_dim)`.
        """
        attended = scaled_dot_product_attention(
            query,
            key,
            value,
            attention_mask,
            dropout=lambda weights: self.dropout(weights, training=training),
        )
        batch, _, length, _ = ops.shape(attended)
        # (batch, heads, length, head_dim) -> (batch, length, d_model)
        joined = ops.reshape(
            ops.transpose(attended, (0, 2, 1, 3)), (batch, length, self.num_heads * self.head_dim)
        )
        return self.output_projection(joined)

    def get_config(self):
        return super().get_config() | {
            "num_heads": self.num_heads,
            "dropout_rate": self.dropout_rate,
        }


@keras.saving.register_keras_serializable(package="tf_transformer")
class SelfAttention(MultiHeadAttention):
    """Multi-head attention of a sequence to itself, with queries, keys and values in one product.

    Call arguments:
        inputs: `(batch, length, d_model)`.
        attention_mask: boolean, True = may attend, broadcasts to
            `(batch, num_heads, length, length)`.
        training: True applies dropout.

    Returns:
        `(batch, length, d_model)`.
    """

    def build(self, inputs_shape):
        super().build(inputs_shape)
        self.query_key_value = self._projection(3, "query_key_value")
        self.built = True

    def call(self, inputs, attention_mask=None, training=None):
        query, key, value = self._split_heads(self.query_key_value(inputs), 3)
        return self._attend(query, key, value, attention_mask, training)

    def compute_output_shape(self, inputs_shape):
        return inputs_shape

    def empty_cache(self, batch_size, beam_size):
        """Keys and values of no token yet: two of `(batch, beam, heads, 0, head_dim)`."""
        shape = (batch_size, beam_size, self.num_heads, 0, self.head_dim)
        return {
            "key": ops.zeros(shape, self.compute_dtype),
            "value": ops.zeros(shape, self.compute_dtype),
        }

    def step(self, inputs, cache):
        """Attends from the newest token of every hypothesis to all its tokens so far.

        Args:
            inputs: `(batch, beam, d_model)`, one token a hypothesis.
            cache: what `empty_cache` or the step before returned.

        Returns:
            `(batch, beam, d_model)`, and the cache with one more position.
        """
        batch, beam = ops.shape(inputs)[:2]
        projected = ops.reshape(
            self.query_key_value(inputs), (batch, beam, 3, self.num_heads, 1, self.head_dim)
        )
        query, key, value = projected[:, :, 0], projected[:, :, 1], projected[:, :, 2]
        key = ops.concatenate([cache["key"], key], axis=3)
        value = ops.concatenate([cache["value"], value], axis=3)
        attended = scaled_dot_product_attention(query, key, value)
        joined = ops.reshape(attended, (batch, beam, self.num_heads * self.head_dim))
        return self.output_projection(joined), {"key": key, "value": value}


@keras.saving.register_keras_serializable(package="tf_transformer")
class CrossAttention(MultiHeadAttention):
    """Multi-head attention from the decoder to the encoder's output, the memory.

    Keys and values depend on the memory alone, so decoding computes them once a sentence with
    `project_memory` and attends to them in `attend` at every step.

    Call arguments:
        inputs: `(batch, target_length, d_model)`.
        memory: `(batch, source_length, d_model)`.
        attention_mask: boolean, True = may attend, broadcasts to
            `(batch, num_heads, target_length, source_length)`.
        training: True applies dropout.

    Returns:
        `(batch, target_length, d_model)`.
    """

    def build(self, inputs_shape):
        super().build(inputs_shape)
        self.query = self._projection(1, "query")
        self.key_value = self._projection(2, "key_value")
        self.built = True

    def call(self, inputs, memory, attention_mask=None, training=None):
        return self.attend(inputs, self.project_memory(memory), attention_mask, training)

    def compute_output_shape(self, inputs_shape, memory_shape=None):
        return inputs_shape

    def project_memory(self, memory):
        """Keys and values of the memory: two of `(batch, heads, source_length, head_dim)`."""
        key, value = self._split_heads(self.key_value(memory), 2)
        return {"key": key, "value": value}

    def attend(self, inputs, projected_memory, attention_mask=None, training=None):
        """Attends to projected memory; the inputs' second axis may be target positions or beams."""
        (query,) = self._split_heads(self.query(inputs), 1)
        return self._attend(
            query, projected_memory["key"], projected_memory["value"], attention_mask, training
        )

"""Heads that draft the tokens after the next one, so that decoding takes several in a step."""

from typing import Any

import keras
from keras import ops

from tf_transformer.layers.attention import scaled_dot_product_attention
from tf_transformer.layers.dense import projection
from tf_transformer.private_interfaces import CompositeLayer


@keras.saving.register_keras_serializable(package="tf_transformer")
class DraftHeads(CompositeLayer):
    """Predicts the K tokens that follow the next token, each with a head of its own.

    z = max(0, [h; v] W + b)
    a_k = MultiHead(z Q_k + p_k, memory)
    u_k = h + max(0, z + a_k A + c_k) V + e,   k = 1 ... K

    h is the decoder's output from which the model predicts the next token y, and v is the vector of
    y. The attention is to the keys and values of the decoder's last layer. The logits of the k-th
    token after y are those of u_k, by the matrix of the model. V starts at 0, so that a new head
    predicts what the model does.

    Deviations from the heads of Stern et al., 2018, section 6, which see h alone: y is known before
    the tokens after it are drafted, and v tells which of the probable tokens was taken; and the
    attention lets each head look at the words of the source.

    Args:
        num_drafts: K.
        num_heads: number of heads of the attention; that of the decoder's cross-attention.

    Call arguments:
        hidden: h, `(rows, length, d_model)`.
        vectors: v, `(rows, length, d_model)`.
        memory: keys and values of the last layer, see `CrossAttention.project_memory`.
        memory_mask: `(rows, 1, 1, source_length)` bool, True = may attend.
        few_queries: True uses operations that are faster for few queries.

    Returns:
        u, `(rows, length, num_drafts, d_model)`.
    """

    def __init__(self, *, num_drafts: int, num_heads: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.num_drafts = num_drafts
        self.num_heads = num_heads

    def build(self, hidden_shape, *_):
        d_model, dtype = hidden_shape[-1], self.dtype_policy
        self.joined = projection(2 * d_model, d_model, dtype=dtype, name="joined")
        self.query = projection(
            d_model, d_model, num_parts=self.num_drafts, dtype=dtype, name="query"
        )
        self.attended = projection(d_model, d_model, use_bias=False, dtype=dtype, name="attended")
        self.draft_bias = self.add_weight(
            name="draft_bias", shape=(self.num_drafts, d_model), initializer="zeros"
        )
        self.outer = projection(d_model, d_model, gain=0.0, dtype=dtype, name="outer")
        self.built = True

    def call(self, hidden, vectors, memory, memory_mask=None, few_queries=False):
        d_model, dtype = hidden.shape[-1], hidden.dtype
        joined = ops.concatenate([hidden, ops.cast(vectors, dtype)], axis=-1)
        joined = ops.relu(self.joined(joined))
        # (rows, length * drafts, heads, head_dim) -> (rows, heads, length * drafts, head_dim)
        shape = (ops.shape(hidden)[0], -1, self.num_heads, d_model // self.num_heads)
        queries = ops.transpose(ops.reshape(self.query(joined), shape), (0, 2, 1, 3))
        attended, _ = scaled_dot_product_attention(
            queries, memory["key"], memory["value"], memory_mask, few_queries=few_queries
        )
        by_draft = (*ops.shape(hidden)[:2], self.num_drafts, d_model)
        attended = ops.reshape(ops.transpose(attended, (0, 2, 1, 3)), by_draft)
        inner = joined[:, :, None] + self.attended(attended) + ops.cast(self.draft_bias, dtype)
        return hidden[:, :, None] + self.outer(ops.relu(inner))

    def compute_output_shape(self, hidden_shape, *_):
        return (*hidden_shape[:2], self.num_drafts, hidden_shape[-1])

    def get_config(self):
        return super().get_config() | {"num_drafts": self.num_drafts, "num_heads": self.num_heads}

"""Scaled dot-product attention and its multi-head layers ("Attention Is All You Need", 3.2)."""

import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from tf_transformer.config_checks import RelativePositions as RelativePositionsKind
from tf_transformer.config_checks import check_choice
from tf_transformer.errors import InputError
from tf_transformer.layers.dense import projection
from tf_transformer.layers.dropout import Dropout
from tf_transformer.layers.kernels import small_products, small_softmax
from tf_transformer.layers.layout import PADDED, Beam, Layout, SentenceLayout
from tf_transformer.layers.masks import MaskedLayer, attention_bias
from tf_transformer.layers.positions import RelativePositions


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any = None,
    *,
    dropout: Callable[[Any], Any] | None = None,
    relative_keys: Any = None,
    relative_values: Any = None,
    relative_products: Callable[[Any], Any] | None = None,
    score_bias: Any = None,
    few_queries: bool = False,
) -> tuple[Any, Any]:
    """Computes Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V   (equation 1).

    With relative positions, Q K^T becomes q_i (k_j + a_ij)^T, and the sum over the values becomes
    sum_j weights_ij (v_j + b_ij)   (Shaw et al., 2018, equations 3 and 4).

    Args:
        query: Q, `(..., query_length, head_dim)`.
        key: K, `(..., key_length, head_dim)`.
        value: V, `(..., key_length, head_dim)`.
        attention_mask: boolean, True = may attend, as many axes as the scores that broadcast to
            `(..., query_length, key_length)`; None lets every query attend to every key.
        dropout: callable applied to the attention weights, or None.
        relative_keys: a, `(query_length, key_length, head_dim)`, or None.
        relative_values: b, `(query_length, key_length, head_dim)`, or None.
        relative_products: in place of `relative_keys` a function that computes q_i a_ij,
            `(..., query_length, key_length)`, from the scaled queries; or None.
        score_bias: added to the scores, as many axes that broadcast to theirs; or None.
        few_queries: True uses operations that are faster for few queries, as in a decoding step.

    Returns:
        The attended values, `(..., query_length, head_dim)`, and the attention weights before
        dropout, `(..., query_length, key_length)`, both in the dtype of `query`. The softmax is
        computed in float32.
    """
    # Scaling the queries is cheaper than scaling the scores: there are fewer of them.
    query = query * ops.cast(1.0 / math.sqrt(query.shape[-1]), query.dtype)
    if few_queries:
        scores = small_products(query, key, transpose_right=True)
    else:
        # With `ops.matmul`, TensorFlow would copy the transposed keys and their gradient in memory.
        scores = ops.einsum("...qd,...kd->...qk", query, key)
    if relative_keys is not None:
        scores = scores + ops.einsum("...qd,qkd->...qk", query, relative_keys)
    if relative_products is not None:
        scores = scores + relative_products(query)
    scores = ops.cast(scores, "float32")
    if score_bias is not None:
        scores = scores + ops.cast(score_bias, "float32")
    if attention_mask is not None:
        scores = scores + attention_bias(attention_mask, scores.shape)
    weights = small_softmax(scores) if few_queries else ops.softmax(scores, axis=-1)
    weights = ops.cast(weights, query.dtype)
    dropped = weights if dropout is None else dropout(weights)
    attended = (small_products if few_queries else ops.matmul)(dropped, value)
    if relative_values is not None:
        attended = attended + ops.einsum("...qk,qkd->...qd", dropped, relative_values)
    return attended, weights


def log_attention(query: Any, key: Any, attention_mask: Any = None) -> Any:
    """Computes log softmax(Q K^T / sqrt(d_k)) in float32.

    The gradient of the logarithm of attention weights would be infinite where a weight has
    underflowed, as small ones do in half precision; the gradient of this function is at most 1.

    Args:
        query: Q, `(..., query_length, head_dim)`.
        key: K, `(..., key_length, head_dim)`.
        attention_mask: boolean, True = may attend, as many axes as the scores that broadcast to
            `(..., query_length, key_length)`; None lets every query attend to every key.

    Returns:
        `(..., query_length, key_length)` float32; at most about -1e9 where the mask is False.
    """
    query = query * ops.cast(1.0 / math.sqrt(query.shape[-1]), query.dtype)
    scores = ops.cast(ops.einsum("...qd,...kd->...qk", query, key), "float32")
    if attention_mask is not None:
        scores = scores + attention_bias(attention_mask, scores.shape)
    return ops.log_softmax(scores, axis=-1)


class MultiHeadAttention(MaskedLayer):
    """Base class of self-attention and cross-attention   (section 3.2.2).

    MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O. The projections have biases, as in the
    Annotated Transformer; the paper's formula has none.

    Args:
        num_heads: h; must divide the width of the input, unless `head_dim` is given.
        head_dim: width of each head; None means the width of the input / h, as in the paper.
        use_bias: False leaves out the biases.
        dropout_rate: dropout rate of the attention weights.
        initial_gain: factor of the initial weights, see `dense.projection`.

    Raises:
        InputError: when built, if `num_heads` does not divide the width of the input.
    """

    def __init__(
        self,
        *,
        num_heads: int,
        head_dim: int | None = None,
        use_bias: bool = True,
        dropout_rate: float = 0.0,
        initial_gain: float = 1.0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.given_head_dim = head_dim
        self.use_bias = use_bias
        self.dropout_rate = dropout_rate
        self.initial_gain = initial_gain
        self.dropout = Dropout(dropout_rate, dtype=self.dtype_policy, name="dropout")

    def _to_heads(self, num_parts: int, name: str, num_inputs: int | None = None):
        """Returns the projection to queries, keys or values, or several of them."""
        return self._projection(num_inputs or self.d_model, self.heads_width, num_parts, name)

    def _projection(self, num_inputs: int, num_outputs: int, num_parts: int, name: str):
        return projection(
            num_inputs,
            num_outputs,
            num_parts=num_parts,
            gain=self.initial_gain,
            use_bias=self.use_bias,
            dtype=self.dtype_policy,
            name=name,
        )

    def build(self, inputs_shape):
        self.d_model = inputs_shape[-1]
        is_divided = self.given_head_dim is None
        if self.num_heads < 1 or (is_divided and self.d_model % self.num_heads):
            raise InputError(
                "`num_heads` must divide the width of the input. Received: "
                f"num_heads={self.num_heads}, width={self.d_model}"
            )
        self.head_dim = self.given_head_dim or self.d_model // self.num_heads
        self.heads_width = self.num_heads * self.head_dim
        self.output_projection = self._projection(
            self.heads_width, self.d_model, 1, "output_projection"
        )
        self.dropout.build((None, self.num_heads, None, None))

    def _split_heads(self, vectors, num_parts: int, layout: Layout):
        """Splits the outputs of `projection` into parts of `(batch, heads, length, head_dim)`."""
        return ops.unstack(layout.split_heads(vectors, num_parts, self.num_heads), num_parts)

    def _join_heads(self, attended, layout: Layout):
        """Computes Concat(head_1, ..., head_h) W^O, in the layout of the inputs."""
        return self.output_projection(layout.join_heads(attended, self.heads_width))

    def get_config(self):
        return super().get_config() | {
            "num_heads": self.num_heads,
            "head_dim": self.given_head_dim,
            "use_bias": self.use_bias,
            "dropout_rate": self.dropout_rate,
            "initial_gain": self.initial_gain,
        }


@keras.saving.register_keras_serializable(package="tf_transformer")
class SelfAttention(MultiHeadAttention):
    """Multi-head attention of a sequence to itself, with queries, keys and values in one product.

    Args:
        num_heads: h; must divide `d_model`, unless `head_dim` is given.
        head_dim: width of each head; None means `d_model / h`.
        use_bias: False leaves out the biases.
        dropout_rate: dropout rate of the attention weights.
        initial_gain: factor of the initial weights, see `dense.projection`.
        relative_positions: "keys" or "keys_values": where vectors of relative positions are added
            (Shaw et al., 2018); without, "none" or "buckets", the `RelativeBias` of a stack.
        max_relative_distance: positions that are further apart use the vector of this distance.

    Call arguments:
        inputs: `(batch, length, d_model)`.
        attention_mask: boolean, True = may attend, four axes that broadcast to
            `(batch, num_heads, length, length)`.
        training: True applies dropout.
        layout: layout of `inputs` and outputs, see `layers.layout`.
        score_bias: `(1, num_heads, length, length)` float32, added to the scores, see
            `RelativeBias`; or None.

    Returns:
        `(batch, length, d_model)`.

    Raises:
        InputError: `relative_positions` is unknown; when built, if `num_heads` does not divide
            `d_model`.
    """

    def __init__(
        self,
        *,
        relative_positions: str = "none",
        max_relative_distance: int = 16,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        check_choice("relative_positions", relative_positions, RelativePositionsKind)
        self.relative_positions = relative_positions
        self.max_relative_distance = max_relative_distance

    def build(self, inputs_shape):
        super().build(inputs_shape)
        self.query_key_value = self._to_heads(3, "query_key_value")
        if self._has_relative_keys:
            self.relative_keys = self._relative("relative_keys")
        if self.relative_positions == "keys_values":
            self.relative_values = self._relative("relative_values")
        self.built = True

    @property
    def _has_relative_keys(self) -> bool:
        return self.relative_positions in ("keys", "keys_values")

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
        layout: SentenceLayout = PADDED,
        score_bias=None,
    ):
        return self.attend(inputs, attention_mask, training, layout, score_bias)[0]

    def attend(
        self,
        inputs,
        attention_mask=None,
        training=None,
        layout: SentenceLayout = PADDED,
        score_bias=None,
    ):
        """Computes `call`, and returns the attention weights as well.

        Returns:
            `(batch, length, d_model)` and the weights `(batch, num_heads, length, length)`.
        """
        projected = self.query_key_value(inputs)
        query, key, value = self._split_heads(projected, 3, layout)
        attended, weights = scaled_dot_product_attention(
            query,
            key,
            value,
            attention_mask,
            dropout=lambda weights: self.dropout(weights, training=training),
            score_bias=score_bias,
            **self._relative_vectors(ops.arange(ops.shape(query)[2], dtype="int32")),
        )
        return self._join_heads(attended, layout), weights

    def _relative_vectors(self, positions):
        """Returns the vectors of the distances between `positions`, if the layer has any."""
        vectors = {}
        if self._has_relative_keys:
            vectors["relative_keys"] = self.relative_keys(positions, positions)
        if self.relative_positions == "keys_values":
            vectors["relative_values"] = self.relative_values(positions, positions)
        return vectors

    def compute_output_shape(self, inputs_shape):
        return inputs_shape

    def step(self, inputs, layer_cache, step, score_bias=None):
        """Computes attention from the newest token of every hypothesis to all its tokens so far.

        Args:
            inputs: `(rows * beam, d_model)`, one token per hypothesis.
            layer_cache: this layer's part of a `KVCache`.
            step: the `CacheStep` of the decoding step.
            score_bias: see `RelativeBias.at`; or None.

        Returns:
            `(rows * beam, d_model)`, and the layer's cache with the keys and values of this step.
        """
        layout = Beam(step.beam_size)
        # (3, rows, heads, beam, head_dim)
        projected = layout.split_heads(self.query_key_value(inputs), 3, self.num_heads)
        layer_cache = step.write(layer_cache, projected[1:])
        query, (key, value) = projected[0], step.read(layer_cache)
        # All queries are at the newest position, so a_ij depends only on the key.
        relative_products = None
        if self._has_relative_keys:

            def relative_products(query):
                return self.relative_keys.products_at(query, step.distances)

        if self.relative_positions == "keys_values":
            value = value + self.relative_values.vectors_at(step.distances)[:, None]
        attended, _ = scaled_dot_product_attention(
            query,
            key,
            value,
            step.attention_mask,
            relative_products=relative_products,
            score_bias=score_bias,
            few_queries=True,
        )
        return self._join_heads(attended, layout), layer_cache

    def get_config(self):
        return super().get_config() | {
            "relative_positions": self.relative_positions,
            "max_relative_distance": self.max_relative_distance,
        }


@keras.saving.register_keras_serializable(package="tf_transformer")
class CrossAttention(MultiHeadAttention):
    """Multi-head attention from the decoder to the encoder's output, the memory.

    Keys and values depend only on the memory, so decoding computes them once per sentence with
    `project_memory` and passes them to `attend_projected` at every step.

    Args:
        num_heads: h; must divide `d_model`, unless `head_dim` is given.
        head_dim: width of each head; None means `d_model / h`.
        use_bias: False leaves out the biases.
        dropout_rate: dropout rate of the attention weights.
        initial_gain: factor of the initial weights, see `dense.projection`.

    Call arguments:
        inputs: `(batch, target_length, d_model)`.
        memory: `(batch, source_length, memory_width)`.
        attention_mask: boolean, True = may attend, four axes that broadcast to
            `(batch, num_heads, target_length, source_length)`.
        training: True applies dropout.
        layout: layout of `inputs` and outputs; `layout.memory` is the layout of `memory`.

    Returns:
        `(batch, target_length, d_model)`.

    Raises:
        InputError: when built, if `num_heads` does not divide `d_model`.
    """

    def build(self, inputs_shape, memory_shape=None):
        super().build(inputs_shape)
        self.query = self._to_heads(1, "query")
        memory_width = memory_shape[-1] if memory_shape else self.d_model
        self.key_value = self._to_heads(2, "key_value", memory_width)
        self.built = True

    def masks_of_call(
        self, inputs, memory, attention_mask=None, *_, **__
    ):  # the arguments of `call`
        return [(attention_mask, inputs, memory)]

    def call(
        self,
        inputs,
        memory,
        attention_mask=None,
        training=None,
        layout: SentenceLayout = PADDED,
    ):
        return self.attend(inputs, memory, attention_mask, training, layout)[0]

    def attend(
        self,
        inputs,
        memory,
        attention_mask=None,
        training=None,
        layout: SentenceLayout = PADDED,
    ):
        """Computes `call`, and returns the attention weights as well.

        Returns:
            `(batch, target_length, d_model)` and the weights
            `(batch, num_heads, target_length, source_length)`.
        """
        projected = self.project_memory(memory, layout.memory)
        return self.attend_projected(inputs, projected, attention_mask, training, layout)

    def align(
        self,
        inputs,
        memory,
        head: int,
        attention_mask=None,
        training=None,
        layout: SentenceLayout = PADDED,
    ):
        """Computes `call`, and returns the logarithm of the attention weights of one head as well.

        Its gradient reaches the projections of this head alone, and what lies below the layer.

        Args:
            inputs: `(batch, target_length, d_model)`.
            memory: `(batch, source_length, memory_width)`.
            head: index of the head.
            attention_mask: boolean, True = may attend, four axes that broadcast to
                `(batch, num_heads, target_length, source_length)`, and is the same for all heads.
            training: True applies dropout, but not to the logarithms.
            layout: layout of `inputs` and outputs; `layout.memory` is the layout of `memory`.

        Returns:
            `(batch, target_length, d_model)` and `(batch, target_length, source_length)` float32,
            see `log_attention`.
        """
        projected = self.project_memory(memory, layout.memory)
        (query,) = self._split_heads(self.query(inputs), 1, layout)
        attended, _ = self._attend(query, projected, attention_mask, training, layout)
        mask = None if attention_mask is None else attention_mask[:, 0]
        return attended, log_attention(query[:, head], projected["key"][:, head], mask)

    def compute_output_shape(self, inputs_shape, memory_shape=None):
        return inputs_shape

    def project_memory(self, memory, layout: SentenceLayout = PADDED):
        """Computes the keys and values of the memory.

        Args:
            memory: `(batch, source_length, memory_width)`.
            layout: layout of `memory`.

        Returns:
            A dictionary of "key" and "value", each
            `(batch, num_heads, source_length, head_dim)`.
        """
        key, value = self._split_heads(self.key_value(memory), 2, layout)
        return {"key": key, "value": value}

    def attend_projected(
        self, inputs, projected, attention_mask=None, training=None, layout: Layout = PADDED
    ):
        """Computes `attend` with keys and values from `project_memory`.

        Args:
            inputs: `(batch, target_length, d_model)`, or one token per hypothesis,
                `(rows * beam, d_model)`, with the layout `Beam`.
            projected: the result of `project_memory`.
            attention_mask: boolean, True = may attend, four axes that broadcast to
                `(batch, num_heads, target_length, source_length)`.
            training: True applies dropout.
            layout: layout of `inputs` and outputs.

        Returns:
            Those of `attend`.
        """
        (query,) = self._split_heads(self.query(inputs), 1, layout)
        return self._attend(query, projected, attention_mask, training, layout)

    def _attend(self, query, projected, attention_mask, training, layout: Layout):
        attended, weights = scaled_dot_product_attention(
            query,
            projected["key"],
            projected["value"],
            attention_mask,
            dropout=lambda weights: self.dropout(weights, training=training),
            few_queries=isinstance(layout, Beam),
        )
        return self._join_heads(attended, layout), weights

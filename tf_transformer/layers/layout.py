"""Layouts of a batch of vectors: padded, packed without padding, or one token per hypothesis.

Embedding, dense layers, norms and dropout work on the last axis, with any layout. Only attention
needs axes for sentences and heads, `(batch, num_heads, length, head_dim)`; each layout converts to
this shape (`split_heads`) and back (`join_heads`).
"""

import dataclasses
from typing import Any

from keras import ops

from tf_transformer.backend import has_gpu
from tf_transformer.layers.kernels import permute_rows, select_rows


class Padded:
    """The layout `(batch, length, width)`, padded to the longest sentence of the batch."""

    @property
    def memory(self) -> "Padded":
        """The layout of the memory to which a decoder attends."""
        return self

    def length(self, vectors: Any) -> Any:
        """Returns the length of a batch, `(batch, length, width)`."""
        return ops.shape(vectors)[1]

    def pack(self, vectors: Any) -> Any:
        """Returns a padded batch unchanged."""
        return vectors

    def split_heads(self, vectors: Any, num_parts: int, num_heads: int) -> Any:
        """Splits concatenated projections into parts and heads.

        Args:
            vectors: `(batch, length, num_parts * d_model)`.
            num_parts: number of concatenated projections.
            num_heads: number of heads of each projection.

        Returns:
            `(num_parts, batch, num_heads, length, head_dim)`.
        """
        batch, length = ops.shape(vectors)[:2]
        head_dim = vectors.shape[-1] // (num_parts * num_heads)
        vectors = ops.reshape(vectors, (batch, length, num_parts, num_heads, head_dim))
        return ops.transpose(vectors, (2, 0, 3, 1, 4))

    def join_heads(self, attended: Any, d_model: int) -> Any:
        """Computes Concat(head_1, ..., head_h).

        Args:
            attended: `(batch, num_heads, length, head_dim)`.
            d_model: `num_heads * head_dim`.

        Returns:
            `(batch, length, d_model)`.
        """
        batch, _, length, _ = ops.shape(attended)
        # (batch, num_heads, length, head_dim) -> (batch, length, d_model)
        return ops.reshape(ops.transpose(attended, (0, 2, 1, 3)), (batch, length, d_model))


PADDED = Padded()


@dataclasses.dataclass(frozen=True)
class Beam:
    """The layout `(rows * beam, width)`, with the newest token of every hypothesis of every row.

    Attributes:
        beam_size: number of hypotheses per row.
    """

    beam_size: int

    def split_heads(self, vectors: Any, num_parts: int, num_heads: int) -> Any:
        """Splits `(rows * beam, parts * d_model)` to `(parts, rows, num_heads, beam, head_dim)`."""
        head_dim = vectors.shape[-1] // (num_parts * num_heads)
        if self.beam_size == num_parts == 1:  # nothing changes places
            return ops.reshape(vectors, (1, -1, num_heads, 1, head_dim))
        vectors = ops.reshape(vectors, (-1, self.beam_size, num_parts, num_heads, head_dim))
        return ops.transpose(vectors, (2, 0, 3, 1, 4))

    def join_heads(self, attended: Any, d_model: int) -> Any:
        """Joins `(rows, num_heads, beam, head_dim)` to `(rows * beam, d_model)`."""
        if self.beam_size > 1:
            attended = ops.transpose(attended, (0, 2, 1, 3))
        return ops.reshape(attended, (-1, d_model))


def _index_dtype():
    """Returns int32, or on a GPU int64.

    For int32, which usually are shapes, TensorFlow's kernels for GPUs compute on the CPU. There are
    as many indices as tokens, parts and heads, and they would be copied to the CPU and back.
    """
    return "int64" if has_gpu() else "int32"


@dataclasses.dataclass(frozen=True, eq=False)
class Packed:
    """The layout `(tokens, width)`, with the real tokens of all sentences in sequence.

    Attributes:
        padded_indices: `(tokens,)` int32, on a GPU int64, the index of each real token in the
            flattened padded batch, of `batch * length` entries.
        packed_indices: `(batch, length)` of the same dtype, the index of the token at each entry of
            the padded batch; `tokens` at padding.
        memory: the layout of the memory to which a decoder attends.
    """

    padded_indices: Any
    packed_indices: Any
    memory: "SentenceLayout" = PADDED

    @classmethod
    def from_padding_mask(cls, mask: Any, memory: "SentenceLayout" = PADDED) -> "Packed":
        """Returns the layout of the real tokens of a padded batch.

        A sentence without tokens keeps its first entry, since attention needs at least one.

        Args:
            mask: `(batch, length)` bool, True at real tokens.
            memory: the layout of the memory.
        """
        is_first = ops.arange(ops.shape(mask)[1], dtype="int32") == 0
        return cls.from_mask(ops.logical_or(mask, is_first), memory)

    @classmethod
    def from_mask(cls, mask: Any, memory: "SentenceLayout" = PADDED) -> "Packed":
        """Returns the layout of the entries where the mask, `(batch, length)` bool, is True."""
        is_real, dtype = ops.reshape(mask, (-1,)), _index_dtype()
        (padded_indices,) = ops.nonzero(is_real)
        packed_indices = ops.cumsum(ops.cast(is_real, dtype)) - 1
        num_tokens = ops.cast(ops.size(padded_indices), dtype)
        packed_indices = ops.where(is_real, packed_indices, num_tokens)
        return cls(
            ops.cast(padded_indices, dtype),
            ops.reshape(packed_indices, ops.shape(mask)),
            memory,
        )

    def _arange(self, size):
        return ops.arange(size, dtype=self.padded_indices.dtype)

    def _rows_and_columns(self):
        """Returns the index of the sentence of each token, and its index in the sentence."""
        length = ops.cast(ops.shape(self.packed_indices)[1], self.padded_indices.dtype)
        return self.padded_indices // length, self.padded_indices % length

    def length(self, vectors: Any) -> Any:
        """Returns the length of the padded batch whose tokens are `vectors`."""
        return ops.shape(self.packed_indices)[1]

    def pack(self, vectors: Any) -> Any:
        """Packs `(batch, length, width)` to `(tokens, width)`."""
        rows = ops.reshape(vectors, (-1, vectors.shape[-1]))
        return select_rows(rows, self.padded_indices, ops.reshape(self.packed_indices, (-1,)))

    def select(self, tokens: Any, mask: Any) -> Any:
        """Returns the packed tokens at the entries where a mask is True.

        Args:
            tokens: `(tokens, width)`.
            mask: `(batch, length)` bool.

        Returns:
            `(selected, width)`.
        """
        selected = ops.take(ops.reshape(mask, (-1,)), self.padded_indices)
        return Packed.from_mask(selected[None]).pack(tokens[None])

    def split_heads(self, vectors: Any, num_parts: int, num_heads: int) -> Any:
        """Splits `(tokens, parts * d_model)` to `(parts, batch, num_heads, length, head_dim)`.

        Every vector is copied once, to its sentence and head. The entries of padding hold the
        vectors of other tokens: the attention mask must hide them.
        """
        head_dim = vectors.shape[-1] // (num_parts * num_heads)
        rows = ops.reshape(vectors, (-1, head_dim))
        parts, heads = map(self._arange, (num_parts, num_heads))
        row, column = self._rows_and_columns()
        batch, length = ops.shape(self.packed_indices)
        # (parts, batch, heads, length)
        last = ops.cast(ops.size(self.padded_indices) - 1, self.padded_indices.dtype)
        tokens = ops.minimum(self.packed_indices, last)[:, None, :]
        indices = (tokens * num_parts + parts[:, None, None, None]) * num_heads + heads[:, None]
        # (tokens, parts, heads)
        batch_size, row_size = (ops.cast(n, parts.dtype) for n in (batch, length))
        inverse = parts[:, None] * batch_size + row[:, None, None]
        inverse = (inverse * num_heads + heads) * row_size + column[:, None, None]
        split = permute_rows(rows, ops.reshape(indices, (-1,)), ops.reshape(inverse, (-1,)))
        return ops.reshape(split, (num_parts, batch, num_heads, length, head_dim))

    def join_heads(self, attended: Any, d_model: int) -> Any:
        """Joins `(batch, num_heads, length, head_dim)` to `(tokens, d_model)`."""
        _, num_heads, length, head_dim = ops.shape(attended)
        heads, (row, column) = self._arange(num_heads), self._rows_and_columns()
        # (tokens, heads), and (batch, heads, length)
        row_size = ops.cast(length, heads.dtype)
        indices = (row[:, None] * num_heads + heads) * row_size + column[:, None]
        inverse = self.packed_indices[:, None, :] * num_heads + heads[:, None]
        rows = ops.reshape(attended, (-1, head_dim))
        indices, inverse = ops.reshape(indices, (-1,)), ops.reshape(inverse, (-1,))
        joined = select_rows(rows, indices, inverse, num_heads)
        return ops.reshape(joined, (-1, d_model))


# The layouts of whole sentences, and all layouts.
SentenceLayout = Padded | Packed
Layout = SentenceLayout | Beam

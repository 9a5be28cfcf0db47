"""How a batch of vectors lies in memory: padded, packed without padding, or one token a hypothesis.

Embedding, dense layers, norms and dropout work on the last axis alone, whatever the layout. Only
attention needs sentences and heads as axes, `(batch, num_heads, length, head_dim)`; each layout
knows the way there (`split_heads`) and back (`join_heads`).
"""

import dataclasses
from typing import Any

from keras import ops

from tf_transformer.layers.kernels import permute_rows, select_rows


class Padded:
    """`(batch, length, width)`: every sentence is padded to the longest of the batch."""

    @property
    def memory(self) -> "Padded":
        """The layout of the memory that a decoder attends to."""
        return self

    def pack(self, vectors: Any) -> Any:
        """Returns a padded batch unchanged."""
        return vectors

    def split_heads(self, vectors: Any, num_parts: int, num_heads: int) -> Any:
        """Reads several projections side by side.

        Args:
            vectors: `(batch, length, num_parts * d_model)`.
            num_parts: how many projections lie side by side.
            num_heads: heads of each.

        Returns:
            `(num_parts, batch, num_heads, length, head_dim)`.
        """
        batch, length = ops.shape(vectors)[:2]
        head_dim = vectors.shape[-1] // (num_parts * num_heads)
        vectors = ops.reshape(vectors, (batch, length, num_parts, num_heads, head_dim))
        return ops.transpose(vectors, (2, 0, 3, 1, 4))

    def join_heads(self, attended: Any, d_model: int) -> Any:
        """Concat(head_1, ..., head_h): `(batch, num_heads, length, head_dim)` to three axes."""
        batch, _, length, _ = ops.shape(attended)
        # (batch, num_heads, length, head_dim) -> (batch, length, d_model)
        return ops.reshape(ops.transpose(attended, (0, 2, 1, 3)), (batch, length, d_model))


PADDED = Padded()


@dataclasses.dataclass(frozen=True)
class Beam:
    """`(rows * beam, width)`: the newest token of every hypothesis of every row.

    Attributes:
        beam_size: hypotheses of each row.
    """

    beam_size: int

    def split_heads(self, vectors: Any, num_parts: int, num_heads: int) -> Any:
        """`(rows * beam, parts * d_model)` to `(parts, rows, num_heads, beam, head_dim)`."""
        head_dim = vectors.shape[-1] // (num_parts * num_heads)
        vectors = ops.reshape(vectors, (-1, self.beam_size, num_parts, num_heads, head_dim))
        return ops.transpose(vectors, (2, 0, 3, 1, 4))

    def join_heads(self, attended: Any, d_model: int) -> Any:
        """`(rows, num_heads, beam, head_dim)` to `(rows * beam, d_model)`."""
        return ops.reshape(ops.transpose(attended, (0, 2, 1, 3)), (-1, d_model))


@dataclasses.dataclass(frozen=True, eq=False)
class Packed:
    """`(tokens, width)`: the real tokens alone, one sentence after the other.

    Attributes:
        positions: `(tokens,)` int32, where each real token is among the `batch * length` entries of
            the padded batch.
        indices: `(batch, length)` int32, the token at each entry of the padded batch; the number of
            tokens at padding.
        memory: the layout of the memory that a decoder attends to.
    """

    positions: Any
    indices: Any
    memory: "SentenceLayout" = PADDED

    @classmethod
    def of_sentences(cls, mask: Any, memory: "SentenceLayout" = PADDED) -> "Packed":
        """Packs the tokens of sentences.

        A sentence without any token keeps its first entry, so that it has something to compute
        with.

        Args:
            mask: `(batch, length)` bool, True at real tokens.
            memory: the layout of the memory.
        """
        is_first = ops.arange(ops.shape(mask)[1], dtype="int32") == 0
        return cls.of(ops.logical_or(mask, is_first), memory)

    @classmethod
    def of(cls, mask: Any, memory: "SentenceLayout" = PADDED) -> "Packed":
        """Packs the entries where the mask, `(batch, length)` bool, is True."""
        is_real = ops.reshape(mask, (-1,))
        (positions,) = ops.nonzero(is_real)
        indices = ops.cumsum(ops.cast(is_real, "int32")) - 1
        indices = ops.where(is_real, indices, ops.size(positions))
        return cls(ops.cast(positions, "int32"), ops.reshape(indices, ops.shape(mask)), memory)

    def pack(self, vectors: Any) -> Any:
        """`(batch, length, width)` to `(tokens, width)`."""
        rows = ops.reshape(vectors, (-1, vectors.shape[-1]))
        return select_rows(rows, self.positions, ops.reshape(self.indices, (-1,)))

    def select(self, tokens: Any, mask: Any) -> Any:
        """The tokens `(tokens, width)` at the entries where `mask`, `(batch, length)`, is True."""
        selected = ops.take(ops.reshape(mask, (-1,)), self.positions)
        return Packed.of(selected[None]).pack(tokens[None])

    def split_heads(self, vectors: Any, num_parts: int, num_heads: int) -> Any:
        """`(tokens, parts * d_model)` to `(parts, batch, num_heads, length, head_dim)`.

        Every vector moves once, straight to its sentence and head. The entries of padding hold some
        other token's vectors: the attention mask must hide them.
        """
        head_dim = vectors.shape[-1] // (num_parts * num_heads)
        rows = ops.reshape(vectors, (-1, head_dim))
        parts, heads = (ops.arange(n, dtype="int32") for n in (num_parts, num_heads))
        batch, length = ops.shape(self.indices)
        row, column = self.positions // length, self.positions % length
        # (parts, batch, heads, length), and (tokens, parts, heads)
        indices = ops.minimum(self.indices, ops.size(self.positions) - 1)[:, None, :]
        source = (indices * num_parts + parts[:, None, None, None]) * num_heads + heads[:, None]
        target = parts[:, None] * batch + row[:, None, None]
        target = (target * num_heads + heads) * length + column[:, None, None]
        split = permute_rows(rows, ops.reshape(source, (-1,)), ops.reshape(target, (-1,)))
        return ops.reshape(split, (num_parts, batch, num_heads, length, head_dim))

    def join_heads(self, attended: Any, d_model: int) -> Any:
        """`(batch, num_heads, length, head_dim)` to `(tokens, d_model)`."""
        _, num_heads, length, head_dim = ops.shape(attended)
        heads = ops.arange(num_heads, dtype="int32")
        row, column = self.positions // length, self.positions % length
        # (tokens, heads), and (batch, heads, length)
        source = (row[:, None] * num_heads + heads) * length + column[:, None]
        target = self.indices[:, None, :] * num_heads + heads[:, None]
        rows = ops.reshape(attended, (-1, head_dim))
        source, target = ops.reshape(source, (-1,)), ops.reshape(target, (-1,))
        joined = select_rows(rows, source, target, num_heads)
        return ops.reshape(joined, (-1, d_model))


# The layouts of whole sentences, and all layouts.
SentenceLayout = Padded | Packed
Layout = SentenceLayout | Beam

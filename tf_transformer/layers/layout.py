"""A batch without its padding: the vectors of its real tokens, one below the other."""

from typing import Any, NamedTuple

from keras import ops


class Packing(NamedTuple):
    """Where the real tokens of a padded batch are, to compute with them alone.

    Embedding, dense layers, norms and dropout see one token at a time, and work on
    `(tokens, width)` as on `(batch, length, width)`. Attention alone needs the sentences back; it
    moves every vector anyway, to split the heads, and so moves it straight to its sentence.

    Attributes:
        places: `(tokens,)`, where each real token is among the `batch * length` places.
        numbers: `(batch, length)`, which token is at each place; at padding, how many there are.
    """

    places: Any
    numbers: Any

    @classmethod
    def of_rows(cls, mask: Any) -> "Packing":
        """Of a batch with such a padding mask, `(batch, length)` bool, True at real tokens.

        A row of padding alone keeps its first place, so that there is a token to compute with.
        """
        return cls.of(ops.logical_or(mask, ops.arange(ops.shape(mask)[1]) == 0))

    @classmethod
    def of(cls, mask: Any) -> "Packing":
        """Of the places where the mask, `(batch, length)` bool, is True."""
        is_real = ops.reshape(mask, (-1,))
        (places,) = ops.nonzero(is_real)
        numbers = ops.cumsum(ops.cast(is_real, "int32")) - 1
        numbers = ops.where(is_real, numbers, ops.size(places))
        return cls(ops.cast(places, "int32"), ops.reshape(numbers, ops.shape(mask)))

    def pack(self, vectors: Any) -> Any:
        """`(batch, length, width)` to `(tokens, width)`."""
        rows = ops.reshape(vectors, (-1, vectors.shape[-1]))
        return _choose(rows, self.places, ops.reshape(self.numbers, (-1,)), 1)

    def choose(self, tokens: Any, mask: Any) -> Any:
        """Of `(tokens, width)`, those at such places, `(batch, length)` bool."""
        chosen = ops.take(ops.reshape(mask, (-1,)), self.places)
        return Packing.of(chosen[None]).pack(tokens[None])

    def split_heads(self, vectors: Any, num_parts: int, num_heads: int) -> list[Any]:
        """`(tokens, parts * d_model)` to `parts` x `(batch, heads, length, head_dim)`.

        What comes at padding is some token's; nothing must depend on it.
        """
        head_dim = vectors.shape[-1] // (num_parts * num_heads)
        rows = ops.reshape(vectors, (-1, head_dim))
        parts, heads = ops.arange(num_parts), ops.arange(num_heads)
        batch, length = ops.shape(self.numbers)
        row, column = self.places // length, self.places % length
        # (parts, batch, heads, length), and (tokens, parts, heads)
        numbers = ops.minimum(self.numbers, ops.size(self.places) - 1)[:, None, :]
        there = (numbers * num_parts + parts[:, None, None, None]) * num_heads + heads[:, None]
        back = parts[:, None] * batch + row[:, None, None]
        back = (back * num_heads + heads) * length + column[:, None, None]
        split = _permute(rows, ops.reshape(there, (-1,)), ops.reshape(back, (-1,)))
        shape = (num_parts, batch, num_heads, length, head_dim)
        return ops.unstack(ops.reshape(split, shape), num_parts)

    def join_heads(self, attended: Any) -> Any:
        """`(batch, heads, length, head_dim)` to `(tokens, d_model)`."""
        _, num_heads, length, head_dim = ops.shape(attended)
        heads = ops.arange(num_heads)
        row, column = self.places // length, self.places % length
        # (tokens, heads), and (batch, heads, length)
        there = (row[:, None] * num_heads + heads) * length + column[:, None]
        back = self.numbers[:, None, :] * num_heads + heads[:, None]
        rows = ops.reshape(attended, (-1, head_dim))
        joined = _choose(rows, ops.reshape(there, (-1,)), ops.reshape(back, (-1,)), num_heads)
        return ops.reshape(joined, (-1, num_heads * head_dim))


def _permute(rows, there, back):
    """`rows[there]`; the gradient is taken from `back`, where each row went."""

    @ops.custom_gradient
    def permute(rows):
        return ops.take(rows, there, axis=0), lambda upstream: ops.take(upstream, back, axis=0)

    return permute(rows)


def _choose(rows, there, back, num_heads):
    """`rows[there]`; `back` names rows of one token too many for what was not chosen: zeros."""

    @ops.custom_gradient
    def choose(rows):
        def gradient(upstream):
            return ops.take(ops.pad(upstream, ((0, num_heads), (0, 0))), back, axis=0)

        return ops.take(rows, there, axis=0), gradient

    return choose(rows)

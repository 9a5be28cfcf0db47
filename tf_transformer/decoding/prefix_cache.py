"""The key-value cache of a single hypothesis per row: an entry for each of its tokens, in order."""

from typing import NamedTuple

import tensorflow as tf

from tf_transformer.decoding.kv_cache import CacheStep, empty_memory


class PrefixCache(NamedTuple):
    """The keys and values of all tokens so far, followed by space for later ones.

    It has the methods of a `KVCache`, which it replaces where the beam size is 1: all rows have as
    many tokens, each may attend to all before it, and nothing is ever removed.

    Attributes:
        layers: keys and values of each layer, `(2, rows, num_heads, entries, head_dim)`.
    """

    layers: list[tf.Tensor]

    @classmethod
    def empty(
        cls,
        shapes: list[tuple[int, int]],
        rows: tf.Tensor | int,
        beam_size: int,
        num_steps: int,
        dtype: str,
    ) -> "PrefixCache":
        """Returns a cache without tokens, see `KVCache.empty`."""
        return cls(
            [
                empty_memory((2, rows, num_heads, num_steps, head_dim), dtype)
                for num_heads, head_dim in shapes
            ]
        )

    def begin_step(
        self, parents: tf.Tensor, position: tf.Tensor | int
    ) -> tuple["PrefixCache", CacheStep]:
        """Prepares a step, see `KVCache.begin_step`."""
        shape = tf.shape(self.layers[0])
        heads, entries = tf.reduce_prod(shape[:3]), shape[3]
        distances = tf.range(entries) - position
        return self, CacheStep(
            beam_size=1,
            attention_mask=(distances <= 0)[tf.newaxis, tf.newaxis, tf.newaxis],
            indices=tf.range(heads) * entries + position,
            distances=distances[tf.newaxis],
            unit=1,
        )

    def begin_chain(
        self, positions: tf.Tensor, accepted: tf.Tensor, length: int
    ) -> tuple["PrefixCache", CacheStep]:
        """Prepares a step of several tokens per row, each of which continues the one before it.

        A token's entry is at its position. Entries of tokens that were not accepted are overwritten
        before any token may attend to them.

        Args:
            positions: `(rows,)` int32, position of the first of these tokens in each target.
            accepted: not used.
            length: number of tokens per row.
        """
        shape = tf.shape(self.layers[0])
        rows, heads, entries = shape[1], shape[2], shape[3]
        columns = positions[:, tf.newaxis] + tf.range(length)  # (rows, length)
        distances = tf.range(entries) - columns[:, :, tf.newaxis]
        # (2, rows, heads, length)
        first = tf.reshape(tf.range(2 * rows * heads) * entries, (2, rows, heads, 1))
        return self, CacheStep(
            beam_size=length,
            attention_mask=(distances <= 0)[:, tf.newaxis],
            indices=tf.reshape(first + columns[:, tf.newaxis], (-1,)),
            distances=distances,
            unit=1,
        )

    def select_rows(
        self,
        rows: tf.Tensor,
        alive: tf.Tensor,
        parents: tf.Tensor,
        position: tf.Tensor | int,
        num_steps: int,
    ) -> "PrefixCache":
        """Returns the cache of some rows, with space for at least one step.

        Args:
            rows: `(kept,)` int32, indices of the rows to keep.
            alive: not used.
            parents: not used.
            position: position of the next step's tokens in the target.
            num_steps: number of steps to add space for to a full cache.
        """
        added = tf.where(position < tf.shape(self.layers[0])[3], 0, num_steps)
        padding = [[0, 0]] * 3 + [[0, added], [0, 0]]
        return PrefixCache([tf.pad(tf.gather(x, rows, axis=1), padding) for x in self.layers])

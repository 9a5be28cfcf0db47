"""The key-value cache of incremental decoding, for all hypotheses of a beam.

Hypotheses of a sentence share prefixes, so reordering a beam copies nothing: every token that was
ever decoded has an entry, and a mask tells which entries belong to each hypothesis. An entry is a
key and a value. Every step writes one entry per hypothesis, `beam` in all, in place into the next
free entries. When the cache is full, the entries that no live hypothesis uses are removed and space
for more steps is added.
"""

from typing import NamedTuple

import tensorflow as tf


class CacheStep(NamedTuple):
    """The arguments of a decoding step that are the same for all layers.

    Attributes:
        beam_size: number of hypotheses per row.
        attention_mask: `(rows or 1, 1, beam, entries)` bool, True = may attend.
        indices: int32, index at which each head's entries of the step are written, in units of
            `unit` entries: `(2 * rows * num_heads * beam / unit,)`.
        distances: `(rows or 1, entries)` int32, each entry's position relative to the newest token;
            `(rows, beam, entries)` in a chain of tokens, see `PrefixCache.begin_chain`.
        unit: number of adjacent entries that are written together.
    """

    beam_size: int
    attention_mask: tf.Tensor
    indices: tf.Tensor
    distances: tf.Tensor
    unit: int

    def hide_begin(self, position: tf.Tensor) -> "CacheStep":
        """Returns the step without the entries of the first position, unless it is the newest.

        Args:
            position: `(1,)` int32, position of the newest token.
        """
        is_first = tf.equal(self.distances + position, 0) & (self.distances < 0)
        mask = self.attention_mask & ~is_first[:, tf.newaxis, tf.newaxis]
        return self._replace(attention_mask=mask)

    def write(self, layer_cache: tf.Tensor, entries: tf.Tensor) -> tf.Tensor:
        """Writes the keys and values of the step's tokens.

        A graph writes in place: `layer_cache` must not be used afterwards.

        Args:
            layer_cache: `(2, rows, num_heads, entries, head_dim)`.
            entries: `(2, rows, num_heads, beam, head_dim)`.

        Returns:
            The new `layer_cache`.
        """
        _, _, num_heads, _, head_dim = entries.shape
        flat, values = (tf.reshape(x, (-1, self.unit * head_dim)) for x in (layer_cache, entries))
        if tf.executing_eagerly():
            written = tf.tensor_scatter_nd_update(flat, self.indices[:, tf.newaxis], values)
        else:
            written = tf.raw_ops.InplaceUpdate(x=flat, i=self.indices, v=values)
        written = tf.reshape(written, tf.shape(layer_cache))
        written.set_shape((2, None, num_heads, None, head_dim))
        return written

    def read(self, layer_cache: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the keys and the values, each `(rows, num_heads, entries, head_dim)`."""
        return layer_cache[0], layer_cache[1]


class KVCache(NamedTuple):
    """The entries of all rows: those of earlier steps, followed by space for later steps.

    Each step consumes its cache: it may write into the arrays of its argument, which must not be
    used afterwards.

    Attributes:
        layers: keys and values of each layer, `(2, rows, num_heads, entries, head_dim)`, where
            `entries` is a multiple of the beam size.
        visible: `(rows, beam, entries)` bool, True at the entries that belong to a hypothesis.
        positions: `(rows, entries)` int32, position of each entry's token in the target.
        next_entry: `()` int32, index of the next step's first entry; a multiple of the beam size.
    """

    layers: list[tf.Tensor]
    visible: tf.Tensor
    positions: tf.Tensor
    next_entry: tf.Tensor

    @classmethod
    def empty(
        cls,
        shapes: list[tuple[int, int]],
        rows: tf.Tensor | int,
        beam_size: int,
        num_steps: int,
        dtype: str,
    ) -> "KVCache":
        """Returns a cache without tokens.

        Args:
            shapes: `(num_heads, head_dim)` of each layer.
            rows: number of sentences.
            beam_size: number of hypotheses per sentence.
            num_steps: number of steps to allocate space for.
            dtype: dtype of keys and values.
        """
        entries = num_steps * beam_size
        return cls(
            layers=[
                empty_memory((2, rows, num_heads, entries, head_dim), dtype)
                for num_heads, head_dim in shapes
            ],
            visible=tf.fill((rows, beam_size, entries), False),
            positions=_new_positions(rows, beam_size, 0, num_steps),
            next_entry=tf.constant(0),
        )

    def begin_step(
        self, parents: tf.Tensor, position: tf.Tensor | int
    ) -> tuple["KVCache", CacheStep]:
        """Prepares a step: every hypothesis may attend to its parent's entries and its own new one.

        The cache must have space for this step.

        Args:
            parents: `(rows, beam)`, index in the previous step of the hypothesis that each one
                extends.
            position: position of the newest tokens in the target.

        Returns:
            The new cache and the `CacheStep`.
        """
        beam_size, entries = parents.shape[1], tf.shape(self.visible)[2]
        visible = self.visible_entries(parents)
        # The entries of a step are adjacent in memory, so each head writes them as one row.
        heads = tf.reduce_prod(tf.shape(self.layers[0])[:3])
        indices = tf.range(heads) * (entries // beam_size) + self.next_entry // beam_size
        distances = self.positions - position
        step = CacheStep(beam_size, visible[:, tf.newaxis], indices, distances, unit=beam_size)
        return self._replace(visible=visible, next_entry=self.next_entry + beam_size), step

    def visible_entries(self, parents: tf.Tensor) -> tf.Tensor:
        """Returns `visible` of the next step, with the entries that it will write."""
        beam_size = parents.shape[1]
        own_entries = self.next_entry + tf.range(beam_size)  # (beam,)
        visible = tf.gather(self.visible, parents, batch_dims=1)
        visible |= tf.range(tf.shape(visible)[2]) == own_entries[:, tf.newaxis]
        visible.set_shape((None, beam_size, None))
        return visible

    def select_rows(
        self,
        rows: tf.Tensor,
        alive: tf.Tensor,
        parents: tf.Tensor,
        position: tf.Tensor | int,
        num_steps: int,
    ) -> "KVCache":
        """Returns the cache of some rows, with space for at least one step.

        A full cache is compacted, which adds space for more steps.

        Args:
            rows: `(kept,)` int32, indices of the rows to keep.
            alive: `(rows, beam)` bool, True at hypotheses that will be extended.
            parents: `(rows, beam)`, index in the previous step of the hypothesis that each one
                extends.
            position: position of the next step's tokens in the target.
            num_steps: number of steps to add space for.
        """
        kept = KVCache(
            layers=[tf.gather(layer, rows, axis=1) for layer in self.layers],
            visible=tf.gather(self.visible, rows),
            positions=tf.gather(self.positions, rows),
            next_entry=self.next_entry,
        )
        return tf.cond(
            kept.next_entry < tf.shape(kept.visible)[2],
            lambda: kept,
            lambda: _compact(
                kept, tf.gather(alive, rows), tf.gather(parents, rows), position, num_steps
            ),
        )


def _compact(
    cache: KVCache,
    alive: tf.Tensor,
    parents: tf.Tensor,
    position: tf.Tensor | int,
    num_steps: int,
) -> KVCache:
    """Removes the entries that no live hypothesis uses, and adds space for more steps.

    Args:
        cache: a full cache.
        alive: `(rows, beam)` bool, True at hypotheses that will be extended.
        parents: `(rows, beam)`, index in the previous step of the hypothesis that each one extends.
        position: position of the next step's tokens in the target.
        num_steps: number of steps to add space for.
    """
    rows, beam_size = tf.shape(alive)[0], parents.shape[1]
    needed = tf.gather(cache.visible, parents, batch_dims=1) & alive[:, :, tf.newaxis]
    needed = tf.reduce_any(needed, axis=1)  # (rows, entries)
    # As many entries as the row with the most, rounded up to a multiple of the beam size.
    width = tf.reduce_max(tf.math.count_nonzero(needed, axis=1, dtype=tf.int32))
    width = tf.minimum(-(-width // beam_size) * beam_size, tf.shape(needed)[1])
    kept = tf.argsort(tf.cast(~needed, tf.int32), axis=1, stable=True)[:, :width]
    kept_by_beam = tf.tile(kept[:, tf.newaxis], (1, beam_size, 1))
    space = num_steps * beam_size

    def keep_entries(layer):
        entries = tf.gather(layer, tf.tile(kept[tf.newaxis], (2, 1, 1)), axis=3, batch_dims=2)
        return tf.pad(entries, [[0, 0], [0, 0], [0, 0], [0, space], [0, 0]])

    visible = tf.gather(cache.visible, kept_by_beam, batch_dims=2)
    positions = tf.gather(cache.positions, kept, batch_dims=1)
    new_positions = _new_positions(rows, beam_size, position, num_steps)
    return KVCache(
        layers=[keep_entries(layer) for layer in cache.layers],
        visible=tf.pad(visible, [[0, 0], [0, 0], [0, space]]),
        positions=tf.concat([positions, new_positions], axis=1),
        next_entry=width,
    )


def _new_positions(rows, beam_size, position, num_steps):
    """Returns the positions of the next steps' entries, `(rows, num_steps * beam)`."""
    positions = position + tf.repeat(tf.range(num_steps), beam_size)
    return tf.tile(positions[tf.newaxis], (rows, 1))


def empty_memory(shape: tuple, dtype: str) -> tf.Tensor:
    """Returns zeros with separate memory; equal constants of a graph would share it."""
    return tf.raw_ops.Empty(shape=tf.stack(shape), dtype=dtype, init=True)

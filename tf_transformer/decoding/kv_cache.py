"""Keys and values of what has been decoded so far, for every hypothesis of a beam.

Hypotheses of one sentence share their beginnings, so nothing is copied when a beam is reordered:
every token that was ever read has an entry, and a mask says which entries each hypothesis descends
from. New entries are written in place, `beam` of them at every step. When the array is full,
`compact` drops the entries that no live hypothesis descends from and makes space for more steps.
"""

from typing import NamedTuple

import tensorflow as tf


class KVCache(NamedTuple):
    """The entries of all rows: first those of earlier steps, then space for the next ones.

    Each step consumes its cache: it may write into the arrays of the cache that it was given.

    Attributes:
        layers: keys and values of each layer, `(2, rows, num_heads, entries, head_dim)`; the number
            of entries is a multiple of the beam.
        visible: `(rows, beam, entries)` bool, True at the entries that a hypothesis descends from.
        positions: `(rows, entries)` int32, position in the target of each entry's token.
        next_entry: `()` int32, where the entries of the next step are written; a multiple of the
            beam.
    """

    layers: list[tf.Tensor]
    visible: tf.Tensor
    positions: tf.Tensor
    next_entry: tf.Tensor


class CacheStep(NamedTuple):
    """What every layer needs to know of a decoding step.

    Attributes:
        beam_size: hypotheses of each row.
        attention_mask: `(rows, 1, beam, entries)` bool, the entries that each hypothesis may attend
            to.
        indices: `(2 * rows * num_heads,)` int32, where each head's entries of the step are written,
            in units of `beam` entries.
        distances: `(rows, entries)` int32, position of each entry relative to the newest token.
    """

    beam_size: int
    attention_mask: tf.Tensor
    indices: tf.Tensor
    distances: tf.Tensor

    def write(self, layer_cache: tf.Tensor, entries: tf.Tensor) -> tf.Tensor:
        """Writes keys and values of the step's tokens.

        In a graph this happens in place: no other use of `layer_cache` may come after it.

        Args:
            layer_cache: `(2, rows, num_heads, entries, head_dim)`.
            entries: `(2, rows, num_heads, beam, head_dim)`.
        """
        _, _, num_heads, beam_size, head_dim = entries.shape
        flat, values = (tf.reshape(x, (-1, beam_size * head_dim)) for x in (layer_cache, entries))
        if tf.executing_eagerly():
            written = tf.tensor_scatter_nd_update(flat, self.indices[:, tf.newaxis], values)
        else:
            written = tf.raw_ops.InplaceUpdate(x=flat, i=self.indices, v=values)
        written = tf.reshape(written, tf.shape(layer_cache))
        written.set_shape((2, None, num_heads, None, head_dim))
        return written


def empty_cache(
    shapes: list[tuple[int, int]], rows: tf.Tensor, beam_size: int, num_steps: int, dtype: str
) -> KVCache:
    """A cache of no token, with space for some steps.

    Args:
        shapes: `(num_heads, head_dim)` of each layer.
        rows: sentences.
        beam_size: hypotheses of each.
        num_steps: steps that there is space for.
        dtype: of keys and values.
    """
    entries = num_steps * beam_size
    return KVCache(
        layers=[
            _empty((2, rows, num_heads, entries, head_dim), dtype) for num_heads, head_dim in shapes
        ],
        visible=tf.fill((rows, beam_size, entries), False),
        positions=_new_positions(rows, beam_size, 0, num_steps),
        next_entry=tf.constant(0),
    )


def begin_step(
    cache: KVCache, parents: tf.Tensor, position: tf.Tensor | int
) -> tuple[KVCache, CacheStep]:
    """Lets every hypothesis attend to what its parent attended to, and to its own new entry.

    Args:
        cache: with space for this step.
        parents: `(rows, beam)`, index of each hypothesis one step before.
        position: in the target, of the newest tokens.
    """
    beam_size, entries = parents.shape[1], tf.shape(cache.visible)[2]
    own_entries = cache.next_entry + tf.range(beam_size)  # (beam,)
    visible = tf.gather(cache.visible, parents, batch_dims=1)
    visible |= tf.range(entries) == own_entries[:, tf.newaxis]
    visible.set_shape((None, beam_size, None))
    # The entries of a step lie side by side and are written as one.
    heads = tf.reduce_prod(tf.shape(cache.layers[0])[:3])
    indices = tf.range(heads) * (entries // beam_size) + cache.next_entry // beam_size
    step = CacheStep(beam_size, visible[:, tf.newaxis], indices, cache.positions - position)
    return cache._replace(visible=visible, next_entry=cache.next_entry + beam_size), step


def select_rows(cache: KVCache, rows: tf.Tensor) -> KVCache:
    """The cache of some rows alone, `(kept,)` int32."""
    return KVCache(
        layers=[tf.gather(layer, rows, axis=1) for layer in cache.layers],
        visible=tf.gather(cache.visible, rows),
        positions=tf.gather(cache.positions, rows),
        next_entry=cache.next_entry,
    )


def compact(
    cache: KVCache,
    alive: tf.Tensor,
    parents: tf.Tensor,
    position: tf.Tensor | int,
    num_steps: int,
) -> KVCache:
    """Drops the entries that no live hypothesis descends from; makes space for `num_steps` steps.

    Args:
        cache: one without space.
        alive: `(rows, beam)` bool, hypotheses that will be extended.
        parents: `(rows, beam)`, index of each hypothesis one step before.
        position: in the target, of the next step's tokens.
        num_steps: see above.
    """
    rows, beam_size = tf.shape(alive)[0], parents.shape[1]
    needed = tf.gather(cache.visible, parents, batch_dims=1) & alive[:, :, tf.newaxis]
    needed = tf.reduce_any(needed, axis=1)  # (rows, entries)
    # As many as the row with most needs, rounded up to a multiple of the beam.
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
    """Positions of the entries of the next steps, `(rows, num_steps * beam)`."""
    positions = position + tf.repeat(tf.range(num_steps), beam_size)
    return tf.tile(positions[tf.newaxis], (rows, 1))


def _empty(shape, dtype):
    """Zeros that no other tensor shares, as equal constants of a graph do."""
    return tf.raw_ops.Empty(shape=tf.stack(shape), dtype=dtype, init=True)

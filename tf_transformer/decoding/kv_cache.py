"""Keys and values of what has been decoded so far, for every hypothesis of a beam.

Hypotheses of one sentence share their beginnings. So nothing is copied when a beam is reordered:
every token that was ever read has an entry, and each hypothesis knows which entries it descends
from. New entries are written in place; now and then the entries that no living hypothesis sees are
dropped.
"""

from typing import NamedTuple

import tensorflow as tf

from tf_transformer.decoding.beam_search import KEEP_EVERY

HIDDEN = -1e9  # added to the score of an entry that a hypothesis does not see


class Cache(NamedTuple):
    """Entries of all sentences; the last `KEEP_EVERY * beam` of them are filled step by step.

    Their number is a multiple of the beam.

    A cache is used up by the step that reads it, which may write into its arrays.

    Attributes:
        layers: keys and values of each layer, `(2, rows, num_heads, entries, head_dim)`.
        bias: `(rows, beam, entries)` float32, 0 at entries that a hypothesis descends from, and
            `HIDDEN` at all others.
        positions: `(rows, entries)` int32, place in the target of each entry's token.
    """

    layers: list[tf.Tensor]
    bias: tf.Tensor
    positions: tf.Tensor


class StepContext(NamedTuple):
    """What every layer needs to know of a step.

    Attributes:
        bias: `(rows, 1, beam, entries)`, added to the scores of self-attention.
        places: int32, `(2 * rows * num_heads,)`, where each head's entries of the step are written,
            counted in groups of `beam` entries.
        distances: `(rows, entries)` int32, position of each entry relative to the newest token.
    """

    bias: tf.Tensor
    places: tf.Tensor
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
            written = tf.tensor_scatter_nd_update(flat, self.places[:, tf.newaxis], values)
        else:
            written = tf.raw_ops.InplaceUpdate(x=flat, i=self.places, v=values)
        written = tf.reshape(written, tf.shape(layer_cache))
        written.set_shape((2, None, num_heads, None, head_dim))
        return written


def empty_cache(
    shapes: list[tuple[int, int]], rows: tf.Tensor, beam_size: int, dtype: str
) -> Cache:
    """A cache of no token.

    Args:
        shapes: `(num_heads, head_dim)` of each layer.
        rows: sentences.
        beam_size: hypotheses of each.
        dtype: of keys and values.
    """
    entries = KEEP_EVERY * beam_size
    return Cache(
        layers=[
            _empty((2, rows, num_heads, entries, head_dim), dtype) for num_heads, head_dim in shapes
        ],
        bias=tf.fill((rows, beam_size, entries), HIDDEN),
        positions=tf.tile(_new_positions(0, beam_size)[tf.newaxis], (rows, 1)),
    )


def begin_step(cache: Cache, parents: tf.Tensor, number: tf.Tensor) -> tuple[Cache, StepContext]:
    """Lets every hypothesis see what its parent saw, and its own entry."""
    beam_size = parents.shape[1]
    entries = tf.shape(cache.bias)[2]
    slot = entries + (number % KEEP_EVERY - KEEP_EVERY) * beam_size
    own = tf.range(entries) == (slot + tf.range(beam_size))[:, tf.newaxis]
    bias = tf.gather(cache.bias, parents, batch_dims=1)
    bias = tf.where(own, 0.0, bias)
    bias.set_shape((None, beam_size, None))
    # The entries of a step lie side by side and are written as one.
    heads = tf.reduce_prod(tf.shape(cache.layers[0])[:3])
    places = tf.range(heads) * (entries // beam_size) + slot // beam_size
    context = StepContext(bias[:, tf.newaxis], places, cache.positions - number)
    return cache._replace(bias=bias), context


def keep_hypotheses(
    cache: Cache, rows: tf.Tensor, alive: tf.Tensor, parents: tf.Tensor, number: tf.Tensor
) -> Cache:
    """The entries of some rows; where room is needed, those that a living hypothesis descends from.

    Args:
        cache: of all rows.
        rows: `(kept,)`, which rows stay.
        alive: `(rows, beam)` bool, hypotheses that go on.
        parents: `(rows, beam)`, place of each hypothesis one step before.
        number: of the next step.
    """
    cache = Cache(
        layers=[tf.gather(layer, rows, axis=1) for layer in cache.layers],
        bias=tf.gather(cache.bias, rows),
        positions=tf.gather(cache.positions, rows),
    )
    alive, parents = tf.gather(alive, rows), tf.gather(parents, rows)
    return tf.cond(
        tf.equal(number % KEEP_EVERY, 0),
        lambda: _make_room(cache, alive, parents, number),
        lambda: cache,
    )


def _make_room(cache, alive, parents, number):
    beam_size = parents.shape[1]
    seen = (tf.gather(cache.bias, parents, batch_dims=1) == 0) & alive[:, :, tf.newaxis]
    seen = tf.reduce_any(seen, axis=1)
    width = tf.reduce_max(tf.math.count_nonzero(seen, axis=1, dtype=tf.int32))
    width = tf.minimum(-(-width // beam_size) * beam_size, tf.shape(seen)[1])
    chosen = tf.argsort(tf.cast(~seen, tf.int32), axis=1, stable=True)[:, :width]
    bias = tf.gather(cache.bias, tf.tile(chosen[:, tf.newaxis], (1, beam_size, 1)), batch_dims=2)
    room = KEEP_EVERY * beam_size
    new_positions = tf.tile(_new_positions(number, beam_size)[tf.newaxis], (tf.shape(seen)[0], 1))
    positions = tf.gather(cache.positions, chosen, batch_dims=1)

    def keep_entries(layer):
        kept = tf.gather(layer, tf.tile(chosen[tf.newaxis], (2, 1, 1)), axis=3, batch_dims=2)
        return tf.pad(kept, [[0, 0], [0, 0], [0, 0], [0, room], [0, 0]])

    return Cache(
        layers=[keep_entries(layer) for layer in cache.layers],
        bias=tf.pad(bias, [[0, 0], [0, 0], [0, room]], constant_values=HIDDEN),
        positions=tf.concat([positions, new_positions], axis=1),
    )


def _new_positions(number, beam_size):
    return number + tf.repeat(tf.range(KEEP_EVERY), beam_size)


def _empty(shape, dtype):
    """Zeros that no other tensor shares, as equal constants of a graph do."""
    return tf.raw_ops.Empty(shape=tf.stack(shape), dtype=dtype, init=True)

"""The state of recurrent decoder layers in incremental decoding: one vector per hypothesis.

Unlike keys and values, a state belongs to one hypothesis alone and sums up all of its tokens. So
every step copies the states of the hypotheses that are extended, and nothing grows.
"""

from typing import NamedTuple

import tensorflow as tf


class RecurrentStep(NamedTuple):
    """The arguments of a decoding step that are the same for all layers.

    Attributes:
        beam_size: number of hypotheses per row.
        parents: `(rows, beam)` int32, index in the previous step of the hypothesis that each one
            extends.
    """

    beam_size: int
    parents: tf.Tensor

    def states_of_parents(self, layer_cache: tf.Tensor) -> tf.Tensor:
        """Returns the state that each hypothesis continues, `(rows, beam, d_model)`."""
        return tf.gather(layer_cache, self.parents, batch_dims=1)


class RecurrentCache(NamedTuple):
    """The states of all rows, with the methods of a `KVCache`.

    Attributes:
        layers: the states of each layer after the last step, `(rows, beam, d_model)` float32.
    """

    layers: list[tf.Tensor]

    @classmethod
    def empty(
        cls, num_layers: int, rows: tf.Tensor | int, beam_size: int, d_model: int
    ) -> "RecurrentCache":
        """Returns the states before the first token, c_0 = 0."""
        return cls([tf.zeros((rows, beam_size, d_model)) for _ in range(num_layers)])

    def begin_step(
        self, parents: tf.Tensor, position: tf.Tensor | int
    ) -> tuple["RecurrentCache", RecurrentStep]:
        """Prepares a step, see `KVCache.begin_step`."""
        return self, RecurrentStep(parents.shape[1], parents)

    def select_rows(
        self,
        rows: tf.Tensor,
        alive: tf.Tensor,
        parents: tf.Tensor,
        position: tf.Tensor | int,
        num_steps: int,
    ) -> "RecurrentCache":
        """Returns the states of some rows, see `KVCache.select_rows`."""
        return RecurrentCache([tf.gather(layer, rows) for layer in self.layers])

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

    def advance(self, layer_cache: tf.Tensor, factors: tf.Tensor, terms: tf.Tensor) -> tf.Tensor:
        """Computes c_t = a_t * c_(t-1) + b_t, with the state of each hypothesis' parent.

        Args:
            layer_cache: the states after the last step, `(rows, beam, d_model)`.
            factors: a, `(rows * beam, d_model)`.
            terms: b, `(rows * beam, d_model)`.

        Returns:
            c, `(rows, beam, d_model)`.
        """
        factors, terms = self._by_row(factors), self._by_row(terms)
        return factors * tf.gather(layer_cache, self.parents, batch_dims=1) + terms

    def _by_row(self, vectors):
        """Reshapes `(rows * beam, d_model)` to `(rows, beam, d_model)`."""
        return tf.reshape(vectors, (-1, self.beam_size, vectors.shape[-1]))


class ChainStep(RecurrentStep):
    """A step of several tokens per row, each of which continues the one before it.

    `parents` is `(rows,)` int32, index in the previous step of the token that the first continues.
    """

    def advance(self, layer_cache: tf.Tensor, factors: tf.Tensor, terms: tf.Tensor) -> tf.Tensor:
        """Computes the states token by token, see `RecurrentStep.advance`."""
        factors, terms = self._by_row(factors), self._by_row(terms)
        states = [tf.gather(layer_cache, self.parents, batch_dims=1)]
        for token in range(self.beam_size):
            states.append(factors[:, token] * states[-1] + terms[:, token])
        return tf.stack(states[1:], axis=1)


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

    def begin_chain(
        self, positions: tf.Tensor, accepted: tf.Tensor, length: int
    ) -> tuple["RecurrentCache", RecurrentStep]:
        """Prepares a step of several tokens per row, see `PrefixCache.begin_chain`.

        Args:
            positions: not used.
            accepted: `(rows,)` int32, index of the last token of the previous step that was
                accepted, whose state the first token continues.
            length: number of tokens per row.
        """
        return self, ChainStep(length, accepted)

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

"""Dropout with a mask of its own on every replica."""

from typing import Any

import keras
from keras import ops

from tf_transformer.layers.kernels import dropout_factors, is_tensorflow, scaled_relu


def _replica_id() -> Any:
    """Index of the `tf.distribute` replica that runs this code; 0 where there is none."""
    if not is_tensorflow():
        return 0
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    return context.replica_id_in_sync_group if context is not None else 0


@keras.saving.register_keras_serializable(package="tf_transformer")
class Dropout(keras.layers.Layer):
    """Zeroes a share of its input while training and scales the rest by `1 / (1 - rate)`.

    Differs from `keras.layers.Dropout` in two points. Under `tf.distribute`, that layer draws one
    mask for all replicas; this one mixes the replica's index into the seed. And the mask is drawn
    from 16 random bits an entry, so that the rate is rounded to a multiple of 2^-16.

    Args:
        rate: share of entries set to zero, in [0, 1).
        seed: start of the random sequence; drawn at random when None.

    Call arguments:
        inputs: tensor of any shape.
        training: True applies dropout; otherwise the input is returned unchanged.
    """

    def __init__(self, rate: float, *, seed: int | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.rate = rate
        self.seed = seed
        if rate > 0:
            self.seed_generator = keras.random.SeedGenerator(seed)
        self.built = True

    def call(self, inputs, training=None):
        if not training or self.rate == 0:
            return inputs
        if not is_tensorflow():
            return keras.random.dropout(inputs, self.rate, seed=self.seed_generator)
        return inputs * self._factors(inputs)

    def of_relu(self, inputs, training=None):
        """Of max(0, x), with less memory than of the ReLU's output."""
        if not training or self.rate == 0 or not is_tensorflow():
            return self(ops.relu(inputs), training=training)
        return scaled_relu(inputs, self._factors(inputs), 1.0 / (1.0 - self.rate))

    def _factors(self, inputs):
        seed = self.seed_generator.next()
        return dropout_factors(
            inputs, self.rate, ops.stack([seed[0], seed[1] + _spread(_replica_id(), seed.dtype)])
        )

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return super().get_config() | {"rate": self.rate, "seed": self.seed}


def _spread(replica_id: Any, dtype: Any) -> Any:
    """Offset of the seed of replica r: r * 2^24, more calls than a training has."""
    return ops.cast(replica_id, dtype) * ops.cast(1 << 24, dtype)

"""Dropout that draws a separate mask on every replica."""

from typing import Any

import keras
from keras import ops

from tf_transformer.errors import InputError
from tf_transformer.layers.kernels import dropout_factors, is_tensorflow, scaled_relu


def _replica_id() -> Any:
    """Returns the index of the current `tf.distribute` replica, or 0 outside a replica context."""
    if not is_tensorflow():
        return 0
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    return context.replica_id_in_sync_group if context is not None else 0


@keras.saving.register_keras_serializable(package="tf_transformer")
class Dropout(keras.layers.Layer):
    """Zeroes a fraction of its input in training and scales the rest by `1 / (1 - rate)`.

    Differs from `keras.layers.Dropout` in two ways. Under `tf.distribute`, the Keras layer draws
    the same mask on all replicas; this layer adds an offset per replica to the seed. And the mask
    is drawn from 16 random bits per entry, so the rate is rounded to a multiple of 2^-16.

    Args:
        rate: fraction of entries set to zero, in [0, 1).
        seed: seed of the random numbers; None draws one at random.

    Call arguments:
        inputs: tensor of any shape.
        training: True applies dropout; otherwise the input is returned unchanged.

    Returns:
        Tensor of the shape and dtype of `inputs`.

    Raises:
        InputError: `rate` is out of range.
    """

    def __init__(self, rate: float, *, seed: int | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        if not 0 <= rate < 1:
            raise InputError(f"`rate` must be at least 0 and less than 1. Received: rate={rate!r}")
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

    def relu_then_dropout(self, inputs, training=None):
        """Applies dropout to max(0, x), with less memory than the two operations in sequence."""
        if not training or self.rate == 0 or not is_tensorflow():
            return self(ops.relu(inputs), training=training)
        return scaled_relu(inputs, self._factors(inputs), 1.0 / (1.0 - self.rate))

    def _factors(self, inputs):
        seed = self.seed_generator.next()
        return dropout_factors(
            inputs,
            self.rate,
            ops.stack([seed[0], seed[1] + _seed_offset(_replica_id(), seed.dtype)]),
        )

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return super().get_config() | {"rate": self.rate, "seed": self.seed}


def _seed_offset(replica_id: Any, dtype: Any) -> Any:
    """Returns the seed offset of replica r, r * 2^24: larger than the calls of a training run."""
    return ops.cast(replica_id, dtype) * ops.cast(1 << 24, dtype)

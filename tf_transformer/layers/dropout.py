"""Dropout that draws another mask on every replica."""

from typing import Any

import keras
from keras import ops


def _replica_id() -> Any:
    """Number of the `tf.distribute` replica that runs this code; 0 where there is none."""
    if keras.backend.backend() != "tensorflow":
        return 0
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    return context.replica_id_in_sync_group if context is not None else 0


def _draw_factors(inputs: Any, rate: float, seed: Any) -> Any:
    """0 or `1 / (1 - rate)` for each entry, from half the random bits of TensorFlow's own, 16.

    So the rate is rounded to 65,536ths.
    """
    import tensorflow as tf

    dropped = min(round(rate * 2**16), 2**16 - 1)
    size = tf.size(inputs)
    bits = tf.random.stateless_uniform(
        [(size + 1) // 2], tf.cast(seed, tf.int32), minval=None, maxval=None, dtype=tf.int32
    )
    bits = tf.reshape(tf.bitcast(bits, tf.uint16), [-1])[:size]
    kept = tf.reshape(bits, tf.shape(inputs)) >= tf.constant(dropped, tf.uint16)
    scale = tf.constant(1.0 / (1.0 - rate), inputs.dtype)
    return tf.where(kept, scale, tf.zeros([], inputs.dtype))


def _scaled_relu(inputs: Any, factors: Any, scale: float) -> Any:
    """`max(0, inputs) * factors`, of factors that are 0 or `scale`.

    The gradient passes where the output is above 0: no other array is kept for it.
    """
    import tensorflow as tf

    @tf.custom_gradient
    def scaled_relu(inputs):
        outputs = tf.nn.relu(inputs) * factors

        def gradient(upstream):
            return scale * tf.raw_ops.ReluGrad(gradients=upstream, features=outputs)

        return outputs, gradient

    return scaled_relu(inputs)


@keras.saving.register_keras_serializable(package="tf_transformer")
class Dropout(keras.layers.Layer):
    """Zeroes a share of its input while training and scales the rest by `1 / (1 - rate)`.

    Differs from `keras.layers.Dropout` in one point: under `tf.distribute`, that layer draws one
    mask for all replicas, this one mixes the replica's number into the seed.

    Args:
        rate: share of entries set to zero, in [0, 1).
        seed: start of the random sequence; drawn at random when None.

    Call arguments:
        inputs: tensor of any shape.
        training: True applies dropout, anything else returns the input as it is.
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
        if keras.backend.backend() != "tensorflow":
            return keras.random.dropout(inputs, self.rate, seed=self.seed_generator)
        return inputs * self._factors(inputs)

    def of_relu(self, inputs, training=None):
        """Of max(0, x), with less memory than of the ReLU's output."""
        if not training or self.rate == 0 or keras.backend.backend() != "tensorflow":
            return self(ops.relu(inputs), training=training)
        return _scaled_relu(inputs, self._factors(inputs), 1.0 / (1.0 - self.rate))

    def _factors(self, inputs):
        seed = self.seed_generator.next()
        return _draw_factors(
            inputs, self.rate, ops.stack([seed[0], seed[1] + _spread(_replica_id(), seed.dtype)])
        )

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return super().get_config() | {"rate": self.rate, "seed": self.seed}


def _spread(replica_id: Any, dtype: Any) -> Any:
    """Moves replica r far away (r * 2^24 calls) in the sequence of seeds."""
    return ops.cast(replica_id, dtype) * ops.cast(1 << 24, dtype)

"""Token embedding, and its transpose as the projection to logits."""

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from tf_transformer.errors import InputError
from tf_transformer.private_interfaces import tracker_unlocked


@keras.saving.register_keras_serializable(package="tf_transformer")
class TokenEmbedding(keras.layers.Layer):
    """Looks up token vectors and multiplies them by sqrt(d_model)   (section 3.4).

    The matrix starts from a normal distribution of variance 1 / d_model, as in the paper's own
    code, so that scaled vectors and positions are of one size. Xavier-uniform, as in the Annotated
    Transformer, is several times smaller and learned more slowly here. Look-up and logits are
    float32 under every dtype policy.

    Args:
        vocab_size: number of token ids.
        d_model: width of the vectors.

    Call arguments:
        ids: `(batch, length)` integers, from 0 to `vocab_size - 1`.

    Returns:
        `(batch, length, d_model)` float32.

    Raises:
        tf.errors.InvalidArgumentError: an id is out of range; on the CPU, without XLA. Elsewhere,
            and on other backends, nobody looks: a GPU takes zeros there.

    Attributes:
        product: computes the logits in place of the table, or None.
    """

    product: Callable[[Any], Any] | None = None

    def __init__(self, *, vocab_size: int, d_model: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.d_model = d_model

    def build(self, ids_shape=None):
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.vocab_size, self.d_model),
            initializer=keras.initializers.RandomNormal(stddev=self.d_model**-0.5),
            dtype="float32",
            autocast=False,
        )
        self.built = True

    def set_vectors(self, vectors):
        """Starts from given vectors.

        Args:
            vectors: `(vocab_size, d_model)`; rows of NaN leave their token as it is.

        Raises:
            ValueError: the shape is another.
        """
        vectors = np.asarray(vectors, "float32")
        expected = (self.vocab_size, self.d_model)
        if vectors.shape != expected:
            raise InputError(f"Expected vectors of shape {expected}. Received: {vectors.shape}")
        own = ops.convert_to_numpy(self.embeddings)
        self.embeddings.assign(np.where(np.isnan(vectors), own, vectors))

    def set_product(self, product: Callable[[Any], Any]) -> None:
        """Computes the logits with `product`, `(..., d_model)` to `(..., vocab_size)`."""
        with tracker_unlocked(self):
            self.product = product

    def call(self, ids):
        return _rows(self.embeddings, ids) * math.sqrt(self.d_model)

    def compute_output_shape(self, ids_shape):
        return (*ids_shape, self.d_model)

    def compute_output_spec(self, ids):
        return keras.KerasTensor(self.compute_output_shape(ids.shape), "float32")

    def logits(self, hidden):
        """`hidden E^T`: `(..., d_model)` to `(..., vocab_size)` float32."""
        if self.product is not None:
            return self.product(hidden)
        return ops.matmul(ops.cast(hidden, "float32"), ops.transpose(self.embeddings))

    def get_config(self):
        return super().get_config() | {"vocab_size": self.vocab_size, "d_model": self.d_model}


def _rows(table, ids):
    """Rows of a table; `ops.take` would count negative ids from its end."""
    if keras.backend.backend() != "tensorflow":
        return ops.take(table, ids, axis=0)
    import tensorflow as tf

    return tf.gather(ops.convert_to_tensor(table), ids)

"""Token embedding, whose transpose can project to logits."""

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from tf_transformer.errors import InputError
from tf_transformer.layers.kernels import look_up, times_transposed
from tf_transformer.private_interfaces import remove_weights, tracker_unlocked


@keras.saving.register_keras_serializable(package="tf_transformer")
class TokenEmbedding(keras.layers.Layer):
    """Looks up token vectors and multiplies them by sqrt(d_model)   (section 3.4).

    The matrix is initialized from a normal distribution of variance 1 / d_model, as in the paper's
    own code, so that scaled token vectors and position vectors have similar magnitudes.
    Xavier-uniform, as in the Annotated Transformer, is several times smaller and trained more
    slowly here. Look-up and logits are float32 under every dtype policy.

    Args:
        vocab_size: number of token ids.
        d_model: width of the vectors.
        scaled: False leaves out the factor sqrt(d_model).

    Call arguments:
        ids: `(batch, length)` integers, from 0 to `vocab_size - 1`.

    Returns:
        `(batch, length, d_model)` float32.

    Raises:
        InputError: the ids are no integers; not checked within a `tf.function`.
        tf.errors.InvalidArgumentError: an id is out of range, with TensorFlow on the CPU and
            without XLA. Ids are not checked elsewhere; a GPU returns zeros for them.

    Attributes:
        product: function that computes the logits instead of the embedding matrix, or None.
        table: layer that computes logits and looks up instead of the embedding matrix (see
            `replace_table`), or None.
    """

    product: Callable[[Any], Any] | None = None
    table: Any = None

    def __init__(self, *, vocab_size: int, d_model: int, scaled: bool = True, **kwargs: Any):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.d_model = d_model
        self.scaled = scaled

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
        """Assigns pretrained vectors.

        Args:
            vectors: `(vocab_size, d_model)`; tokens whose row is NaN keep their vector.

        Raises:
            InputError: the shape is wrong.
        """
        vectors = np.asarray(vectors, "float32")
        expected = (self.vocab_size, self.d_model)
        if vectors.shape != expected:
            raise InputError(f"Expected vectors of shape {expected}. Received: {vectors.shape}")
        current = ops.convert_to_numpy(self.embeddings)
        self.embeddings.assign(np.where(np.isnan(vectors), current, vectors))

    def set_product(self, product: Callable[[Any], Any]) -> None:
        """Replaces the computation of the logits; the embedding matrix stays.

        Args:
            product: function from `(..., d_model)` to `(..., vocab_size)`.
        """
        with tracker_unlocked(self):
            self.product = product

    def replace_table(self, table: Any) -> None:
        """Replaces and removes the embedding matrix, permanently.

        Args:
            table: layer from `(..., d_model)` to logits, `(..., vocab_size)`, with a method
                `look_up` of ids and a factor that returns multiplied token vectors.
        """
        remove_weights(self, ["embeddings"])
        with tracker_unlocked(self):
            self.table = table

    def call(self, ids):
        _check_dtype(ids)
        factor = math.sqrt(self.d_model) if self.scaled else 1.0
        if self.table is not None:
            return self.table.look_up(ids, factor)
        vectors = look_up(self.embeddings, ids)
        return vectors * factor if self.scaled else vectors

    def compute_output_shape(self, ids_shape):
        return (*ids_shape, self.d_model)

    def compute_output_spec(self, ids):
        _check_dtype(ids)
        return keras.KerasTensor(self.compute_output_shape(ids.shape), "float32")

    def logits(self, hidden):
        """Returns `hidden E^T`: `(..., d_model)` to `(..., vocab_size)` float32."""
        return self.own_product(hidden) if self.product is None else self.product(hidden)

    def own_product(self, hidden: Any) -> Any:
        """Computes `logits` from the layer's weights, as if `product` were None."""
        if self.table is not None:
            return self.table(hidden)
        return times_transposed(ops.cast(hidden, "float32"), self.embeddings)

    def get_config(self):
        return super().get_config() | {
            "vocab_size": self.vocab_size,
            "d_model": self.d_model,
            "scaled": self.scaled,
        }


def _check_dtype(ids):
    if hasattr(ids, "graph"):  # Keras traces the models that it exports with ids in float32
        return
    if (dtype := keras.backend.standardize_dtype(ids.dtype)) not in ("int16", "int32", "int64"):
        raise InputError(f"ids must be integers, such as int32. Received: {dtype}")

"""Positional encodings: sinusoidal, learned, and relative."""

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from tf_transformer.config_checks import Positions, check_choice
from tf_transformer.errors import InputError
from tf_transformer.layers.kernels import look_up, take_columns
from tf_transformer.private_interfaces import tracker_unlocked


def sinusoidal_positions(positions, d_model: int, layout: str = "interleaved"):
    """Computes sinusoidal position vectors ("Attention Is All You Need", 3.5), in float32.

    For i = 0 ... d_model / 2 - 1, at position pos:

    "interleaved", the paper:
        PE(pos, 2i)               = sin(pos / 10000^(2i / d_model))
        PE(pos, 2i + 1)           = cos(pos / 10000^(2i / d_model))
    "concatenated", NiuTensor and Tensor2Tensor, whose slowest rate is exactly 1 / 10000:
        PE(pos, i)                = sin(pos / 10000^(2i / (d_model - 2)))
        PE(pos, d_model / 2 + i)  = cos(pos / 10000^(2i / (d_model - 2)))
    "marian", Hugging Face's MarianMTModel: concatenated, with the rates of the paper.

    Args:
        positions: `(length,)`, counted from 0.
        d_model: width of the encoding, even.
        layout: "interleaved", "concatenated" or "marian".

    Returns:
        `(length, d_model)` float32.
    """
    positions = ops.cast(positions, "float32")
    exponents = ops.arange(0, d_model, 2, dtype="float32")
    # At d_model = 2 the only exponent is 0; `max` avoids a division by 0.
    divisors = {"interleaved": d_model, "concatenated": max(d_model - 2, 1), "marian": d_model}
    rates = ops.exp(exponents * (-math.log(10000.0) / divisors[layout]))
    angles = positions[:, None] * rates[None, :]
    sines_and_cosines = [ops.sin(angles), ops.cos(angles)]
    if layout != "interleaved":
        return ops.concatenate(sines_and_cosines, axis=-1)
    # (length, d_model / 2, 2) -> (length, d_model): each sine is followed by its cosine.
    return ops.reshape(ops.stack(sines_and_cosines, axis=-1), (-1, d_model))


@keras.saving.register_keras_serializable(package="tf_transformer")
class PositionalEncoding(keras.layers.Layer):
    """Returns the position vectors that are added to the token vectors.

    Learned vectors are initialized from a normal distribution of variance 1 / d_model.

    Args:
        kind: a layout of `sinusoidal_positions`, or "learned" for one learned vector per position.
        d_model: width of the vectors.
        max_length: number of learned positions.
        first_position: position of the first token in the sinusoids, 0 in the paper; must be 0
            with learned vectors.

    Call arguments:
        positions: `(length,)` integers, counted from 0; below `max_length` with learned vectors.

    Returns:
        `(length, d_model)` float32.

    Attributes:
        table: the sinusoids of the positions up to `max_length`, or None, see `tabulate`.

    Raises:
        InputError: there are more positions than learned vectors; when constructed, if `d_model` is
            odd with sinusoids, or `first_position` is not 0 without.
    """

    table: Any = None

    def __init__(
        self, *, kind: str, d_model: int, max_length: int, first_position: int = 0, **kwargs: Any
    ):
        super().__init__(**kwargs)
        check_choice("kind", kind, Positions)
        if kind != "learned" and d_model % 2:
            raise InputError(f"`d_model` must be even for sinusoids. Received: d_model={d_model}")
        if kind == "learned" and first_position:
            raise InputError(
                "`first_position` must be 0 for learned positions. "
                f"Received: first_position={first_position}"
            )
        self.kind = kind
        self.d_model = d_model
        self.max_length = max_length
        self.first_position = first_position

    def build(self, positions_shape=None):
        if self.kind == "learned":
            self.vectors = self.add_weight(
                name="vectors",
                shape=(self.max_length, self.d_model),
                initializer=keras.initializers.RandomNormal(stddev=self.d_model**-0.5),
                dtype="float32",
                autocast=False,
            )
        self.built = True

    def tabulate(self) -> None:
        """Looks the sinusoids of single positions up from now on; they are at most `max_length`.

        A step of decoding computes them by thirteen operations.
        """
        if self.kind == "learned" or self.table is not None:
            return
        table = self.call(ops.arange(self.max_length + 1, dtype="int32"))
        with tracker_unlocked(self):
            self.table = self.add_weight(
                name="table",
                shape=table.shape,
                initializer="zeros",
                dtype="float32",
                autocast=False,
                trainable=False,
            )
        self.table.assign(table)

    def call(self, positions):
        if self.table is not None and positions.shape[0] == 1:
            return look_up(self.table, positions)
        if self.kind != "learned":
            return sinusoidal_positions(positions + self.first_position, self.d_model, self.kind)
        if (positions.shape[0] or 0) > self.max_length:
            raise InputError(
                f"A sequence must have at most max_length={self.max_length} positions, since the "
                f"model learns one vector per position. Received: {positions.shape[0]} positions"
            )
        return look_up(self.vectors, positions)

    def compute_output_shape(self, positions_shape):
        return (*positions_shape, self.d_model)

    def compute_output_spec(self, positions):
        return keras.KerasTensor(self.compute_output_shape(positions.shape), "float32")

    def get_config(self):
        return super().get_config() | {
            "kind": self.kind,
            "d_model": self.d_model,
            "max_length": self.max_length,
            "first_position": self.first_position,
        }


@keras.saving.register_keras_serializable(package="tf_transformer")
class RelativePositions(keras.layers.Layer):
    """One learned vector per distance from query to key   (Shaw et al., 2018, section 3.2).

    a_ij = w_clip(j - i, k), the same for all heads, with k = max_distance.

    Args:
        max_distance: k; keys that are further away use the vector of this distance.
        head_dim: width of the vectors.

    Call arguments:
        query_positions: `(query_length,)` integers.
        key_positions: `(key_length,)` integers.

    Returns:
        `(query_length, key_length, head_dim)`.
    """

    def __init__(self, *, max_distance: int, head_dim: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.max_distance = max_distance
        self.head_dim = head_dim

    def build(self, query_positions_shape=None, key_positions_shape=None):
        self.vectors = self.add_weight(
            name="vectors",
            shape=(2 * self.max_distance + 1, self.head_dim),
            initializer="glorot_uniform",
        )
        self.built = True

    def call(self, query_positions, key_positions):
        return self.vectors_at(key_positions[None, :] - query_positions[:, None])

    def vectors_at(self, distances):
        """Returns the vectors of distances, key minus query: `(...)` to `(..., head_dim)`."""
        vectors = ops.cast(self.vectors, self.compute_dtype)
        return ops.take(vectors, self._indices(distances), axis=0)

    def products_at(self, query, distances):
        """Computes q_i a_ij for the queries of a decoding step.

        There are fewer vectors than keys times rows, so that this is cheaper than by `vectors_at`.

        Args:
            query: q, `(rows, heads, beam, head_dim)`.
            distances: `(rows or 1, keys)`, position of each key relative to the queries of a row,
                which are all at the same position; or `(rows, beam, keys)`, relative to each query.

        Returns:
            `(rows, heads, beam, keys)`.
        """
        vectors = ops.transpose(ops.cast(self.vectors, query.dtype))
        products = ops.matmul(ops.reshape(query, (-1, self.head_dim)), vectors)
        products = ops.reshape(products, (*ops.shape(query)[:3], vectors.shape[1]))
        return take_columns(products, self._indices(distances))

    def _indices(self, distances):
        return ops.clip(distances, -self.max_distance, self.max_distance) + self.max_distance

    def compute_output_shape(self, query_positions_shape, key_positions_shape):
        return (*query_positions_shape, *key_positions_shape, self.head_dim)

    def get_config(self):
        return super().get_config() | {
            "max_distance": self.max_distance,
            "head_dim": self.head_dim,
        }


@keras.saving.register_keras_serializable(package="tf_transformer")
class RelativeBias(keras.layers.Layer):
    """A bias of each head for each range of distances   (Raffel et al., 2020, section 2.1).

    The scores become Q K^T / sqrt(d_k) + b_head,bucket(j - i), with one b for all layers of a
    stack. Deviation: T5 does not divide by sqrt(d_k). An imported W^Q is multiplied by it.

    There are n buckets, with `is_bidirectional` n / 2 for each direction. The first half are the
    distances 0, 1, 2, ...; the others are ranges of logarithmic width up to `max_distance`, and the
    last one has all larger distances. Without `is_bidirectional`, later keys have the distance 0.

    Args:
        num_heads: number of heads.
        num_buckets: n, at least 4; halves are rounded down.
        max_distance: the distance with which the last bucket begins; more than n / 2.
        is_bidirectional: whether earlier and later keys have different buckets, as in an encoder.

    Call arguments:
        query_positions: `(query_length,)` integers.
        key_positions: `(key_length,)` integers.

    Returns:
        `(1, num_heads, query_length, key_length)` float32.
    """

    def __init__(
        self,
        *,
        num_heads: int,
        num_buckets: int,
        max_distance: int,
        is_bidirectional: bool = True,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.num_buckets = num_buckets
        self.max_distance = max_distance
        self.is_bidirectional = is_bidirectional

    def build(self, query_positions_shape=None, key_positions_shape=None):
        self.biases = self.add_weight(
            name="biases",
            shape=(self.num_buckets, self.num_heads),
            initializer="zeros",
            dtype="float32",
            autocast=False,
        )
        self.built = True

    def call(self, query_positions, key_positions):
        return self.at(key_positions[None, None, :] - query_positions[None, :, None])

    def at(self, distances):
        """Returns the biases of distances, the position of a key minus that of its query.

        Args:
            distances: `(rows, query_length, key_length)` integers, or `(rows, key_length)` for one
                query.

        Returns:
            `(rows, num_heads, query_length, key_length)` float32.
        """
        if len(distances.shape) == 2:
            distances = distances[:, None]
        limit = self.max_distance
        by_distance = look_up(self.biases, self._buckets(np.arange(-limit, limit + 1)))
        biases = look_up(by_distance, ops.clip(distances, -limit, limit) + limit)
        return ops.transpose(biases, (0, 3, 1, 2))

    def _buckets(self, distances: np.ndarray) -> np.ndarray:
        """Returns the bucket of each distance, int32."""
        number = self.num_buckets // 2 if self.is_bidirectional else self.num_buckets
        size = np.abs(distances) if self.is_bidirectional else np.maximum(-distances, 0)
        exact = number // 2
        # Rounded to float32 as in T5: some ranges begin at a distance whose logarithm is a tie.
        logarithm = np.log(np.maximum(size, 1) / exact).astype("float32")
        share = logarithm / np.float32(math.log(self.max_distance / exact))
        ranges = exact + (share * np.float32(number - exact)).astype("int32")
        buckets = np.where(size < exact, size, np.minimum(ranges, number - 1))
        return (buckets + number * (self.is_bidirectional & (distances > 0))).astype("int32")

    def compute_output_shape(self, query_positions_shape, key_positions_shape):
        return (1, self.num_heads, *query_positions_shape, *key_positions_shape)

    def get_config(self):
        return super().get_config() | {
            "num_heads": self.num_heads,
            "num_buckets": self.num_buckets,
            "max_distance": self.max_distance,
            "is_bidirectional": self.is_bidirectional,
        }

"""Positional encoding ("Attention Is All You Need", 3.5)."""

import math

from keras import ops


def sinusoidal_positions(positions, d_model: int):
    """Interleaved sinusoids, computed in float32.

    PE(pos, 2i)   = sin(pos / 10000^(2i / d_model))
    PE(pos, 2i+1) = cos(pos / 10000^(2i / d_model))

    Args:
        positions: `(length,)`, counted from 0.
        d_model: width of the encoding, even.

    Returns:
        `(length, d_model)` float32.
    """
    positions = ops.cast(positions, "float32")
    rates = ops.exp(ops.arange(0, d_model, 2, dtype="float32") * (-math.log(10000.0) / d_model))
    angles = positions[:, None] * rates[None, :]
    # (length, d_model / 2, 2) -> (length, d_model): sine and cosine of one rate side by side.
    pairs = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)
    return ops.reshape(pairs, (-1, d_model))

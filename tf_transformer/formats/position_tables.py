"""Tables of sinusoids, which other toolkits store with the weights: computed and recognized."""

import itertools
from typing import NamedTuple

import numpy as np

from tf_transformer.config_checks import Positions

SINUSOIDS: tuple[Positions, ...] = ("marian", "interleaved", "concatenated")
_FIRST_POSITIONS = (0, 1, 2)
# Tables in float16 differ by this much.
_TOLERANCE = 2e-3


class Layout(NamedTuple):
    """Two settings of `TransformerConfig`."""

    positions: Positions
    first_position: int = 0


def sinusoid_table(layout: Layout, length: int, d_model: int) -> np.ndarray:
    """Returns `sinusoidal_positions` without Keras.

    Args:
        layout: one of `SINUSOIDS`, and the first position.
        length: number of positions.
        d_model: width of the encoding, even.

    Returns:
        `(length, d_model)` float32.
    """
    divisor = max(d_model - 2, 1) if layout.positions == "concatenated" else d_model
    positions = np.arange(layout.first_position, layout.first_position + length)
    angles = positions[:, None] / 10000.0 ** (np.arange(0, d_model, 2) / divisor)
    parts = [np.sin(angles), np.cos(angles)]
    if layout.positions != "interleaved":
        return np.concatenate(parts, axis=1).astype("float32")
    return np.stack(parts, axis=2).reshape(length, d_model).astype("float32")


def recognize_sinusoids(table: np.ndarray) -> Layout | None:
    """Returns the layout of a table, `(length, d_model)`; None if it is no table of sinusoids."""
    if table.shape[1] % 2:
        return None
    for layout in itertools.starmap(Layout, itertools.product(SINUSOIDS, _FIRST_POSITIONS)):
        if np.allclose(table, sinusoid_table(layout, *table.shape), atol=_TOLERANCE):
            return layout
    return None

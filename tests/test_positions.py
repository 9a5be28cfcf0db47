"""Sinusoids against the formula, a number at a time."""

import keras
import numpy as np
import pytest

from tests.numpy_reference import sinusoids
from tf_transformer.positions import sinusoidal_positions


@pytest.fixture(autouse=True)
def seed():
    keras.utils.set_random_seed(1)


@pytest.mark.parametrize("d_model", [2, 6, 8, 32])
def test_formula(d_model):
    computed = sinusoidal_positions(np.arange(20), d_model)
    assert computed.shape == (20, d_model)
    assert keras.backend.standardize_dtype(computed.dtype) == "float32"
    np.testing.assert_allclose(computed, sinusoids(range(20), d_model), atol=1e-5)


def test_late_positions_keep_float32_precision():
    """An angle of n radians is rounded to about n / 10^7, whatever the width."""
    positions = np.array([100, 255, 1000, 5000])
    computed = sinusoidal_positions(positions, 16)
    np.testing.assert_allclose(computed, sinusoids(positions, 16), atol=2e-3)
    np.testing.assert_allclose(computed[:2], sinusoids(positions[:2], 16), atol=1e-4)


def test_any_positions_in_any_order():
    """Decoding asks for single positions: each row depends on its own position alone."""
    table = np.asarray(sinusoidal_positions(np.arange(9), 8))
    picked = sinusoidal_positions(np.array([7, 0, 3]), 8)
    np.testing.assert_array_equal(picked, table[[7, 0, 3]])


def test_position_zero():
    np.testing.assert_array_equal(sinusoidal_positions(np.array([0]), 6), [[0, 1, 0, 1, 0, 1]])

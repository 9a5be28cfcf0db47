"""Sinusoids against the formula, a number at a time."""

import keras
import numpy as np
import pytest

from tests.numpy_reference import sinusoids
from tests.tf_transformer.models.variant_reference import sinusoid
from tf_transformer.layers.positions import (
    PositionalEncoding,
    RelativePositions,
    sinusoidal_positions,
)


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


@pytest.mark.parametrize("d_model", [2, 4, 10])
@pytest.mark.parametrize(("layout", "shorter"), [("concatenated", 2), ("marian", 0)])
def test_concatenated_layouts(layout, shorter, d_model):
    computed = sinusoidal_positions(np.arange(20), d_model, layout)
    for position in range(20):
        for i in range(d_model // 2):
            angle = position / 10000 ** (2 * i / max(d_model - shorter, 1))
            assert abs(float(computed[position, i]) - np.sin(angle)) < 1e-5
            assert abs(float(computed[position, d_model // 2 + i]) - np.cos(angle)) < 1e-5


@pytest.mark.parametrize("kind", ["interleaved", "concatenated", "marian"])
def test_first_position(kind):
    encoding = PositionalEncoding(kind=kind, d_model=8, max_length=9, first_position=2)
    for positions in (range(7), [5], [3, 0]):
        expected = [sinusoid(kind, position + 2, 8) for position in positions]
        np.testing.assert_allclose(encoding(np.array(positions)), expected, atol=1e-6)


def test_learned_positions_start_at_0():
    message = "`first_position` must be 0 for learned positions. Received: first_position=2"
    with pytest.raises(ValueError, match=message):
        PositionalEncoding(kind="learned", d_model=8, max_length=9, first_position=2)


def rotation(shift, d_model, divisor):
    """The matrix that turns every pair (sine, cosine) by `shift` times its rate."""
    matrix = np.zeros((d_model, d_model))
    for i in range(d_model // 2):
        angle = shift / 10000 ** (2 * i / divisor)
        place = slice(2 * i, 2 * i + 2)
        matrix[place, place] = [
            [np.cos(angle), np.sin(angle)],
            [-np.sin(angle), np.cos(angle)],
        ]
    return matrix


@pytest.mark.parametrize("shift", [1, 7, 50])
def test_a_shift_is_a_linear_map(shift):
    """PE(pos + k) = M_k PE(pos), with one matrix for all positions (the paper, section 3.5)."""
    table = np.asarray(sinusoidal_positions(np.arange(200), 16), "float64")
    mapped = table[:150] @ rotation(shift, 16, 16).T
    np.testing.assert_allclose(mapped, table[shift : 150 + shift], atol=1e-4)


def test_dot_products_depend_on_the_distance_alone():
    table = np.asarray(sinusoidal_positions(np.arange(100), 32), "float64")
    products = table @ table.T
    for distance in (0, 1, 10, 40):
        diagonal = np.diagonal(products, distance)
        np.testing.assert_allclose(diagonal, diagonal[0], atol=1e-3)


def test_learned_positions():
    encoding = PositionalEncoding(kind="learned", d_model=4, max_length=6)
    encoding.build()
    np.testing.assert_array_equal(encoding(np.array([5, 0])), np.asarray(encoding.vectors)[[5, 0]])
    message = "at most max_length=6 positions, .*Received: 7 positions"
    with pytest.raises(ValueError, match=message):
        encoding(np.arange(7))


def test_relative_positions_are_clipped():
    layer = RelativePositions(max_distance=2, head_dim=3)
    layer.build()
    vectors = np.asarray(layer.vectors)
    computed = layer(np.arange(5), np.arange(5))
    for query in range(5):
        for key in range(5):
            distance = max(-2, min(2, key - query))
            np.testing.assert_array_equal(computed[query, key], vectors[distance + 2])


@pytest.mark.parametrize("kind", ["interleaved", "concatenated", "marian", "learned"])
def test_tabulated_positions_are_the_same(kind):
    layer = PositionalEncoding(kind=kind, d_model=8, max_length=20)
    layer.build((None,))
    expected = np.asarray(layer(np.arange(20)))
    layer.tabulate()
    layer.tabulate()
    assert len(layer.weights) == 1
    np.testing.assert_array_equal(layer(np.arange(20)), expected)
    for position in (0, 3, 19):
        found = np.asarray(layer(np.array([position])))
        np.testing.assert_allclose(found, expected[position : position + 1], rtol=0, atol=1e-6)

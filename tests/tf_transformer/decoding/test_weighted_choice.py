"""Draws with weights, compared with a cumulative sum in float64."""

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.decoding.weighted_choice import weighted_choice


def chosen(weights, share):
    columns = weighted_choice(tf.constant(weights, tf.float32), tf.constant(share, tf.float32))
    return tuple(column.numpy() for column in columns)


@pytest.mark.parametrize("entries", [1, 5, 127, 128, 129, 300, 4000])
def test_equals_a_cumulative_sum(entries):
    """Whole weights, whose sums are exact."""
    random = np.random.default_rng(entries)
    weights = random.integers(0, 4, (500, entries)) * (random.random((500, entries)) < 0.3)
    weights[np.arange(500), random.integers(0, entries, 500)] += 1
    total = weights.sum(axis=1)
    # Between two whole numbers, so that rounding makes no difference.
    position = random.integers(0, total) + 0.5
    indices, found = chosen(weights, position / total)
    assert found.all()
    expected = np.argmax(weights.cumsum(axis=1) > position[:, None], axis=1)
    np.testing.assert_array_equal(indices, expected)


def test_zero_weights_are_never_chosen():
    random = np.random.default_rng(1)
    weights = random.random((2000, 700)) * (random.random((2000, 700)) < 0.01)
    shares = np.where(np.arange(2000) % 2, 0.0, np.nextafter(np.float32(1), np.float32(0)))
    indices, found = chosen(weights, shares)
    rows = np.flatnonzero(found)
    assert len(rows) > 1900
    assert (weights[rows, indices[rows]] > 0).all()


@pytest.mark.slow
def test_shares_of_many_draws():
    random = np.random.default_rng(2)
    weights = random.random(300) ** 4
    indices, found = chosen(np.tile(weights, (50_000, 1)), random.random(50_000))
    assert found.all()
    shares = np.bincount(indices, minlength=300) / 50_000
    np.testing.assert_allclose(shares, weights / weights.sum(), atol=0.0015)


@pytest.mark.parametrize("entries", [5, 128, 300])
def test_without_weights_there_is_none(entries):
    indices, found = chosen(np.zeros((2, entries)), [0.0, 0.5])
    np.testing.assert_array_equal(indices, 0)
    assert not found.any()


def test_rows_are_apart():
    random = np.random.default_rng(3)
    weights, shares = random.random((40, 1000)), random.random(40)
    together = chosen(weights, shares)
    for row in range(0, 40, 7):
        alone = chosen(weights[row : row + 1], shares[row : row + 1])
        assert [column[0] for column in alone] == [column[row] for column in together]

"""Disjoint ranges with the largest sum, compared with all ranges that there are."""

import itertools
import random

import numpy as np
import pytest

from export.markup.ordered_ranges import ranges_in_order


def all_choices(num_words, counts, needs):
    """All lists of ranges that follow each other and have what they need."""
    for bounds in itertools.combinations_with_replacement(range(num_words + 1), 2 * len(needs)):
        ranges = list(itertools.pairwise(bounds))[::2]
        numbers = [count[a:b].sum() for count, (a, b) in zip(counts, ranges, strict=True)]
        if all(number >= need for number, need in zip(numbers, needs, strict=True)):
            yield ranges


def total(gains, ranges):
    return sum(gain[a:b].sum() for gain, (a, b) in zip(gains, ranges, strict=True))


@pytest.mark.slow
def test_largest_of_all():
    rng, num_possible = random.Random(1), 0
    for _ in range(400):
        num_ranges, num_words = rng.randint(1, 3), rng.randint(0, 6)
        gains = [
            np.array([rng.uniform(-1, 1) for _ in range(num_words)]) for _ in range(num_ranges)
        ]
        counts = [np.array([rng.random() < 0.7 for _ in range(num_words)], bool) for _ in gains]
        needs = [rng.randint(0, 2) for _ in gains]
        found = ranges_in_order(gains, counts, needs)
        choices = list(all_choices(num_words, counts, needs))
        if not choices:
            assert found is None
            continue
        num_possible += 1
        assert found in choices
        best = max(total(gains, ranges) for ranges in choices)
        np.testing.assert_allclose(total(gains, found), best, atol=1e-12)
    assert 100 < num_possible < 350


def test_no_ranges():
    assert ranges_in_order([], [], []) == []

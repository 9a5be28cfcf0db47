"""Length buckets: every length has one, and its batches fit the token budget."""

import bisect
import inspect
import itertools

from hypothesis import given
from hypothesis import strategies as st

from training.data.bucketing import bucket_batch_sizes, bucket_boundaries

LENGTHS = st.integers(1, 2000)
BUDGETS = st.integers(1, 100_000)


@given(LENGTHS)
def test_boundaries_increase_up_to_the_longest_length(max_length):
    boundaries = bucket_boundaries(max_length)
    assert boundaries == sorted(set(boundaries))
    assert boundaries[0] >= 2
    assert boundaries[-1] == max_length + 1


@given(LENGTHS, st.integers(2, 50), st.floats(1.0, 3.0))
def test_boundaries_increase_for_any_growth(max_length, first, growth):
    boundaries = bucket_boundaries(max_length, first=first, growth=growth)
    assert boundaries == sorted(set(boundaries))
    assert boundaries[0] == min(first, max_length + 1)
    assert boundaries[-1] == max_length + 1


@given(LENGTHS)
def test_buckets_are_narrow(max_length):
    # The shortest length of a bucket is at least 1 / 1.15 of its longest, but for rounding.
    boundaries = bucket_boundaries(max_length)
    for lower, upper in itertools.pairwise(boundaries):
        assert upper <= lower * 1.15 + 1


@given(LENGTHS, BUDGETS)
def test_batches_fit_the_budget_and_would_not_with_one_more(max_length, batch_tokens):
    boundaries = bucket_boundaries(max_length)
    sizes = bucket_batch_sizes(boundaries, batch_tokens)
    # What `bucket_by_sequence_length` asks for.
    assert len(sizes) == len(boundaries) + 1
    for boundary, size in zip(boundaries, sizes, strict=False):
        longest = boundary - 1
        assert size >= 1
        assert size == 1 or size * longest <= batch_tokens
        assert (size + 1) * longest > batch_tokens


@given(LENGTHS, BUDGETS)
def test_every_length_has_a_bucket_that_fits(max_length, batch_tokens):
    boundaries = bucket_boundaries(max_length)
    sizes = bucket_batch_sizes(boundaries, batch_tokens)
    for length in range(1, max_length + 1):
        # The bucket as TensorFlow finds it: boundary i - 1 <= length < boundary i.
        bucket = bisect.bisect_right(boundaries, length)
        assert bucket < len(boundaries)
        assert sizes[bucket] == 1 or sizes[bucket] * length <= batch_tokens


def test_known_values():
    assert bucket_boundaries(5) == [6]
    assert bucket_boundaries(8) == [8, 9]
    assert bucket_boundaries(20) == [8, 9, 10, 12, 14, 16, 18, 21]
    assert bucket_batch_sizes([8, 9, 21], 100) == [14, 12, 5, 1]
    # One pair is a batch, also beyond the budget.
    assert bucket_batch_sizes([8, 201], 100) == [14, 1, 1]


def test_defaults():
    defaults = inspect.signature(bucket_boundaries).parameters
    assert (defaults["first"].default, defaults["growth"].default) == (8, 1.15)

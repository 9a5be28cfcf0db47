"""N-grams and their buckets against plain Python."""

import collections

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.tf_transformer.language_id.reference import ODD, bucket, ngrams
from tf_transformer.language_id.ngrams import MAX_BYTES, find_ngrams


def counts(texts, num_buckets):
    """For each text, how often each bucket occurs."""
    found = [collections.Counter() for _ in texts]
    for rows, buckets in find_ngrams(texts, num_buckets):
        assert (np.diff(rows) >= 0).all()
        for row, number in zip(rows.tolist(), buckets.tolist(), strict=True):
            found[row][number] += 1
    return found


def expected(texts, num_buckets):
    return [
        collections.Counter(bucket(ngram, num_buckets) for ngram in ngrams(text)) for text in texts
    ]


def test_odd_texts():
    assert counts(ODD, 2**16) == expected(ODD, 2**16)
    assert MAX_BYTES == 1024


@given(st.lists(st.binary(max_size=40), max_size=5), st.sampled_from([2**8, 2**16, 2**22]))
def test_any_bytes(texts, num_buckets):
    assert counts(texts, num_buckets) == expected(texts, num_buckets)


def test_what_is_not_a_letter_is_a_space():
    for text in (b"it's", b"IT S", b"it\x00s", b"it9s"):
        assert counts([text], 2**16) == counts([b"it s"], 2**16)
    assert counts([b"", b"  ", b"1 2.3"], 2**16) == [{}, {}, {}]
    assert counts(["ä".encode()], 2**16) != counts(["Ä".encode()], 2**16)


def test_buckets_are_evenly_filled():
    """Different n-grams of letters, which are alike as numbers, fall into buckets as at random."""
    letters = [bytes([char]) for char in range(ord("a"), ord("z") + 1)]
    words = [a + b + c + d for a in letters[:12] for b in letters for c in letters for d in letters]
    filled = np.zeros(2**12)
    for begin in range(0, len(words), 10_000):
        *_, (rows, buckets) = find_ngrams(words[begin : begin + 10_000], 2**12)
        inner = np.flatnonzero(np.diff(rows, prepend=-1)) + 1  # the second of each word
        filled += np.bincount(buckets[inner], minlength=2**12)
    assert filled.sum() == len(words) == 12 * 26**3
    # The standard deviation of random draws is the square root of the mean, here 51.
    assert filled.std() < 1.5 * filled.mean() ** 0.5

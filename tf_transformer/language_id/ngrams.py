"""The features of a language classifier: hashed n-grams of the bytes of a text.

A text is cut off after `MAX_BYTES` bytes, its ASCII letters become lower case, and its other ASCII
bytes (digits, punctuation, control characters) become spaces; one space is put before it and one
behind it. Bytes above 127 are kept, so that a text need not be valid UTF-8. Its features are its
n-grams of 1 to 4 bytes, without those of spaces only.

An n-gram b_1 ... b_n is hashed to one of 2**k buckets by multiplications modulo 2**32 (multiply-
shift hashing, Dietzfelbinger et al., 1997, "A Reliable Randomized Algorithm for the Closest-Pair
Problem"):

    x = b_1 * 256**(n - 1) + ... + b_n
    x = x * FACTORS[n - 1] mod 2**32
    x = (x xor x >> 15) * MIXER mod 2**32
    bucket = x >> (32 - k)

All products are below 2**63, so that signed integers of 64 bits hold them. This module is in NumPy;
`identifier` computes the same in a TensorFlow graph.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

# A longer text is judged by its begin.
MAX_BYTES = 1024
SIZES = (1, 2, 3, 4)
SPACE = ord(" ")
# Odd numbers without structure: 31 bits of the fractions of pi, e, sqrt(2) and sqrt(3), and for the
# mixer of the golden ratio.
FACTORS = (0x121FB545, 0x5BF0A8B1, 0x3504F333, 0x5DB3D743)
MIXER = 0x4F1BBCDD
MIX_SHIFT = 15
BITS_32 = 2**32 - 1


def _normalized_bytes() -> np.ndarray:
    table = np.arange(256)
    is_ascii = table < 128
    lower = np.where((table >= ord("A")) & (table <= ord("Z")), table + 32, table)
    is_letter = (lower >= ord("a")) & (lower <= ord("z"))
    return np.where(is_ascii & ~is_letter, SPACE, lower)


# What each byte becomes, `(256,)` int64.
NORMALIZED = _normalized_bytes().astype(np.int64)


class Ngrams(NamedTuple):
    """The n-grams of one size of several texts.

    Attributes:
        rows: `(ngrams,)` int64, index of the text of each n-gram, ascending.
        buckets: `(ngrams,)` int64, its bucket.
    """

    rows: np.ndarray
    buckets: np.ndarray


def find_ngrams(texts: Sequence[bytes], num_buckets: int) -> Iterator[Ngrams]:
    """Yields the n-grams of texts, for each size.

    Args:
        texts: the texts, any bytes.
        num_buckets: number of buckets, a power of two.
    """
    padded = [b" %b " % text[:MAX_BYTES] for text in texts]
    num_bytes = np.array([len(text) for text in padded], np.int64)
    longest = max(SIZES)
    # After the last text follow bytes of no text, so that an n-gram begins at each byte.
    joined = b"".join(padded) + b" " * (longest - 1)
    content = NORMALIZED[np.frombuffer(joined, np.uint8)]
    rows = np.repeat(np.arange(len(texts) + 1), [*num_bytes, longest - 1])
    total = len(content) - (longest - 1)
    is_letter = content != SPACE
    code, has_letter = np.zeros(total, np.int64), np.zeros(total, bool)
    for size in SIZES:
        code = code * 256 + content[size - 1 : size - 1 + total]
        has_letter = has_letter | is_letter[size - 1 : size - 1 + total]
        is_inside = rows[size - 1 : size - 1 + total] == rows[:total]
        selected = np.flatnonzero(has_letter & is_inside)
        yield Ngrams(rows[selected], _bucket(code[selected], size, num_buckets))


def _bucket(code: np.ndarray, size: int, num_buckets: int) -> np.ndarray:
    mixed = (code * FACTORS[size - 1]) & BITS_32
    mixed = ((mixed ^ (mixed >> MIX_SHIFT)) * MIXER) & BITS_32
    return mixed >> (32 - num_buckets.bit_length() + 1)

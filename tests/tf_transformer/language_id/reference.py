"""The classifier of languages in plain Python, n-gram by n-gram, from its equations."""

import math

import numpy as np

from tf_transformer.language_id.classifier import LanguageClassifier

FACTORS = {1: 0x121FB545, 2: 0x5BF0A8B1, 3: 0x3504F333, 4: 0x5DB3D743}


def ngrams(text: bytes) -> list[bytes]:
    """The n-grams of a text, by size and place."""
    normalized = b" "
    for byte in text[:1024]:
        char = bytes([byte])
        normalized += char if byte > 127 else char.lower() if char.isalpha() else b" "
    normalized += b" "
    return [
        normalized[begin : begin + size]
        for size in (1, 2, 3, 4)
        for begin in range(len(normalized) - size + 1)
        if normalized[begin : begin + size].strip(b" ")
    ]


def bucket(ngram: bytes, num_buckets: int) -> int:
    """The bucket of an n-gram."""
    mixed = int.from_bytes(ngram, "big") * FACTORS[len(ngram)] % 2**32
    mixed = (mixed ^ (mixed >> 15)) * 0x4F1BBCDD % 2**32
    return mixed >> (32 - int(math.log2(num_buckets)))


def log_probs(classifier: LanguageClassifier, text: bytes) -> list[float]:
    """The log-probability of each language."""
    found = [bucket(ngram, len(classifier.weights)) for ngram in ngrams(text)]
    logits = []
    for index in range(len(classifier.languages)):
        total = sum(int(classifier.weights[number, index]) for number in found)
        logits.append(classifier.scale * total / max(len(found), 1))
    log_sum = math.log(sum(math.exp(value) for value in logits))
    return [value - log_sum for value in logits]


def random_classifier(
    num_languages: int = 3, num_buckets: int = 2**10, threshold: float = 0.6, seed: int = 0
) -> LanguageClassifier:
    """A classifier with random weights."""
    draw = np.random.default_rng(seed)
    weights = draw.integers(-(2**15), 2**15, (num_buckets, num_languages)).astype(np.int16)
    languages = tuple(f"l{index}" for index in range(num_languages))
    return LanguageClassifier(languages, weights, float(np.float32(1e-3)), threshold)


# Texts that are hard for a classifier: nothing, blanks, no letters, invalid UTF-8, zero-width and
# bidirectional characters, mixed scripts, emoji, NUL, the limit of bytes and far beyond it.
ODD = [
    b"",
    b" ",
    b"\t\r\n\x00",
    b"12345 67.8 (9)",
    b"a",
    b"A-B",
    b"\xff\xfe\xe4",
    b"\x80",
    b"caf\xe9 au lait",
    "h\u200be\u200dl\u2060l\ufeffo".encode(),
    "\u202eabc\u202c \u2066def\u2069".encode(),
    "Привет world 你好 مرحبا".encode(),
    "😀 𝄞 e\u0301".encode(),
    "你好，世界。".encode(),
    b"a\x00b",
    b"x" * 1023,
    b"x" * 1024,
    b"x" * 1025,
    "ü".encode() * 600,
    b"word " * 5000,
]

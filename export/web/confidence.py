"""Parses the confidences of the signature `confidence`, which come from an untrusted server."""

from typing import Any


def parse_confidence(words: str, confidences: str, mean: float) -> dict[str, Any]:
    """Parses one row of the outputs of `confidence`.

    Args:
        words: words of the translation, separated by spaces.
        confidences: a number from 0 to 1 for each word, separated by spaces.
        mean: the confidence of the whole translation.

    Returns:
        `mean`, and `words`, a list of pairs of a word and its confidence.

    Raises:
        OSError: these are not the confidences of words.
    """
    # Not `split()`: a word may contain another kind of space.
    texts, numbers = (text.split(" ") if text else [] for text in (words, confidences))
    if len(texts) != len(numbers):
        raise OSError(f"expected {len(texts)} confidences of words. Received: {len(numbers)}")
    values = [_number(number) for number in numbers]
    return {
        "mean": _number(mean),
        "words": [list(pair) for pair in zip(texts, values, strict=True)],
    }


def _number(value: str | float) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise OSError(f"expected a confidence from 0 to 1. Received: {value!r:.40}")
    return number

"""Repetitions in translations: words that a search has written again and again."""

import collections
from collections.abc import Sequence

from training.report.words import is_unspaced, split_words

# Numbers of words of a sequence that may follow itself.
_LENGTHS = range(1, 9)
# Words of a sequence that is a repetition wherever it occurs again.
_APART = 4
# In scripts without spaces, a word of two characters is often doubled.
_MIN_CHARACTERS = 3
# A line of more words is not searched to its end, which would take long.
_MAX_WORDS = 2000


def find_repetition(output: str, others: Sequence[str]) -> str | None:
    """Returns words that a translation repeats, or None.

    Args:
        output: the translation.
        others: source and references; if one of them repeats words, the translation may, too.
    """
    found = _repetition(output)
    if found is None or any(_repetition(other) for other in others):
        return None
    return found


def _repetition(text):
    words = [word.lower() for word in split_words(text)[:_MAX_WORDS]]
    for length in _LENGTHS:
        for start in range(len(words) - 2 * length + 1):
            part = words[start : start + length]
            if part != words[start + length : start + 2 * length]:
                continue
            thrice = part == words[start + 2 * length : start + 3 * length]
            if thrice or length >= _MIN_CHARACTERS or not all(map(is_unspaced, part)):
                return " ".join(part)
    if all(map(is_unspaced, words)):  # four characters are about two words
        return None
    grams = collections.Counter(zip(*(words[n:] for n in range(_APART)), strict=False))
    return next((" ".join(gram) for gram, count in grams.items() if count > 1), None)

"""How well systems translate words that are frequent or rare in the training text."""

import collections
import dataclasses
from collections.abc import Iterable, Sequence

from tf_transformer.command_line.progress import progress_bar
from training.report.words import split_words

# Smallest numbers of occurrences of the groups.
_BOUNDS = (0, 1, 10, 100, 1000)


@dataclasses.dataclass(frozen=True)
class WordGroup:
    """Words of similar frequency in the training text.

    Args:
        title: how frequent they are, such as "10–99".
        words: number of words in the reference.
        f_scores: for each system, the F1 of the group's words, from 0 to 100; None if neither the
            system nor the reference has any.
    """

    title: str
    words: int
    f_scores: list[float | None]


def count_words(lines: Iterable[str]) -> collections.Counter[str]:
    """Returns how often each word occurs in a text."""
    counts: collections.Counter[str] = collections.Counter()
    for line in progress_bar(iterable=lines, desc="training text", unit=" lines"):
        counts.update(split_words(line))
    return counts


def group_by_frequency(
    counts: collections.Counter[str],
    references: Sequence[str],
    systems: Sequence[Sequence[str]],
) -> list[WordGroup]:
    """Computes the F1 of words by their frequency in the training text (Neubig et al., 2019).

    A word of a translation is right as often as the reference of the sentence has it.

    Args:
        counts: occurrences of the words in the training text.
        references: the first reference of each sentence.
        systems: the translations of each system.
    """
    reference_words = [collections.Counter(split_words(line)) for line in references]
    expected = _by_group(counts, reference_words)
    found, right = [], []
    for lines in systems:
        output_words = [collections.Counter(split_words(line)) for line in lines]
        found.append(_by_group(counts, output_words))
        matches = [one & other for one, other in zip(output_words, reference_words, strict=True)]
        right.append(_by_group(counts, matches))
    groups = []
    for group, title in enumerate(_titles()):
        f_scores = [
            _f_score(matches[group], outputs[group], expected[group])
            for matches, outputs in zip(right, found, strict=True)
        ]
        if any(score is not None for score in f_scores):
            groups.append(WordGroup(title, expected[group], f_scores))
    return groups


def _by_group(counts, sentences):
    totals = [0] * len(_BOUNDS)
    for words in sentences:
        for word, times in words.items():
            occurrences = counts[word]
            totals[sum(occurrences >= bound for bound in _BOUNDS) - 1] += times
    return totals


def _titles():
    for bound, after in zip(_BOUNDS, [*_BOUNDS[1:], None], strict=True):
        if after is None:
            yield f"≥ {bound:,}"
        else:
            yield f"{bound:,}" if after == bound + 1 else f"{bound:,}–{after - 1:,}"


def _f_score(matches, found, expected):
    return 200 * matches / (found + expected) if found + expected else None

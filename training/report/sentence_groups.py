"""Groups of sentences of similar length, and the scores of systems on each."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from training.report.system_scores import MetricScores
from training.report.words import split_words

MAX_GROUPS = 6


@dataclasses.dataclass(frozen=True)
class Group:
    """Sentences that belong together.

    Args:
        title: what they have in common, such as "11–14".
        sentences: their number.
        scores: the score of each system on them, for each metric.
    """

    title: str
    sentences: int
    scores: list[list[float]]


def group_by_length(references: Sequence[str], metrics: Sequence[MetricScores]) -> list[Group]:
    """Groups sentences by the number of words of their reference.

    The groups have about the same number of sentences; those of one length stay together.

    Args:
        references: the first reference of each sentence.
        metrics: the scores of the systems.
    """
    lengths = np.array([len(split_words(line)) for line in references])
    bounds = np.quantile(lengths, np.arange(1, MAX_GROUPS) / MAX_GROUPS, method="lower")
    members = np.searchsorted(np.unique(bounds), lengths, side="left")
    groups = []
    for group in np.unique(members):
        sentences = np.flatnonzero(members == group)
        least, most = lengths[sentences].min(), lengths[sentences].max()
        title = str(least) if least == most else f"{least}–{most}"
        scores = [metric.of_group(sentences) for metric in metrics]
        groups.append(Group(title, len(sentences), scores))
    return groups

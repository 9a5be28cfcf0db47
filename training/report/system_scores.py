"""Scores of systems with confidence intervals, and whether two systems differ significantly.

The resampling is that of sacreBLEU's `PairedTest`, with the same seed, resamples and p values. It
is repeated here because a report tests every pair of systems, and needs the scores of sentences and
of groups of sentences, too, all of which follow from statistics that are counted once for each
system: counting is what takes the time. sacreBLEU has no public interface to them.
"""

import dataclasses
import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import sacrebleu
from sacrebleu.metrics.base import Metric

from tf_transformer.command_line.progress import progress_bar
from training.metrics.bleu_tokenizer import make_bleu

RESAMPLES = 1000
# Indices of this many resamples are in memory at once.
_RESAMPLES_AT_ONCE = 20

# The scores of a report, by name; the sentence scores are those of the last one.
BLEU, CHRF = "BLEU", "chrF"


class SystemScore(NamedTuple):
    """The score of a system.

    Attributes:
        value: score of the text.
        mean: mean of the scores of the resampled texts.
        interval: half the width of their 95% confidence interval.
    """

    value: float
    mean: float
    interval: float


class Difference(NamedTuple):
    """The difference between two systems.

    Attributes:
        first: index of a system.
        second: index of the other one.
        value: score of the second minus score of the first.
        p_value: p value of paired bootstrap resampling (Koehn, 2004), 1 if the scores are equal.
    """

    first: int
    second: int
    value: float
    p_value: float


@dataclasses.dataclass(frozen=True)
class MetricScores:
    """The scores of all systems by one metric.

    Args:
        name: name of the metric.
        metric: the metric, a new one of sacreBLEU.
        statistics: for each system, an array `(sentences, counts)` of what the metric counts.
        signature: sacreBLEU's signature, with the seed and the number of resamples.
        systems: the scores of the systems.
        differences: one for each pair of systems.
    """

    name: str
    metric: Metric
    statistics: list[np.ndarray]
    signature: str
    systems: list[SystemScore]
    differences: list[Difference]

    def of_group(self, sentences: np.ndarray) -> list[float]:
        """Returns the score of each system on some of the sentences, named by their indices."""
        return [_score(self.metric, counts[sentences].sum(0)) for counts in self.statistics]

    def of_sentences(self) -> list[list[float]]:
        """Returns the score of every sentence, for each system."""
        return [[_score(self.metric, row) for row in counts] for counts in self.statistics]

    def as_dict(self, names: Sequence[str]) -> dict[str, Any]:
        """Returns scores and differences for JSON.

        Args:
            names: names of the systems.
        """
        return {
            "signature": self.signature,
            "systems": {
                name: score._asdict() for name, score in zip(names, self.systems, strict=True)
            },
            "differences": [
                {"first": names[one.first], "second": names[one.second]}
                | {"difference": one.value, "bootstrap_p": one.p_value}
                for one in self.differences
            ],
        }


def make_metrics(bleu_tokenizer: str = "13a") -> dict[str, Metric]:
    """Returns the metrics of a report by name.

    Args:
        bleu_tokenizer: sacreBLEU's name of the tokenizer for BLEU.
    """
    return {BLEU: make_bleu(bleu_tokenizer), CHRF: sacrebleu.CHRF()}


def score_systems(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    metrics: Mapping[str, Metric],
    resamples: int = RESAMPLES,
) -> list[MetricScores]:
    """Scores systems, and compares each pair of them.

    The seed is sacreBLEU's: 12345, or the environment variable `SACREBLEU_SEED`.

    Args:
        systems: translations by the name of the system.
        references: one or more references of the text.
        metrics: new metrics by name.
        resamples: number of bootstrap resamples.
    """
    seed = os.environ.get("SACREBLEU_SEED", "12345").lower()
    found = []
    total = len(metrics) * len(systems)
    with progress_bar(total=total, desc="scoring", unit=" texts") as progress:
        for name, metric in metrics.items():
            statistics = []
            for hypotheses in systems.values():
                counts = metric._extract_corpus_statistics(hypotheses, references)
                statistics.append(np.array(counts, np.float64))
                progress.update()
            signature = metric.get_signature()
            signature.update("seed", seed)
            signature.update("bs", resamples)
            scores, differences = _resample(metric, statistics, resamples, seed)
            found.append(
                MetricScores(name, metric, statistics, str(signature), scores, differences)
            )
    return found


def _score(metric: Any, counts: np.ndarray) -> float:
    return float(metric._compute_score_from_stats(counts).score)


def _resample(metric, statistics, resamples, seed):
    """Returns the scores of all systems with their intervals, and the differences of all pairs."""
    rng = np.random.default_rng(None if seed == "none" else int(seed))
    num_sentences = len(statistics[0])
    sampled: list[list[float]] = [[] for _ in statistics]
    for start in range(0, resamples, _RESAMPLES_AT_ONCE):
        rows = min(_RESAMPLES_AT_ONCE, resamples - start)
        for chosen in rng.choice(num_sentences, size=(rows, num_sentences), replace=True):
            times = np.bincount(chosen, minlength=num_sentences).astype(np.float64)
            for scores, counts in zip(sampled, statistics, strict=True):
                scores.append(_score(metric, times @ counts))
    resampled = np.array(sampled)
    values = [_score(metric, counts.sum(0)) for counts in statistics]
    systems = [
        SystemScore(value, *_mean_and_interval(scores))
        for value, scores in zip(values, resampled, strict=True)
    ]
    differences = [
        Difference(
            first,
            second,
            values[second] - values[first],
            _p_value(resampled[second] - resampled[first], values[second] - values[first]),
        )
        for first, second in itertools.combinations(range(len(values)), 2)
    ]
    return systems, differences


def _mean_and_interval(scores):
    """Returns what sacreBLEU's `estimate_ci` returns."""
    ordered = np.sort(scores)
    cut = len(ordered) // 40
    return float(ordered.mean()), float(ordered[len(ordered) - cut - 1] - ordered[cut]) / 2


def _p_value(differences, observed):
    """Returns the p value of sacreBLEU's paired bootstrap; 1 if the scores are equal."""
    if observed == 0:
        return 1.0
    sizes = np.abs(differences)
    larger = int(np.sum(sizes - sizes.mean() > abs(observed)))
    return (larger + 1) / (len(sizes) + 1)

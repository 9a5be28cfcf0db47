"""Significance tests of the difference between two systems' scores."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import tabulate
from sacrebleu.metrics.base import Metric as SacreBleuMetric
from sacrebleu.significance import PairedTest

from tf_transformer.errors import InputError
from tf_transformer.printable import printable
from training.metrics.metric import Metric

# Decimals of scores with another unit than hundredths.
_DIGITS = {"COMET": 4}


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A comparison of the model with another system on the same sentences by one metric.

    A p value is the probability of a difference at least as large if both systems were equally
    good. SacreBLEU counts only larger differences, and misses equal ones, which are frequent if few
    sentences differ. Deviations from sacreBLEU: p is 1 if the scores are equal; and if k sentences
    differ in what the metric counts, two of the 2^k permutations give the observed difference, so
    the p value of the randomization is at least 2^(1 - k).

    Args:
        system: name of the other system.
        metric: sacreBLEU's name of the metric, such as "BLEU" or "chrF2"; or "COMET".
        model_score: score of the model on the test set.
        system_score: score of the other system on the test set.
        bootstrap_p: p value of paired bootstrap resampling (Koehn, 2004).
        bootstrap_signature: sacreBLEU's signature, with the seed and the number of resamples.
        randomization_p: p value of two-sided approximate randomization (Riezler and Maxwell, 2005).
        randomization_signature: sacreBLEU's signature, with the seed and the number of trials.
    """

    system: str
    metric: str
    model_score: float
    system_score: float
    bootstrap_p: float
    bootstrap_signature: str
    randomization_p: float
    randomization_signature: str

    @property
    def difference(self) -> float:
        """The model's score minus the other system's."""
        return self.model_score - self.system_score

    def as_dict(self) -> dict:
        """Returns all values for JSON."""
        return dataclasses.asdict(self) | {"difference": self.difference}


def check_systems(systems: dict[str, Sequence[str]], sentences: int) -> None:
    """Checks the arguments of `compare_systems` before anything is translated.

    Args:
        systems: translations of each system, by its name.
        sentences: number of sentences in the test set.

    Raises:
        InputError: a system has another number of translations, or the environment variable
            `SACREBLEU_SEED` is not a seed.
    """
    seed = os.environ.get("SACREBLEU_SEED", "none")
    if systems and seed.lower() != "none" and not seed.isdecimal():
        raise InputError(
            f"environment variable SACREBLEU_SEED: expected a number, or none. Received: {seed!r}"
        )
    for name, hypotheses in systems.items():
        if len(hypotheses) != sentences:
            raise InputError(
                f"{name} must have one line for each of the {sentences} sentences of the test set. "
                f"Received: {len(hypotheses)} lines"
            )


def compare_systems(
    translations: Sequence[str],
    systems: dict[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    metrics: Sequence[Metric],
    *,
    sources: Sequence[str] = (),
    resamples: int = 1000,
    trials: int = 10_000,
) -> list[Comparison]:
    """Compares a model with other systems, with sacreBLEU's significance tests.

    The score of a resampled text is computed from the statistics of its sentences, and for COMET is
    the mean of their scores.

    The random seed is sacreBLEU's: 12345, or the environment variable `SACREBLEU_SEED`. The p
    values are not corrected for the number of systems.

    Args:
        translations: the model's translations.
        systems: translations of the same sentences by other systems, by the name of the system.
        references: one or more reference translations of each sentence.
        metrics: the metrics to compare by.
        sources: the source sentences, for metrics that need them.
        resamples: number of bootstrap resamples.
        trials: number of randomization trials.

    Returns:
        The comparisons with each system, by each metric.

    Raises:
        InputError: as `check_systems`.
    """
    check_systems(systems, len(translations))
    named = [("model", translations), *systems.items()]
    tested = {metric.name: metric.sacrebleu_metric(sources) for metric in metrics}
    counted = [_remember_statistics(metric) for metric in tested.values()]
    tests: dict[str, Any] = {}
    for kind, samples in (("bs", resamples), ("ar", trials)):
        tests[kind] = PairedTest(named, tested, references, kind, n_samples=samples)()
    (bootstrap_signatures, bootstrap), (signatures, randomization) = tests["bs"], tests["ar"]
    comparisons = []
    for index, (system, hypotheses) in enumerate(systems.items(), 1):
        for metric, statistics in zip(signatures, counted, strict=True):
            pairs = zip(statistics[id(translations)], statistics[id(hypotheses)], strict=True)
            least_p = min(1.0, 2.0 ** (1 - sum(ours != theirs for ours, theirs in pairs)))
            ours, theirs = bootstrap[metric][0].score, bootstrap[metric][index].score
            comparison = Comparison(
                system=system,
                metric=metric,
                model_score=ours,
                system_score=theirs,
                bootstrap_p=1.0 if ours == theirs else bootstrap[metric][index].p_value,
                bootstrap_signature=str(bootstrap_signatures[metric]),
                randomization_p=1.0
                if ours == theirs
                else max(least_p, randomization[metric][index].p_value),
                randomization_signature=str(signatures[metric]),
            )
            comparisons.append(comparison)
    return comparisons


def _remember_statistics(metric: SacreBleuMetric) -> dict[int, list]:
    """Lets a metric count each text once; returns what it counts, by the identity of the text."""
    count, known = metric._extract_corpus_statistics, {}

    def extract(hypotheses, references):
        if id(hypotheses) not in known:
            known[id(hypotheses)] = count(hypotheses, references)
        return known[id(hypotheses)]

    metric._extract_corpus_statistics = extract  # type: ignore[method-assign]
    return known


def _text(comparison, score, sign=""):
    return f"{score:{sign}.{_DIGITS.get(comparison.metric, 2)}f}"


def comparison_table(comparisons: Sequence[Comparison]) -> str:
    """Returns the comparisons as a text table, followed by the signatures."""
    head = ["system", "metric", "model", "system", "difference", "bootstrap p", "randomization p"]
    rows = [
        (
            printable(one.system),
            one.metric,
            *(_text(one, score) for score in (one.model_score, one.system_score)),
            _text(one, one.difference, "+"),
            f"{one.bootstrap_p:.4f}",
            f"{one.randomization_p:.4f}",
        )
        for one in comparisons
    ]
    table = tabulate.tabulate(
        rows,
        headers=head,
        tablefmt="plain",
        disable_numparse=True,
        colalign=["left"] * 2 + ["right"] * 5,
    )
    signatures = {
        (one.metric, signature): None
        for one in comparisons
        for signature in (one.bootstrap_signature, one.randomization_signature)
    }
    return "\n".join([table, *(f"{metric:6}  {text}" for metric, text in signatures)])

"""What an evaluation reports: metrics of the translations, and the perplexity of the references."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from tf_transformer.known_names import check_names
from training.evaluation.metrics import METRICS, MetricSettings, make_metrics
from training.metrics.metric import Metric

PERPLEXITY = "perplexity"
DEFAULT_NAMES = ("bleu", "chrf", "exact", PERPLEXITY)


@dataclasses.dataclass(frozen=True)
class Measures:
    """What an evaluation reports.

    Args:
        names: names of metrics, and `perplexity`, in the order of the report.
        metrics: the metrics, by name.
    """

    names: Sequence[str]
    metrics: dict[str, Metric]

    def compared(self) -> list[Metric]:
        """Returns the metrics by which systems are compared: all but the exact matches."""
        return [metric for name, metric in self.metrics.items() if name != "exact"]


def check_measures(names: Iterable[str]) -> list[str]:
    """Returns names of metrics and `perplexity`, each once.

    Raises:
        InputError: a name is unknown.
    """
    names = list(dict.fromkeys(names))
    check_names(names, (*METRICS, PERPLEXITY), "metric")
    return names


def make_measures(names: Iterable[str] = DEFAULT_NAMES, **settings: Any) -> Measures:
    """Makes the metrics of an evaluation.

    Args:
        names: names of metrics, and `perplexity`.
        **settings: fields of `MetricSettings`.

    Raises:
        InputError: see `check_measures` and `make_metrics`.
    """
    names = check_measures(names)
    of_translations = [name for name in names if name != PERPLEXITY]
    return Measures(names, make_metrics(of_translations, MetricSettings(**settings)))

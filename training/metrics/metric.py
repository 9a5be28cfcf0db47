"""What every metric of translations has: a score of a text, and scores of its sentences."""

import abc
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from sacrebleu.metrics.base import Metric as SacreBleuMetric


class Score(NamedTuple):
    """The score of a text.

    Attributes:
        value: the score.
        signature: how it was computed; empty if there is only one way.
        interval: half the width of the 95% confidence interval, by bootstrap resampling; None if
            it was not computed.
    """

    value: float
    signature: str
    interval: float | None = None


class Metric(abc.ABC):
    """A metric of translations.

    References are given as sacreBLEU takes them: a sequence for each reference translation of the
    text, of as many sentences as the text has.

    Attributes:
        name: its name in `--metrics` and in stored scores.
        title: its name in tables.
        digits: number of decimals to print.
        higher_is_better: whether a higher score is the better one.
        needs_sources: whether the source sentences are needed.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    digits: ClassVar[int] = 2
    higher_is_better: ClassVar[bool] = True
    needs_sources: ClassVar[bool] = False

    def score(
        self,
        hypotheses: Sequence[str],
        references: Sequence[Sequence[str]],
        sources: Sequence[str] = (),
        *,
        resamples: int = 0,
    ) -> Score:
        """Scores a text.

        Args:
            hypotheses: the translations to score.
            references: one or more references of each.
            sources: the source sentences, for metrics that need them.
            resamples: number of bootstrap resamples for the confidence interval; 0 computes none.
        """
        metric = self.sacrebleu_metric(sources)
        found = metric.corpus_score(hypotheses, references, n_bootstrap=resamples)
        interval = float(found._ci) if resamples > 1 else None
        # The signature is complete only once the score is computed.
        return Score(float(found.score), str(metric.get_signature()), interval)

    @abc.abstractmethod
    def sentence_scores(
        self,
        hypotheses: Sequence[str],
        references: Sequence[Sequence[str]],
        sources: Sequence[str] = (),
    ) -> list[float]:
        """Returns the score of each sentence; the arguments are those of `score`."""

    @abc.abstractmethod
    def sacrebleu_metric(self, sources: Sequence[str] = ()) -> SacreBleuMetric:
        """Returns a new metric with sacreBLEU's interface, for its significance tests.

        Args:
            sources: the source sentences, for metrics that need them.
        """

    def format(self, value: float) -> str:
        """Returns a score as it is printed."""
        return f"{value:.{self.digits}f}"

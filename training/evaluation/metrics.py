"""Metrics of translations: one table by name. This module does not import TensorFlow."""

import abc
import dataclasses
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, NamedTuple

import sacrebleu
from sacrebleu.metrics.base import Metric as SacreBleuMetric

from tf_transformer.known_names import check_names
from training.evaluation.bleu_tokenizer import make_bleu
from training.evaluation.sentence_means import SentenceMeans

DEFAULT_COMET_MODEL = "Unbabel/wmt22-comet-da"


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class MetricSettings:
    """Settings of the metrics.

    Args:
        bleu_tokenizer: sacreBLEU's name of the tokenizer for BLEU.
        comet_model: name or path of the COMET model.
        comet_python: the Python of the environment that has unbabel-comet; None is this one.
        comet_gpus: number of GPUs for COMET.
    """

    bleu_tokenizer: str = "13a"
    comet_model: str = DEFAULT_COMET_MODEL
    comet_python: pathlib.Path | None = None
    comet_gpus: int = 0


class _OfSacreBleu(Metric):
    """A metric of sacreBLEU.

    Args:
        make: returns a new metric for texts.
        make_for_sentences: returns one for single sentences, if that is another.
    """

    def __init__(
        self,
        make: Callable[[], SacreBleuMetric],
        make_for_sentences: Callable[[], SacreBleuMetric] | None = None,
    ):
        self._make = make
        self._of_sentences = (make_for_sentences or make)()

    def sentence_scores(self, hypotheses, references, sources=()):
        of_sentences = zip(*references, strict=True)
        return [
            float(self._of_sentences.sentence_score(hypothesis, list(own)).score)
            for hypothesis, own in zip(hypotheses, of_sentences, strict=True)
        ]

    def sacrebleu_metric(self, sources=()):
        return self._make()


class Bleu(_OfSacreBleu):
    """BLEU; of sentences as sacreBLEU's `sentence_bleu`, with the effective order."""

    name, title = "bleu", "BLEU"

    def __init__(self, tokenizer: str):
        super().__init__(
            lambda: make_bleu(tokenizer), lambda: make_bleu(tokenizer, effective_order=True)
        )


class Chrf(_OfSacreBleu):
    """The F-score of character n-grams."""

    name, title = "chrf", "chrF"

    def __init__(self):
        super().__init__(sacrebleu.CHRF)


class ChrfPlusPlus(_OfSacreBleu):
    """The F-score of character and word n-grams."""

    name, title = "chrf++", "chrF++"

    def __init__(self):
        super().__init__(lambda: sacrebleu.CHRF(word_order=2))


class Ter(_OfSacreBleu):
    """Translation edit rate: edits per 100 words of the reference."""

    name, title = "ter", "TER"
    higher_is_better = False

    def __init__(self):
        super().__init__(sacrebleu.TER)


class Exact(Metric):
    """The share of translations that are equal to a reference."""

    name, title = "exact", "exact"
    digits = 4

    def score(self, hypotheses, references, sources=(), *, resamples=0):
        return super().score(hypotheses, references, resamples=resamples)._replace(signature="")

    def sentence_scores(self, hypotheses, references, sources=()):
        of_sentences = zip(*references, strict=True)
        return [
            float(hypothesis in own)
            for hypothesis, own in zip(hypotheses, of_sentences, strict=True)
        ]

    def sacrebleu_metric(self, sources=()):
        return SentenceMeans(self.title, self.sentence_scores, {})


def _make_comet(settings):
    from training.evaluation.comet import Comet

    return Comet(settings.comet_model, settings.comet_python, settings.comet_gpus)


# How each metric is made, by its name.
METRICS: dict[str, Callable[[MetricSettings], Metric]] = {
    Bleu.name: lambda settings: Bleu(settings.bleu_tokenizer),
    Chrf.name: lambda settings: Chrf(),
    ChrfPlusPlus.name: lambda settings: ChrfPlusPlus(),
    Ter.name: lambda settings: Ter(),
    "comet": _make_comet,
    Exact.name: lambda settings: Exact(),
}


def make_metrics(names: Iterable[str], settings: MetricSettings | None = None) -> dict[str, Metric]:
    """Makes metrics, and checks that what they need is installed.

    Args:
        names: names of the table `METRICS`.
        settings: their settings; None is the defaults.

    Returns:
        The metrics by name, each once, in the order of the names.

    Raises:
        InputError: a name is unknown, or what a metric needs is missing.
        OSError: a file that it needs cannot be read.
    """
    names = list(dict.fromkeys(names))
    check_names(names, METRICS, "metric")
    return {name: METRICS[name](settings or MetricSettings()) for name in names}

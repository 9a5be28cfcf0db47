"""A mean over sentences as a metric of sacreBLEU, which its significance tests then take."""

from collections.abc import Callable, Sequence
from typing import Any

from sacrebleu.metrics.base import Metric, Score, Signature


class SentenceMeans(Metric):
    """A metric of sacreBLEU that is the mean of the scores of sentences.

    Args:
        name: name of the metric.
        sentence_scores: returns the score of each sentence, given hypotheses and references.
        facts: how they are computed, for the signature.
    """

    def __init__(
        self,
        name: str,
        sentence_scores: Callable[[Sequence[str], Sequence[Sequence[str]]], list[float]],
        facts: dict[str, str],
    ):
        super().__init__()
        self._name = name
        self._sentence_scores = sentence_scores
        self._facts = facts

    def get_signature(self) -> Signature:
        """Returns the number of references, the resampling and the facts."""
        signature = Signature(vars(self))
        del signature.info["version"]  # that of sacreBLEU, which does not compute the scores
        signature.info |= self._facts | {"version": self._facts.get("version")}
        return signature

    def _extract_corpus_statistics(self, hypotheses, references):
        self.num_refs = len(references)
        return [[score, 1] for score in self._sentence_scores(hypotheses, references)]

    def _aggregate_and_compute(self, stats: Any) -> Score:
        return self._compute_score_from_stats([sum(column) for column in zip(*stats, strict=True)])

    def _compute_score_from_stats(self, stats: Any) -> Score:
        return Score(self._name, stats[0] / stats[1])

    def _preprocess_segment(self, sent):
        raise NotImplementedError("only the scores of sentences are used")

    def _extract_reference_info(self, refs):
        raise NotImplementedError("only the scores of sentences are used")

    def _compute_segment_statistics(self, hypothesis, ref_kwargs):
        raise NotImplementedError("only the scores of sentences are used")

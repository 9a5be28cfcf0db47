"""The share of exact matches."""

from training.metrics.metric import Metric
from training.metrics.sentence_means import SentenceMeans


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

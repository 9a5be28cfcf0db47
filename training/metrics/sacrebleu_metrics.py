"""The metrics of sacreBLEU: BLEU, chrF, chrF++ and TER."""

from collections.abc import Callable

import sacrebleu
from sacrebleu.metrics.base import Metric as SacreBleuMetric

from training.metrics.bleu_tokenizer import make_bleu
from training.metrics.metric import Metric


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

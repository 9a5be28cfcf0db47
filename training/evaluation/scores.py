"""BLEU and chrF of translations, which validation and tuning report."""

from collections.abc import Sequence
from typing import NamedTuple

from training.evaluation.metrics import MetricSettings, make_metrics


class Scores(NamedTuple):
    """BLEU and chrF of translations.

    Attributes:
        bleu: BLEU, from 0 to 100.
        bleu_signature: sacreBLEU's signature of how BLEU was computed.
        chrf: chrF, from 0 to 100.
        chrf_signature: sacreBLEU's signature of how chrF was computed.
    """

    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str


def bleu_and_chrf(
    translations: Sequence[str], *references: Sequence[str], bleu_tokenizer: str = "13a"
) -> Scores:
    """Scores translations with sacreBLEU.

    Args:
        translations: the translations to score.
        references: one or more references of each, in the same order.
        bleu_tokenizer: sacreBLEU's name of the tokenizer for BLEU.
    """
    metrics = make_metrics(("bleu", "chrf"), MetricSettings(bleu_tokenizer=bleu_tokenizer))
    bleu, chrf = (metric.score(translations, references) for metric in metrics.values())
    return Scores(bleu.value, bleu.signature, chrf.value, chrf.signature)

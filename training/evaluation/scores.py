"""BLEU and chrF of a test set, by sacreBLEU."""

from collections.abc import Sequence
from typing import NamedTuple

import sacrebleu


class Scores(NamedTuple):
    """How well translations match their references.

    Attributes:
        bleu, chrf: from 0 to 100.
        bleu_signature, chrf_signature: sacreBLEU's, which say how the scores were computed.
    """

    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str


def bleu_and_chrf(
    translations: Sequence[str], references: Sequence[str], bleu_tokenizer: str = "13a"
) -> Scores:
    """Scores translations with sacreBLEU.

    Args:
        translations, references: sentence by sentence.
        bleu_tokenizer: sacreBLEU's name of it.
    """
    bleu, chrf = sacrebleu.BLEU(tokenize=bleu_tokenizer), sacrebleu.CHRF()
    # The signatures are complete only once the scores are computed.
    bleu_score, chrf_score = (
        metric.corpus_score(translations, [references]).score for metric in (bleu, chrf)
    )
    return Scores(bleu_score, str(bleu.get_signature()), chrf_score, str(chrf.get_signature()))

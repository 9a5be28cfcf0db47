"""BLEU and chrF of translations, computed by sacreBLEU."""

from collections.abc import Sequence
from typing import NamedTuple

import sacrebleu


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
    translations: Sequence[str], references: Sequence[str], bleu_tokenizer: str = "13a"
) -> Scores:
    """Scores translations with sacreBLEU.

    Args:
        translations: the translations to score.
        references: their references, in the same order.
        bleu_tokenizer: sacreBLEU's name of the tokenizer for BLEU.
    """
    bleu, chrf = sacrebleu.BLEU(tokenize=bleu_tokenizer), sacrebleu.CHRF()
    # The signatures are complete only once the scores are computed.
    bleu_score, chrf_score = (
        metric.corpus_score(translations, [references]).score for metric in (bleu, chrf)
    )
    return Scores(bleu_score, str(bleu.get_signature()), chrf_score, str(chrf.get_signature()))

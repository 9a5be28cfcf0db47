"""BLEU and chrF of a test set, by sacreBLEU."""

from collections.abc import Sequence

import sacrebleu


def bleu_and_chrf(
    translations: Sequence[str], references: Sequence[str], bleu_tokenizer: str = "13a"
) -> dict[str, float | str]:
    """Scores translations with sacreBLEU.

    Args:
        translations, references: sentence by sentence.
        bleu_tokenizer: sacreBLEU's name of it.

    Returns:
        `bleu` and `chrf`, from 0 to 100, and sacreBLEU's signatures of both, which say how they
        were computed: `bleu_signature` and `chrf_signature`.
    """
    scores = {}
    metrics = {"bleu": sacrebleu.BLEU(tokenize=bleu_tokenizer), "chrf": sacrebleu.CHRF()}
    for name, metric in metrics.items():
        scores[name] = metric.corpus_score(translations, [references]).score
        # Complete only once a score is computed.
        scores[f"{name}_signature"] = str(metric.get_signature())
    return scores

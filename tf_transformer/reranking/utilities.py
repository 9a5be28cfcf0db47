"""The similarity of all pairs of translations: sentence chrF and sentence BLEU.

The values are those of sacreBLEU's `sentence_score`, for all pairs of a list at once.
"""

from collections.abc import Sequence

import numpy as np

from tf_transformer.reranking.ngram_matches import ngram_matches

_CHARACTER_ORDER = 6
_BETA = 2
_WORD_ORDER = 4


def pairwise_chrf(texts: Sequence[str]) -> np.ndarray:
    """Computes sentence chrF (Popović, 2015) with the defaults of `sacrebleu.CHRF`.

    With P and R, the means of precision and recall over the orders 1 to 6 of character n-grams that
    both texts have, whitespace left out:

    chrF = 100 (1 + beta^2) P R / (beta^2 P + R),    beta = 2

    Args:
        texts: the texts.

    Returns:
        `(texts, texts)` float64, from 0 to 100: the row is the hypothesis, the column the
        reference.
    """
    counts = ngram_matches([_characters(text) for text in texts], _CHARACTER_ORDER)
    hypothesis, reference = counts.totals[:, :, np.newaxis], counts.totals[:, np.newaxis, :]
    has_both = (hypothesis > 0) & (reference > 0)
    precision = np.sum(counts.matches / np.maximum(hypothesis, 1.0) * has_both, axis=0)
    recall = np.sum(counts.matches / np.maximum(reference, 1.0) * has_both, axis=0)
    num_orders = np.maximum(np.sum(has_both, axis=0), 1)
    precision, recall = precision / num_orders, recall / num_orders
    denominator = _BETA**2 * precision + recall
    product = (1 + _BETA**2) * precision * recall
    return 100.0 * product / np.where(denominator > 0, denominator, 1.0)


def _characters(text: str) -> np.ndarray:
    return np.frombuffer("".join(text.split()).encode("utf-32-le", "surrogatepass"), np.uint32)


def pairwise_bleu(texts: Sequence[str], tokenizer: str = "13a") -> np.ndarray:
    """Computes sentence BLEU with `sacrebleu.BLEU(effective_order=True)`.

    A precision of 0 is smoothed: the k-th one becomes 1 / (2^k times the number of n-grams). Orders
    that the hypothesis is too short for are left out.

    Args:
        texts: the texts.
        tokenizer: sacreBLEU's name of the tokenizer.

    Returns:
        `(texts, texts)` float64, from 0 to 100: the row is the hypothesis, the column the
        reference.
    """
    counts = ngram_matches(_words(texts, tokenizer), _WORD_ORDER)
    lengths = counts.totals[0]
    hypothesis, reference = lengths[:, np.newaxis], lengths[np.newaxis, :]
    ratio = reference / np.maximum(hypothesis, 1.0)
    brevity = np.where(hypothesis < reference, np.exp(1.0 - ratio), 1.0)
    shape = counts.matches.shape[1:]
    log_precisions, orders, smoothing = np.zeros(shape), np.zeros(shape), np.ones(shape)
    for matches, totals in zip(counts.matches, counts.totals, strict=True):
        is_counted = np.broadcast_to(totals[:, np.newaxis] > 0, shape)
        is_smoothed = is_counted & (matches == 0)
        smoothing = np.where(is_smoothed, 2.0 * smoothing, smoothing)
        found = np.where(is_smoothed, 1.0 / smoothing, matches)
        precision = 100.0 * found / np.maximum(totals, 1.0)[:, np.newaxis]
        log_precisions += np.log(np.where(is_counted, precision, 1.0))
        orders += is_counted
    score = brevity * np.exp(log_precisions / np.maximum(orders, 1.0))
    return np.where(counts.matches[0] > 0, score, 0.0)


def _words(texts: Sequence[str], tokenizer: str) -> list[np.ndarray]:
    """Splits texts by a tokenizer of sacreBLEU, and numbers their words."""
    import sacrebleu

    tokenize = sacrebleu.BLEU(tokenize=tokenizer, effective_order=True).tokenizer
    numbers: dict[str, int] = {}
    return [
        np.array(
            [numbers.setdefault(word, len(numbers)) for word in tokenize(text.rstrip()).split()],
            np.int64,
        )
        for text in texts
    ]

"""The scores by which a candidate is chosen."""

import numpy as np

from tf_transformer.reranking.candidates import Candidates
from tf_transformer.reranking.utilities import pairwise_bleu, pairwise_chrf

# Smaller differences of expected utilities come from rounding.
_DIGITS = 9


def expected_utilities(
    candidates: Candidates, utility: str = "chrf", tokenizer: str = "13a"
) -> np.ndarray:
    """Computes the expected utility of each candidate over the list (Kumar and Byrne, 2004).

    EU(y) = sum_i w_i u(y, y_i)

    The candidates are also the pseudo-references y_i, with their weights w_i (Eikema and Aziz,
    2020).

    Args:
        candidates: the candidates.
        utility: u, "chrf" or "bleu": sentence chrF or sentence BLEU of sacreBLEU.
        tokenizer: sacreBLEU's name of the tokenizer, for "bleu".

    Returns:
        `(candidates,)` float64, from 0 to 100.
    """
    if len(candidates.texts) == 1:
        return np.array([100.0])
    if utility == "bleu":
        pairs = pairwise_bleu(candidates.texts, tokenizer)
    else:
        pairs = pairwise_chrf(candidates.texts)
    return np.round(pairs @ candidates.weights, _DIGITS)


def noisy_channel_scores(
    candidates: Candidates,
    reverse: np.ndarray,
    language_model: np.ndarray,
    reverse_weight: float,
    language_model_weight: float,
) -> np.ndarray:
    """Adds the scores of other models to that of the search (Ng et al., 2019).

    score(y) = (log p(y | x) + a log p(x | y) + b log p(y)) / lp(y)

    lp is the length penalty of the search, so that with a = b = 0 the score is that of the search.

    Args:
        candidates: the candidates.
        reverse: `(candidates,)`, log p(x | y).
        language_model: `(candidates,)`, log p(y).
        reverse_weight: a.
        language_model_weight: b.

    Returns:
        `(candidates,)` float64.
    """
    log_probs = candidates.log_probs + reverse_weight * reverse
    return (log_probs + language_model_weight * language_model) / candidates.penalties


def ranking(scores: np.ndarray) -> np.ndarray:
    """Returns the indices of scores, best first; of equal scores, the earlier one first."""
    return np.argsort(-scores, kind="stable")

"""Candidate translations of a sentence: the n best of beam search, or samples."""

import dataclasses
import hashlib

import numpy as np

from tf_transformer.decoding.search_interface import length_penalty


@dataclasses.dataclass(frozen=True)
class Candidates:
    """Different translations of one sentence.

    Args:
        texts: the translations.
        log_probs: `(candidates,)` float64, log p(translation, end | source) in nats.
        penalties: `(candidates,)` float64, length penalty of each, see `length_penalty`; ones for
            samples.
        weights: `(candidates,)` float64, estimates of their probabilities, whose sum is 1.
        truncated: whether the source was truncated to the model's limit.
    """

    texts: list[str]
    log_probs: np.ndarray
    penalties: np.ndarray
    weights: np.ndarray
    truncated: bool


def candidates_of_beam(
    texts: list[str], scores: np.ndarray, lengths: np.ndarray, alpha: float, truncated: bool
) -> Candidates:
    """Returns the n best translations of a sentence as candidates, best first.

    Their weights are their probabilities, normalized over the list: each is in the list once, be it
    likely or not, so that only the model says how likely it is. Hypotheses of the same text, which
    differ in their tokens, are one candidate with the sum of their probabilities as its weight.

    Args:
        texts: the translations.
        scores: `(n,)` float64, log-probabilities divided by the length penalty; -inf without one.
        lengths: `(n,)` integers, numbers of tokens without the end.
        alpha: the exponent of the length penalty.
        truncated: whether the source was truncated.
    """
    penalties = np.asarray(length_penalty(lengths + 1, alpha), np.float64)
    log_probs = scores * penalties
    return _distinct(texts, log_probs, penalties, _normalized(log_probs), truncated)


def _normalized(log_probs: np.ndarray) -> np.ndarray:
    probabilities = np.exp(log_probs - np.max(log_probs))
    return probabilities / probabilities.sum()


def candidates_of_samples(texts: list[str], log_probs: np.ndarray, truncated: bool) -> Candidates:
    """Returns the samples of a sentence as candidates, the most frequent first.

    Their weights are their shares of the samples: the share of a translation is an unbiased
    estimate of its probability, and weights by the model's probability would count it twice.

    Args:
        texts: the samples.
        log_probs: `(samples,)` float64.
        truncated: whether the source was truncated.
    """
    ones = np.ones(len(texts))
    return _most_frequent_first(_distinct(texts, log_probs, ones, ones / len(texts), truncated))


def seeds_of(line: bytes, seed: int, number: int) -> np.ndarray:
    """Returns the seeds of the samples of a sentence, `(number,)` int64.

    Args:
        line: the sentence.
        seed: seed of all samples.
        number: number of samples.
    """
    digest = hashlib.blake2b(line, digest_size=8, key=seed.to_bytes(8, "little")).digest()
    first = np.frombuffer(digest, np.uint64)
    return (first + np.arange(number, dtype=np.uint64)).view(np.int64)


def _distinct(texts, log_probs, penalties, weights, truncated) -> Candidates:
    """Returns candidates whose texts are different, in the order of their first occurrence.

    Leaves out those with log-probability -inf, which a search returns if there are fewer outputs.
    """
    indices: dict[str, int] = {}
    kept: list[int] = []
    sums: list[float] = []
    for index, text in enumerate(texts):
        if not np.isfinite(log_probs[index]):
            continue
        if text not in indices:
            indices[text] = len(kept)
            kept.append(index)
            sums.append(0.0)
        sums[indices[text]] += weights[index]
    return Candidates(
        [texts[index] for index in kept],
        log_probs[kept],
        penalties[kept],
        np.array(sums),
        truncated,
    )


def _most_frequent_first(candidates: Candidates) -> Candidates:
    order = np.argsort(-candidates.weights, kind="stable")
    return Candidates(
        [candidates.texts[index] for index in order],
        candidates.log_probs[order],
        candidates.penalties[order],
        candidates.weights[order],
        candidates.truncated,
    )

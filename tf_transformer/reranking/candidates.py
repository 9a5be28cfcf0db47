"""Candidate translations of a sentence: the n best of beam search, or samples."""

import dataclasses
import hashlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tf_transformer.decoding.search_interface import length_penalty
from tf_transformer.inference.finite_scores import check_scores
from tf_transformer.inference.sampler import SampledTranslations, sample_many
from tf_transformer.inference.translator import Translator
from tf_transformer.reranking.settings import MinimumBayesRisk


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


def beam_candidates(translator: Translator, lines: Sequence[str | bytes]) -> list[Candidates]:
    """Returns the `num_best` translations of each sentence, best first.

    Their weights are their probabilities, normalized over the list: each is in the list once, be it
    likely or not, so that only the model says how likely it is. Hypotheses of the same text, which
    differ in their tokens, are one candidate with the sum of their probabilities as its weight.

    Args:
        translator: the translator.
        lines: the sentences, none of them blank.

    Raises:
        InputError: a score is not finite.
    """
    found = translator.translate(tf.constant(lines, tf.string, shape=[len(lines)]))
    scores = found.scores.numpy().astype(np.float64)
    check_scores(scores[:, :1])
    lengths, texts = found.lengths.numpy(), found.text.numpy()
    return [
        candidates_of_beam(
            [text.decode() for text in texts[row]],
            scores[row],
            lengths[row],
            translator.search.length_penalty,
            bool(is_truncated),
        )
        for row, is_truncated in enumerate(found.truncated.numpy())
    ]


def candidates_of_beam(
    texts: list[str], scores: np.ndarray, lengths: np.ndarray, alpha: float, truncated: bool
) -> Candidates:
    """Returns the n best translations of a sentence as candidates, see `beam_candidates`.

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


class Sampler:
    """Draws candidates from a model.

    Their weights are their shares of the samples: the share of a translation is an unbiased
    estimate of its probability, and weights by the model's probability would count it twice.

    Args:
        translator: the translator, for its model, tokenizers and length limits.
        settings: the number of samples and how they are drawn.
    """

    def __init__(self, translator: Translator, settings: MinimumBayesRisk):
        self._num_samples, self._seed = settings.num_samples or 1, settings.seed

        def sample(text: tf.Tensor, seeds: tf.Tensor) -> SampledTranslations:
            return sample_many(
                translator,
                text,
                seeds,
                temperature=settings.temperature,
                top_p=settings.top_p,
                epsilon=settings.epsilon,
            )

        self._sample = tf.function(
            sample,
            input_signature=[
                tf.TensorSpec([None], tf.string),
                tf.TensorSpec([None, self._num_samples], tf.int64),
            ],
            autograph=False,
        )

    def candidates(self, lines: Sequence[bytes]) -> list[Candidates]:
        """Draws translations of sentences; the most frequent come first.

        The samples of a sentence depend on the seed and on the sentence, not on the others.

        Args:
            lines: the sentences, none of them blank.

        Raises:
            InputError: a log-probability is not finite.
        """
        seeds = np.array([seeds_of(line, self._seed, self._num_samples) for line in lines])
        found = self._sample(tf.constant(lines, tf.string, shape=[len(lines)]), seeds)
        log_probs = found.log_probs.numpy().astype(np.float64)
        check_scores(log_probs)
        return [
            candidates_of_samples(
                [text.decode() for text in texts], log_probs[row], bool(is_truncated)
            )
            for row, (texts, is_truncated) in enumerate(
                zip(found.text.numpy(), found.truncated.numpy(), strict=True)
            )
        ]


def candidates_of_samples(texts: list[str], log_probs: np.ndarray, truncated: bool) -> Candidates:
    """Returns the samples of a sentence as candidates, the most frequent first.

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

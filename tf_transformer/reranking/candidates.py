"""Candidate translations of a sentence: the n best of beam search, or samples."""

import dataclasses
import hashlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tf_transformer.decoding.beam_search import length_penalty
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
    lengths = found.lengths.numpy() + 1  # with the end
    penalties = np.asarray(length_penalty(lengths, translator.search.length_penalty), np.float64)
    texts = found.text.numpy()
    return [
        _distinct(
            [text.decode() for text in texts[row]],
            scores[row] * penalties[row],
            penalties[row],
            _normalized(scores[row] * penalties[row]),
            bool(is_truncated),
        )
        for row, is_truncated in enumerate(found.truncated.numpy())
    ]


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
        seeds = np.array([self._seeds(line) for line in lines])
        found = self._sample(tf.constant(lines, tf.string, shape=[len(lines)]), seeds)
        log_probs = found.log_probs.numpy().astype(np.float64)
        check_scores(log_probs)
        ones = np.ones(self._num_samples)
        return [
            _most_frequent_first(
                _distinct(
                    [text.decode() for text in texts],
                    log_probs[row],
                    ones,
                    ones / self._num_samples,
                    bool(is_truncated),
                )
            )
            for row, (texts, is_truncated) in enumerate(
                zip(found.text.numpy(), found.truncated.numpy(), strict=True)
            )
        ]

    def _seeds(self, line: bytes) -> np.ndarray:
        """Returns the seeds of the samples of a sentence, `(samples,)`."""
        key = self._seed.to_bytes(8, "little")
        digest = hashlib.blake2b(line, digest_size=8, key=key).digest()
        first = np.frombuffer(digest, np.uint64)
        return (first + np.arange(self._num_samples, dtype=np.uint64)).view(np.int64)


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

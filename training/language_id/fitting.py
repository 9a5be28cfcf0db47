"""Fitting a language classifier by stochastic gradient descent."""

import random
from collections.abc import Mapping, Sequence

import numpy as np
import tqdm

from tf_transformer.language_id.classifier import UNDETERMINED, LanguageClassifier
from tf_transformer.language_id.ngrams import find_ngrams
from training.language_id.known_texts import random_part
from training.language_id.unknown_texts import make_unknown_texts

_BATCH = 256
_LEARNING_RATE = 1.0
_EPSILON = 1e-12
_LARGEST = 2**15 - 1  # of 16 bits


def fit_classifier(
    texts: Mapping[str, Sequence[str]],
    *,
    num_buckets: int,
    epochs: int,
    threshold: float,
    seed: int,
) -> LanguageClassifier:
    """Minimizes the cross-entropy of the languages of texts.

    Every text is seen once in an epoch, and with probability 1/2 only a part of it, a few words, so
    that short texts are recognized, too. All languages have the same weight, however many texts
    they have. The optimizer is Adagrad (Duchi et al., 2011), which makes large steps for rare
    n-grams. The result depends on the texts and the seed only.

    Besides the languages there is the class `UNDETERMINED`, of random text in scripts of which the
    texts have none.

    Args:
        texts: texts by their language.
        num_buckets: number of buckets of n-grams, a power of two.
        epochs: how often each text is seen.
        threshold: see `LanguageClassifier`.
        seed: seed of the order and the parts of the texts.
    """
    draw = random.Random(seed)
    unknown = make_unknown_texts(texts, draw)
    if unknown:
        texts = {**texts, UNDETERMINED: unknown}
    languages = tuple(texts)
    examples = [
        (text, index) for index, language in enumerate(languages) for text in texts[language]
    ]
    total = len(examples)
    balance = np.array([total / (len(languages) * len(texts[name])) for name in languages])
    weights = np.zeros((num_buckets, len(languages)))
    squares = np.full_like(weights, _EPSILON)
    with tqdm.tqdm(total=epochs * total, desc="training", unit=" texts", disable=None) as progress:
        for _ in range(epochs):
            draw.shuffle(examples)
            for begin in range(0, total, _BATCH):
                batch = examples[begin : begin + _BATCH]
                parts = [
                    random_part(text, draw) if draw.random() < 0.5 else text for text, _ in batch
                ]
                labels = np.array([index for _, index in batch])
                gradient = _gradient(weights, parts, labels, balance)
                squares += gradient**2
                weights -= _LEARNING_RATE * gradient / np.sqrt(squares)
                progress.update(len(batch))
    # The softmax does not depend on the mean over the languages.
    weights -= weights.mean(axis=1, keepdims=True)
    scale = float(np.float32(max(np.abs(weights).max(), _EPSILON) / _LARGEST))
    rounded = np.clip(np.round(weights / scale), -_LARGEST, _LARGEST).astype(np.int16)
    return LanguageClassifier(languages, rounded, scale, float(np.float32(threshold)))


def _gradient(
    weights: np.ndarray, texts: Sequence[str], labels: np.ndarray, balance: np.ndarray
) -> np.ndarray:
    """Returns the gradient of the loss of a batch.

    Args:
        weights: `(buckets, languages)`.
        texts: the texts.
        labels: `(texts,)`, indices of their languages.
        balance: `(languages,)`, weight of the loss of each language.
    """
    num_buckets, num_languages = weights.shape
    found = list(find_ngrams([text.encode() for text in texts], num_buckets))
    rows, buckets = (np.concatenate(parts) for parts in zip(*found, strict=True))
    counts = np.maximum(np.bincount(rows, minlength=len(texts)), 1)
    means = np.stack(
        [
            np.bincount(rows, weights[buckets, index], minlength=len(texts)) / counts
            for index in range(num_languages)
        ],
        axis=1,
    )
    probabilities = np.exp(means - means.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    probabilities[np.arange(len(texts)), labels] -= 1
    by_row = probabilities * (balance[labels] / counts)[:, np.newaxis]
    return np.stack(
        [
            np.bincount(buckets, by_row[rows, index], minlength=num_buckets)
            for index in range(num_languages)
        ],
        axis=1,
    )

"""A linear classifier of languages over hashed n-grams, in NumPy.

    log p(language | text) = log softmax(mean over the n-grams g of the text of W[bucket(g)])

This is fastText's supervised classifier (Joulin et al., 2017, "Bag of Tricks for Efficient Text
Classification") over bytes, with one factor less: W is `(buckets, languages)`, not the product of
two narrow matrices. W is stored in 16 bits with one scale, and the sum over the n-grams is one of
integers: it is exact, so a text has the same scores in every batch, order and implementation, up to
the rounding of the softmax.

This module does not import TensorFlow.
"""

import dataclasses
import functools
import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tf_transformer.errors import InputError
from tf_transformer.language_id.ngrams import MAX_BYTES, find_ngrams
from tf_transformer.printable import shown

# The code for undetermined languages, ISO 639-2.
UNDETERMINED = "und"
MAX_LANGUAGES = 256
MIN_BUCKETS, MAX_BUCKETS = 2**8, 2**22
MAX_WEIGHTS = 2**26
_NAME = re.compile("[A-Za-z][A-Za-z0-9_-]{0,31}")
# Bytes of texts whose n-grams are looked up at a time, so that memory is bounded.
_BYTES_AT_ONCE = 2**16


class Scores(NamedTuple):
    """Scores of texts.

    Attributes:
        log_probs: `(texts, languages)` float64, log-probabilities.
        num_ngrams: `(texts,)` int64, how many n-grams they are based on; without any, as of a text
            of digits, all languages are equally probable.
    """

    log_probs: np.ndarray
    num_ngrams: np.ndarray


class Identified(NamedTuple):
    """The languages of texts.

    Attributes:
        languages: the most probable language of each text, or `UNDETERMINED`.
        probabilities: `(texts,)` float64, the probability of the most probable language.
    """

    languages: list[str]
    probabilities: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class LanguageClassifier:
    """A classifier of languages.

    Args:
        languages: names of the languages; the last one may be `UNDETERMINED`, a class of its own
            for text in none of the others.
        weights: `(buckets, languages)` int16, W divided by `scale`.
        scale: positive factor of the weights.
        threshold: a text whose most probable language is less probable is undetermined.

    Raises:
        InputError: a name is not valid or repeated, or an array has another shape or type, or a
            number is out of range.
    """

    languages: tuple[str, ...]
    weights: np.ndarray
    scale: float
    threshold: float

    def __post_init__(self) -> None:
        check_languages(self.languages)
        num_buckets = len(self.weights)
        check_num_buckets(num_buckets, len(self.languages))
        if self.weights.shape != (num_buckets, len(self.languages)):
            raise InputError(f"expected weights of all languages, got {self.weights.shape}")
        if self.weights.dtype != np.int16:
            raise InputError(f"expected weights of 16 bits, got {self.weights.dtype}")
        if not 0 < self.scale < np.inf:
            raise InputError(f"expected a scale above 0, got {self.scale}")
        check_threshold(self.threshold)

    @functools.cached_property
    def digest(self) -> str:
        """BLAKE2 digest of all that the answers depend on."""
        numbers = np.array([self.scale, self.threshold], "<f4")  # as in the file
        facts = repr((self.languages, self.weights.shape)).encode()
        digest = hashlib.blake2b(facts + numbers.tobytes(), digest_size=16)
        digest.update(np.ascontiguousarray(self.weights, "<i2").data)
        return digest.hexdigest()

    def score(self, texts: Sequence[bytes]) -> Scores:
        """Returns the scores of texts.

        Args:
            texts: any bytes, of which the first `MAX_BYTES` count.
        """
        parts = [self._score(part) for part in _parts(texts)]
        return Scores(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def _score(self, texts: Sequence[bytes]) -> Scores:
        sums = np.zeros((len(texts), len(self.languages)), np.int32)
        num_ngrams = np.zeros(len(texts), np.int64)
        for rows, buckets in find_ngrams(texts, len(self.weights)):
            num_ngrams += np.bincount(rows, minlength=len(texts))
            present, starts = np.unique(rows, return_index=True)
            if len(present):
                found = self.weights[buckets].astype(np.int32)
                sums[present] += np.add.reduceat(found, starts, axis=0)
        logits = sums * (self.scale / np.maximum(num_ngrams, 1))[:, np.newaxis]
        logits -= logits.max(axis=1, keepdims=True)
        log_sums = np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return Scores(logits - log_sums, num_ngrams)

    def identify(self, texts: Sequence[bytes]) -> Identified:
        """Returns the language of each text.

        Args:
            texts: any bytes, of which the first `MAX_BYTES` count.
        """
        scores = self.score(texts)
        best = scores.log_probs.argmax(axis=1)
        probabilities = np.exp(scores.log_probs.max(axis=1))
        is_known = (probabilities >= self.threshold) & (scores.num_ngrams > 0)
        names = [
            self.languages[index] if known else UNDETERMINED
            for index, known in zip(best.tolist(), is_known.tolist(), strict=True)
        ]
        return Identified(names, probabilities)

    def index(self, language: str, option: str) -> int:
        """Returns the index of a language.

        Args:
            language: its name.
            option: the option that names it, for the message.

        Raises:
            InputError: the classifier does not know it.
        """
        known = [name for name in self.languages if name != UNDETERMINED]
        if language not in known:
            raise InputError(
                f"{option} {shown(language)}: expected a language of the classifier, one of "
                f"{', '.join(known)}"
            )
        return self.languages.index(language)


def _parts(texts: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Divides texts into parts of limited size; yields at least one, which may be empty."""
    begin, num_bytes = 0, 0
    for index, text in enumerate(texts):
        num_bytes += min(len(text), MAX_BYTES) + 2
        if num_bytes > _BYTES_AT_ONCE:
            yield texts[begin:index]
            begin, num_bytes = index, min(len(text), MAX_BYTES) + 2
    yield texts[begin:]


def check_languages(languages: Sequence[str]) -> None:
    """Checks the names of languages, of which the last one may be `UNDETERMINED`.

    Raises:
        InputError: there are fewer than two or more than `MAX_LANGUAGES`, or a name is not valid or
            repeated.
    """
    if languages and languages[-1] == UNDETERMINED:
        languages = languages[:-1]
    if not 2 <= len(languages) <= MAX_LANGUAGES:
        raise InputError(f"expected 2 to {MAX_LANGUAGES} languages, got {len(languages)}")
    for language in languages:
        if not _NAME.fullmatch(language) or language == UNDETERMINED:
            raise InputError(
                f"expected the name of a language, such as en or zh-Hant, got {shown(language)}"
            )
        if list(languages).count(language) > 1:
            raise InputError(f"the language {language} is given twice")


def check_num_buckets(num_buckets: int, num_languages: int) -> None:
    """Checks a number of buckets.

    Raises:
        InputError: it is not a power of two, too small, or too large for so many languages.
    """
    most = min(MAX_BUCKETS, MAX_WEIGHTS // num_languages)
    if not MIN_BUCKETS <= num_buckets <= most or num_buckets & (num_buckets - 1):
        raise InputError(
            f"expected a power of two from {MIN_BUCKETS:,} to {most:,} as the number of buckets "
            f"for {num_languages} languages, got {num_buckets:,}"
        )


def check_threshold(threshold: float) -> None:
    """Checks a threshold of probabilities.

    Raises:
        InputError: it is not from 0 to 1.
    """
    if not 0 <= threshold <= 1:
        raise InputError(f"expected a probability from 0 to 1 as the threshold, got {threshold}")

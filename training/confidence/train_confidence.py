"""Calibrates the confidence of words on a corpus with references."""

import collections
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tf_transformer.command_line.progress import progress_bar
from tf_transformer.confidence.calibration import (
    confidences,
    expected_calibration_error,
    fit,
)
from tf_transformer.confidence.word_confidences import word_log_odds
from tf_transformer.errors import InputError
from tf_transformer.inference.translator import Translator
from tf_transformer.text.word_characters import is_unspaced

_PUNCTUATION = re.compile(r"^\W+|\W+$")
_BATCH = 256


class Fit(NamedTuple):
    """A calibration on the first half of a corpus, and its errors on the second.

    Attributes:
        scale: see `Calibration`.
        offset: see `Calibration`.
        num_words: number of words of the second half.
        share_right: share of its words that are right.
        errors: expected calibration errors: of words with the model's probabilities, of words with
            confidences, and of sentences, whose outcome is the share of words that are right.
    """

    scale: float
    offset: float
    num_words: int
    share_right: float
    errors: dict[str, float]


def right_words(words: Sequence[str], reference: str) -> list[bool]:
    """Returns which words occur in a reference, as often as there; edges of punctuation aside.

    In a script without spaces between words, a word occurs where its characters do.

    Args:
        words: words of a translation.
        reference: the reference.
    """
    counts = collections.Counter(map(_bare, reference.split()))
    folded = reference.casefold()
    found = []
    for word in map(_bare, words):
        if is_unspaced(word[:1]) and word not in counts:
            counts[word] = folded.count(word)
        found.append(counts[word] > 0)
        counts[word] -= 1
    return found


def train_confidence(
    translator: Translator, sources: Sequence[str], references: Sequence[str]
) -> Fit:
    """Translates a corpus and calibrates the probabilities of the words of the translations.

    The translations that have words, and a reference that is not blank, are halved in turn: the
    first, the third and so on are for the fit, the others for the errors.

    Args:
        translator: the translator.
        sources: the sources.
        references: their references.

    Raises:
        InputError: as `fit`, or fewer than two translations have words and a reference.
    """
    compute = tf.function(
        lambda source, target: word_log_odds(translator, source, target),
        input_signature=[tf.TensorSpec([None], tf.string)] * 2,
        autograph=False,
    )
    rows = []
    texts = [
        best[0].text for best in translator.translate_lines(sources, description="translating")
    ]
    starts = range(0, len(texts), _BATCH)
    for start in progress_bar(iterable=starts, desc="scoring words", unit=" batches"):
        batch = slice(start, start + _BATCH)
        words, log_odds = compute(tf.constant(sources[batch]), tf.constant(texts[batch]))
        for row, reference in enumerate(references[batch]):
            decoded = [word.decode() for word in words[row].numpy()]
            outcomes = np.array(right_words(decoded, reference), float)
            if outcomes.size and reference.strip():
                rows.append((log_odds[row].numpy(), outcomes))
    if len(rows) < 2:
        raise InputError(
            f"expected at least 2 translations with words, and with a reference. Received: "
            f"{len(rows)}, of {len(texts):,} sources"
        )
    log_odds, is_right = _joined(rows[::2])
    scale, offset = fit(log_odds, is_right)
    _, held_out = _joined(rows[1::2])
    errors = _errors(rows[1::2], scale, offset)
    return Fit(scale, offset, held_out.size, float(held_out.mean()), errors)


def _joined(rows):
    """Returns the log odds and the outcomes of the words of all rows, `(words,)` each."""
    log_odds, is_right = zip(*rows, strict=True)
    return np.concatenate(log_odds), np.concatenate(is_right)


def _errors(rows, scale, offset):
    odds, right = _joined(rows)
    of_sentences = np.array(
        [
            (confidences(log_odds, scale, offset).mean(), outcome.mean())
            for log_odds, outcome in rows
        ]
    )
    return {
        "words, probabilities": expected_calibration_error(confidences(odds, 1.0, 0.0), right),
        "words, confidences": expected_calibration_error(confidences(odds, scale, offset), right),
        "sentences, confidences": expected_calibration_error(*of_sentences.T),
    }


def _bare(word: str) -> str:
    return _PUNCTUATION.sub("", word).casefold() or word

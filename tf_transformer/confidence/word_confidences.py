"""Translations with the confidence of each word and of the whole, as part of a graph."""

from typing import NamedTuple

import tensorflow as tf

from tf_transformer.confidence.calibration import LARGEST_LOG_ODDS, Calibration
from tf_transformer.confidence.readable_words import readable_words
from tf_transformer.decoding.translation_options import TranslationOptions
from tf_transformer.inference.scorer import score_pairs
from tf_transformer.inference.translator import Translator
from tf_transformer.word_alignment.piece_words import group_by_word


class WordLogOdds(NamedTuple):
    """The words of translations, ragged `(batch, (words))` each.

    Attributes:
        words: strings.
        log_odds: float32, log p / (1 - p), where p is the product of the probabilities of the
            word's pieces, given the source and all words before.
    """

    words: tf.RaggedTensor
    log_odds: tf.RaggedTensor


class ConfidentTranslations(NamedTuple):
    """Translations with confidences, `(batch,)` each.

    Attributes:
        text: UTF-8 strings.
        scores: float32, see `Translations`.
        words: strings, the words of each translation, separated by spaces.
        word_confidences: strings, a number from 0 to 1 for each word, separated by spaces.
        confidences: float32, their mean, the expected share of words that are right; 1 without
            words.
        truncated: bool, see `Translations`.
    """

    text: tf.Tensor
    scores: tf.Tensor
    words: tf.Tensor
    word_confidences: tf.Tensor
    confidences: tf.Tensor
    truncated: tf.Tensor


def translate_with_confidence(
    translator: Translator,
    calibration: Calibration,
    text: tf.Tensor,
    options: TranslationOptions | None = None,
) -> ConfidentTranslations:
    """Translates sentences, and scores each translation in one more pass of the decoder.

    Args:
        translator: the translator.
        calibration: that of its model.
        text: `(batch,)` strings.
        options: per-sentence options; None means those of the translator.
    """
    found = translator.translate_in_graph(text, options)
    best = found.text[:, 0]
    words, log_odds = word_log_odds(translator, text, best)
    values = tf.sigmoid(calibration.scale * log_odds.flat_values + calibration.offset)
    shown = log_odds.with_flat_values(tf.strings.as_string(values, precision=3))
    has_words = words.row_lengths() > 0
    mean = tf.reduce_mean(log_odds.with_flat_values(values), axis=1)
    return ConfidentTranslations(
        best,
        found.scores[:, 0],
        tf.strings.reduce_join(words, axis=1, separator=" "),
        tf.strings.reduce_join(shown, axis=1, separator=" "),
        tf.where(has_words, mean, 1.0),
        found.truncated,
    )


def word_log_odds(translator: Translator, source: tf.Tensor, target: tf.Tensor) -> WordLogOdds:
    """Computes the log odds of the words of translations, as part of a graph.

    See `readable_words` for what a word is.

    Args:
        translator: the translator.
        source: `(batch,)` strings.
        target: `(batch,)` strings, their translations.
    """
    tokenizer = translator.target_tokenizer
    ids = tokenizer.tokenize(target)[:, : translator.source_limit]
    log_probs = score_pairs(translator, source, target).token_log_probs
    of_pieces = tf.RaggedTensor.from_tensor(log_probs, ids.row_lengths())
    words = readable_words(ids, tokenizer)
    log_p = tf.reduce_sum(group_by_word(of_pieces, words), axis=2)
    texts = tokenizer.detokenize(group_by_word(ids, words).values)
    return WordLogOdds(
        log_p.with_flat_values(texts), log_p.with_flat_values(_log_odds(log_p.flat_values))
    )


def _log_odds(log_p: tf.Tensor) -> tf.Tensor:
    """Returns log(p / (1 - p)) of log p, within `LARGEST_LOG_ODDS`."""
    log_p = tf.minimum(log_p, -1e-9)
    odds = log_p - tf.math.log(-tf.math.expm1(log_p))
    return tf.clip_by_value(odds, -LARGEST_LOG_ODDS, LARGEST_LOG_ODDS)

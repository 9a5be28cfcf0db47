"""The confidence of a word is that of the product of its pieces' probabilities."""

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.confidence.calibration import Calibration, confidences
from tf_transformer.confidence.word_confidences import translate_with_confidence, word_log_odds
from tf_transformer.inference.scorer import score_pairs
from tf_transformer.inference.translator import Translator

pytestmark = pytest.mark.slow

SOURCES = ["Peter bought 3 lamps.", "", "Anna was born on Monday, 3 May 1999.", " ", "Two weeks"]
TARGETS = ["Peter kaufte 3 Lampen.", "nichts", "", "", "zwei  Wochen"]


@pytest.fixture(scope="module")
def translator(talkative):
    return Translator.load(talkative, beam_size=1)


def test_words_and_their_probabilities(translator):
    """By hand, with the pieces of each word as SentencePiece shows them."""
    words, log_odds = word_log_odds(translator, tf.constant(SOURCES), tf.constant(TARGETS))
    scores = score_pairs(translator, tf.constant(SOURCES), tf.constant(TARGETS)).token_log_probs
    for row, target in enumerate(TARGETS):
        by_word = []
        for id_, log_prob in zip(
            translator.target_tokenizer.encode([target])[0], scores[row].numpy(), strict=False
        ):
            piece = translator.target_tokenizer.pieces[id_]
            if piece.startswith("\u2581") or not by_word:
                by_word.append(["", 0.0])
            by_word[-1][0] += piece.replace("\u2581", "")
            by_word[-1][1] += float(log_prob)
        assert [word.decode() for word in words[row].numpy()] == [word for word, _ in by_word]
        p = np.exp([log_p for _, log_p in by_word])
        np.testing.assert_allclose(
            1 / (1 + np.exp(-log_odds[row].numpy())), p, rtol=1e-3, atol=1e-6
        )
    assert words[0].numpy().tolist() == TARGETS[0].encode().split()


def test_translations_with_confidences(translator):
    calibration = Calibration(0.7, 0.4, "")
    found = translate_with_confidence(translator, calibration, tf.constant(SOURCES))
    texts = [text.decode() for text in found.text.numpy()]
    assert texts == translator(SOURCES)
    _, log_odds = word_log_odds(translator, tf.constant(SOURCES), found.text)
    for row, text in enumerate(texts):
        assert found.words[row].numpy().decode() == " ".join(text.split())
        expected = confidences(log_odds[row].numpy(), 0.7, 0.4)
        written = [float(value) for value in found.word_confidences[row].numpy().split()]
        np.testing.assert_allclose(written, expected, atol=6e-4)
        mean = expected.mean() if expected.size else 1.0
        np.testing.assert_allclose(found.confidences[row], mean, rtol=1e-5)


def test_rows_are_apart(translator):
    together = word_log_odds(translator, tf.constant(SOURCES), tf.constant(TARGETS))
    for row in range(len(SOURCES)):
        alone = word_log_odds(
            translator, *(tf.constant(x[row : row + 1]) for x in (SOURCES, TARGETS))
        )
        np.testing.assert_allclose(alone.log_odds[0], together.log_odds[row], rtol=1e-3, atol=1e-4)

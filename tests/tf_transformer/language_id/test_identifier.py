"""The classifier in a graph: equal to plain Python, for any bytes, in any batch."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tf_transformer.language_id.reference import ODD, log_probs, random_classifier
from tf_transformer.language_id.classifier import UNDETERMINED
from tf_transformer.language_id.identifier import LanguageIdentifier

CLASSIFIER = random_classifier(num_buckets=2**16)


class Served(tf.Module):
    """An identifier with one signature."""

    def __init__(self, classifier):
        super().__init__()
        self.identifier = LanguageIdentifier(classifier)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def language(self, text):
        found = self.identifier.identify(text)
        return {"language": found.languages, "probability": found.probabilities}


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """Asks a SavedModel; returns languages and probabilities."""
    path = str(tmp_path_factory.mktemp("saved") / "model")
    served = Served(CLASSIFIER)
    tf.saved_model.save(served, path, signatures={"language": served.language})
    loaded = tf.saved_model.load(path)
    signature = loaded.signatures["language"]

    def ask(texts):
        answer = signature(text=tf.constant(list(texts), tf.string, [len(texts)]))
        assert loaded is not None
        return answer["language"].numpy().tolist(), answer["probability"].numpy()

    return ask


def check(texts, languages, probabilities):
    """Compares answers with plain Python."""
    assert len(languages) == len(probabilities) == len(texts)
    for text, language, probability in zip(texts, languages, probabilities, strict=True):
        expected = np.exp(log_probs(CLASSIFIER, text))
        np.testing.assert_allclose(probability, expected.max(), rtol=1e-5)
        if abs(expected.max() - CLASSIFIER.threshold) > 1e-4:
            name = f"l{expected.argmax()}"
            is_known = expected.max() >= CLASSIFIER.threshold
            assert language.decode() == (name if is_known else UNDETERMINED), text


def test_odd_texts(ask):
    check(ODD, *ask(ODD))
    assert {*ask(ODD)[0]} == {b"l0", b"l1", b"l2", b"und"}


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.binary(max_size=80) | st.text(max_size=40).map(str.encode), max_size=5))
def test_any_bytes(ask, texts):
    check(texts, *ask(texts))


def test_rows_do_not_depend_on_each_other(ask):
    languages, probabilities = ask(ODD)
    for row, text in enumerate(ODD):
        for batch, place in (([text], 0), ([*ODD[5:], text], len(ODD) - 5), ([text] * 7, 3)):
            others = ask(batch)
            assert others[0][place] == languages[row]
            np.testing.assert_allclose(others[1][place], probabilities[row], rtol=1e-6)


def test_ten_megabytes_in_one_string(ask):
    begin = "Größe und ".encode() * 200
    languages, probabilities = ask([begin + b"\xff" * 10_000_000, begin[:1024], b""])
    assert languages[0] == languages[1]
    assert probabilities[0] == probabilities[1]
    check([begin], languages[:1], probabilities[:1])


def test_an_empty_batch(ask):
    languages, probabilities = ask([])
    assert languages == [] and probabilities.shape == (0,)


def test_same_answers_as_numpy(ask):
    found = CLASSIFIER.identify(ODD)
    languages, probabilities = ask(ODD)
    assert [name.decode() for name in languages] == found.languages
    np.testing.assert_allclose(probabilities, found.probabilities, rtol=1e-5)

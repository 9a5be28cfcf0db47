"""The classifier against plain Python, and what its scores depend on."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tf_transformer.language_id.reference import ODD, log_probs, random_classifier
from tf_transformer.errors import InputError
from tf_transformer.language_id import classifier as classifier_module
from tf_transformer.language_id.classifier import UNDETERMINED, LanguageClassifier


@pytest.mark.parametrize("num_languages", [2, 5])
def test_scores(num_languages):
    classifier = random_classifier(num_languages)
    found = classifier.score(ODD)
    expected = [log_probs(classifier, text) for text in ODD]
    np.testing.assert_allclose(found.log_probs, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(np.exp(found.log_probs).sum(axis=1), 1)
    assert (found.num_ngrams[:4] == 0).all() and (found.num_ngrams[4:] > 0).all()
    np.testing.assert_allclose(found.log_probs[:4], -np.log(num_languages))


@pytest.mark.slow
@given(st.lists(st.binary(max_size=60) | st.sampled_from(ODD), max_size=6))
def test_a_text_does_not_depend_on_the_others(texts):
    """Bit by bit, also across the parts into which many texts are divided."""
    classifier = random_classifier()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classifier_module, "_BYTES_AT_ONCE", 50)
        found = classifier.score(texts)
    assert found.log_probs.shape == (len(texts), 3)
    for text, scores in zip(texts, found.log_probs, strict=True):
        np.testing.assert_array_equal(classifier.score([text]).log_probs[0], scores)
        np.testing.assert_array_equal(classifier.score([text, *ODD]).log_probs[0], scores)


def test_only_the_begin_counts():
    classifier = random_classifier()
    text = b"some words " * 200
    begin = classifier.score([text[:1024]]).log_probs
    np.testing.assert_array_equal(classifier.score([text]).log_probs, begin)
    np.testing.assert_array_equal(
        classifier.score([text[:1024] + b"\xff" * 10**7]).log_probs, begin
    )
    assert (classifier.score([text[:1023]]).log_probs != begin).any()


def test_identify():
    classifier = random_classifier(threshold=0.6)
    found = classifier.identify(ODD)
    expected = np.exp([log_probs(classifier, text) for text in ODD])
    np.testing.assert_allclose(found.probabilities, expected.max(axis=1), rtol=1e-9)
    names = [f"l{row.argmax()}" if row.max() >= 0.6 else UNDETERMINED for row in expected]
    assert found.languages == names
    assert len({*names}) == 4  # all languages, and none
    # Without a letter there is nothing to go by, whatever the threshold.
    sure = dataclasses.replace(classifier, threshold=0.0)
    assert sure.identify(ODD).languages[:5] == [UNDETERMINED] * 4 + [f"l{expected[4].argmax()}"]
    empty = classifier.identify([])
    assert empty.languages == [] and empty.probabilities.shape == (0,)


def test_extreme_weights_do_not_overflow():
    weights = np.full((2**8, 2), [2**15 - 1, -(2**15)], np.int16)
    found = LanguageClassifier(("a", "b"), weights, 1.0, 0.5).score([b"x" * 2000])
    np.testing.assert_allclose(found.log_probs, [[0, -(2**16 - 1)]])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(languages=("en",)), "expected 2 to 256 languages, got 1"),
        (dict(languages=("en", "en", "de")), "the language en is given twice"),
        (dict(languages=("en", "und")), "expected 2 to 256 languages, got 1"),
        (dict(languages=("en", "und", "de")), "expected the name of a language, .* got 'und'"),
        (dict(languages=("en", "de", "a\nb")), r"expected the name of a language, .* got 'a\\nb'"),
        (dict(languages=("en", "de")), r"expected weights of all languages, got \(1024, 3\)"),
        (dict(weights=np.zeros((1000, 3), np.int16)), "expected a power of two from 256 to"),
        (dict(weights=np.zeros((128, 3), np.int16)), "number of buckets for 3 languages, got 128"),
        (dict(weights=np.zeros((256, 3), np.int32)), "expected weights of 16 bits, got int32"),
        (dict(scale=0.0), "expected a scale above 0, got 0.0"),
        (dict(scale=float("nan")), "expected a scale above 0, got nan"),
        (dict(threshold=1.5), "expected a probability from 0 to 1 as the threshold, got 1.5"),
        (dict(threshold=float("nan")), "as the threshold, got nan"),
    ],
    ids=str,
)
def test_what_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        dataclasses.replace(random_classifier(), **changes)


def test_the_digest_follows_the_content():
    classifier = random_classifier()
    same = random_classifier()
    assert same.digest == classifier.digest
    weights = classifier.weights.copy()
    weights[5, 1] ^= 1
    for changes in (
        dict(weights=weights),
        dict(languages=("l0", "l2", "l1")),
        dict(scale=2e-3),
        dict(threshold=0.5),
    ):
        assert dataclasses.replace(classifier, **changes).digest != classifier.digest


def test_undetermined_texts_can_have_a_class():
    classifier = random_classifier()
    found = dataclasses.replace(classifier, languages=("en", "de", UNDETERMINED)).identify(ODD)
    expected = [{"l0": "en", "l1": "de", "l2": "und"}.get(name, name)
                for name in classifier.identify(ODD).languages]  # fmt: skip
    assert found.languages == expected


def test_an_unknown_language():
    assert random_classifier().index("l1", "--to") == 1
    with pytest.raises(InputError, match=r"--to 'fr': expected a language .* one of l0, l1, l2"):
        random_classifier().index("fr", "--to")

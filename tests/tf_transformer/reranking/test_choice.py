"""Scores of candidates, compared with sacreBLEU and plain Python."""

import math

import numpy as np
import pytest
import sacrebleu

from tests.tf_transformer.reranking.test_utilities import drawn_texts
from tf_transformer.reranking.candidates import Candidates, _distinct, _most_frequent_first
from tf_transformer.reranking.choice import expected_utilities, noisy_channel_scores, ranking

METRICS = {"chrf": sacrebleu.CHRF(), "bleu": sacrebleu.BLEU(effective_order=True)}


def candidates(texts, weights=None):
    count = len(texts)
    weights = np.full(count, 1 / count) if weights is None else np.array(weights)
    return Candidates(list(texts), np.zeros(count), np.ones(count), weights, False)


@pytest.mark.parametrize("utility", METRICS)
@pytest.mark.parametrize("seed", range(4))
def test_the_choice_by_brute_force(utility, seed):
    texts = list(dict.fromkeys(drawn_texts(seed, 9)))
    weights = np.random.default_rng(seed).dirichlet(np.ones(len(texts)))
    score = METRICS[utility].sentence_score
    expected = [
        sum(w * score(one, [other]).score for w, other in zip(weights, texts, strict=True))
        for one in texts
    ]
    found = expected_utilities(candidates(texts, weights), utility)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert ranking(found)[0] == np.argmax(np.round(expected, 9))


def test_duplicates_count_as_often_as_they_are_drawn():
    """The expected utility over the samples, each of weight 1 / N."""
    samples = ["a b c", "a b d", "a b c", "x", "a b d", "a b c"]
    ones = np.ones(len(samples))
    merged = _most_frequent_first(_distinct(samples, -ones, ones, ones / len(samples), False))
    assert merged.texts == ["a b c", "a b d", "x"]
    np.testing.assert_allclose(merged.weights, [3 / 6, 2 / 6, 1 / 6])
    score = METRICS["chrf"].sentence_score
    expected = [np.mean([score(y, [r]).score for r in samples]) for y in merged.texts]
    np.testing.assert_allclose(expected_utilities(merged), expected, atol=1e-6)


def test_the_tokenizer_of_bleu():
    texts = ["我们在公园里散步", "我们在公园里跑步"]
    assert expected_utilities(candidates(texts), "bleu", "13a").tolist() == [50.0, 50.0]
    assert expected_utilities(candidates(texts), "bleu", "zh")[0] > 60


def test_ties_are_decided_by_the_order():
    """Neither has anything in common with the other; rounding must not decide."""
    found = expected_utilities(candidates(["abc", "xyz", "uvw"], [0.3, 0.3, 0.4]))
    assert found.tolist() == [30.0, 30.0, 40.0]
    assert ranking(found).tolist() == [2, 0, 1]
    halves = np.tile([1.0, 2.0], 100)  # long enough for a sort that is not stable
    assert ranking(halves).tolist() == [*range(1, 200, 2), *range(0, 200, 2)]


def test_a_single_candidate():
    assert expected_utilities(candidates(["anything"])).tolist() == [100.0]
    assert expected_utilities(candidates([""]), "bleu").tolist() == [100.0]


def test_outputs_that_the_search_lacks_are_left_out():
    found = _distinct(
        ["a", "b", "a", ""],
        np.array([-1.0, -2.0, -3.0, -math.inf]),
        np.array([1.0, 2.0, 3.0, 4.0]),
        np.array([0.6, 0.3, 0.1, 0.0]),
        True,
    )
    assert found.texts == ["a", "b"] and found.truncated
    assert found.log_probs.tolist() == [-1.0, -2.0]
    assert found.penalties.tolist() == [1.0, 2.0]
    np.testing.assert_allclose(found.weights, [0.7, 0.3])


def test_noisy_channel():
    one = Candidates(
        ["a", "b"], np.array([-4.0, -5.0]), np.array([2.0, 4.0]), np.ones(2) / 2, False
    )
    others = np.array([-10.0, -1.0]), np.array([-3.0, -6.0])
    found = noisy_channel_scores(one, *others, 0.5, 0.25)
    np.testing.assert_allclose(found, [(-4 - 5 - 0.75) / 2, (-5 - 0.5 - 1.5) / 4])
    np.testing.assert_allclose(noisy_channel_scores(one, *others, 0.0, 0.0), [-2.0, -1.25])

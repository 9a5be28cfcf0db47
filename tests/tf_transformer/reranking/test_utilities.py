"""Sentence chrF and BLEU of all pairs, compared with sacreBLEU."""

import random
from collections import Counter

import numpy as np
import pytest
import sacrebleu

from tf_transformer.reranking import ngram_matches as module
from tf_transformer.reranking.ngram_matches import ngram_matches
from tf_transformer.reranking.utilities import pairwise_bleu, pairwise_chrf

ODD = [
    "",
    "   ",
    "a",
    "a b",
    "aaaaaaaa aaaaaaaa",
    "The cat sat on the mat.",
    "The cat sat on the mat",
    "the the the the the the the",
    "It is the guiding principle; it is the principle, it is.",
    "Zwei Männer 😀 \u00a0 sitzen im Café\u0301.",
    "我们在公园里散步。",
    "\ud800 lone",
]


def drawn_texts(seed, number=12):
    draw = random.Random(seed)
    return [
        " ".join(draw.choices(["ab", "abc", "b", "der", "dem", ",", "Hund."], k=draw.randint(0, 9)))
        for _ in range(number)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_common_ngrams_by_counting(seed):
    draw = np.random.default_rng(seed)
    sequences = [draw.integers(0, 3, draw.integers(0, 12)) for _ in range(7)]
    found = ngram_matches(sequences, 4)
    for order in range(1, 5):
        counts = [
            Counter(tuple(x[i : i + order].tolist()) for i in range(len(x) - order + 1))
            for x in sequences
        ]
        assert found.totals[order - 1].tolist() == [c.total() for c in counts]
        expected = [[(one & other).total() for other in counts] for one in counts]
        assert found.matches[order - 1].tolist() == expected


def test_common_ngrams_in_blocks(monkeypatch):
    sequences = [np.arange(20) % 7, np.arange(20) % 5, np.arange(3)]
    whole = ngram_matches(sequences, 3)
    monkeypatch.setattr(module, "_BLOCK", 2)
    np.testing.assert_array_equal(ngram_matches(sequences, 3).matches, whole.matches)


@pytest.mark.parametrize("texts", [ODD, drawn_texts(1), drawn_texts(2), ["x"]])
def test_chrf_equals_sacrebleu(texts):
    metric = sacrebleu.CHRF()
    expected = [[metric.sentence_score(h, [r]).score for r in texts] for h in texts]
    np.testing.assert_allclose(pairwise_chrf(texts), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("tokenizer", ["13a", "zh", "char"])
@pytest.mark.parametrize("texts", [ODD[:-1], drawn_texts(3), drawn_texts(4), ["x"]])
def test_bleu_equals_sacrebleu(texts, tokenizer):
    metric = sacrebleu.BLEU(tokenize=tokenizer, effective_order=True)
    expected = [[metric.sentence_score(h, [r]).score for r in texts] for h in texts]
    np.testing.assert_allclose(pairwise_bleu(texts, tokenizer), expected, rtol=1e-12, atol=1e-12)

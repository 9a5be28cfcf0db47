"""Draws of single tokens, compared with the distribution that they come from."""

import numpy as np
import pytest
import tensorflow as tf

from tests.tf_transformer.decoding.scripted_model import BEGIN, END, PAD, ScriptedSteps
from tf_transformer.decoding.sampling import SamplingOptions, sample

# Pad and begin are not drawn; the last token has the smallest probability.
PROBABILITIES = np.array([0.1, 0.1, 0.05, 0.4, 0.2, 0.12, 0.03])
ROWS = 20_000


def shares_of_first_tokens(**given):
    """The share of each token among the first tokens of many samples, `(vocab,)`."""
    logits = tf.constant(np.log(PROBABILITIES), tf.float32)

    def step(newest, state):
        return tf.tile(logits[tf.newaxis, tf.newaxis], [ROWS, 1, 1]), state

    options = {"temperature": 1.0, "top_k": None, "top_p": None, "epsilon": None} | given
    columns = {name: x if x is None else tf.fill([ROWS], x) for name, x in options.items()}
    found = sample(
        ScriptedSteps(step),
        {"state": tf.zeros((ROWS, 1))},
        begin_id=BEGIN,
        end_ids=[END],
        options=SamplingOptions(
            **columns, seed=tf.range(ROWS, dtype=tf.int64), max_length=tf.ones([ROWS], tf.int32)
        ),
        suppressed_ids=(PAD, BEGIN),
    )
    first = np.where(found.lengths == 0, END, found.ids[:, 0])
    np.testing.assert_allclose(
        found.log_probs,
        # The end is forced after the only token.
        np.log(PROBABILITIES)[first] + np.where(first == END, 0.0, np.log(PROBABILITIES[END])),
        rtol=1e-5,
    )
    return np.bincount(first, minlength=len(PROBABILITIES)) / ROWS


@pytest.mark.parametrize("top_k", [None, 0], ids=["unsorted", "sorted"])
@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({}, [2, 3, 4, 5, 6]),
        ({"temperature": 2.0}, [2, 3, 4, 5, 6]),
        ({"epsilon": 0.14}, [3, 4, 5]),
        ({"epsilon": 0.99}, [3]),
        ({"temperature": 0.0}, [3]),
    ],
    ids=["all", "temperature", "epsilon", "large epsilon", "greedy"],
)
def test_shares(given, kept, top_k):
    """0.12 of 0.8 is 0.15, since what is suppressed has no probability."""
    expected = np.zeros(len(PROBABILITIES))
    expected[kept] = PROBABILITIES[kept] ** (1 / (given.get("temperature") or 1.0))
    found = shares_of_first_tokens(**given, top_k=top_k)
    np.testing.assert_allclose(found, expected / expected.sum(), atol=0.015)


def test_top_p_and_epsilon():
    found = shares_of_first_tokens(top_p=0.9, epsilon=0.2)
    np.testing.assert_allclose(found, [0, 0, 0, 2 / 3, 1 / 3, 0, 0], atol=0.015)

"""Greedy search against the beam search of width 1, with every option."""

import functools
import math

import numpy as np
import pytest
import tensorflow as tf

from tests.tf_transformer.decoding.scripted_model import (
    BEGIN,
    END,
    PAD,
    ScriptedSteps,
    first_cache,
    scripted_model,
    step_function,
)
from tf_transformer.decoding.beam_search import Search, beam_search
from tf_transformer.decoding.greedy_search import GreedySearch
from tf_transformer.decoding.search_interface import SearchOptions

SPECIAL = (PAD, BEGIN)
NUM_ROWS = 40
LOOKS = np.random.default_rng(1).dirichlet(np.ones(4), size=9).astype("float32")
RNG = np.random.default_rng(2)
OPTIONS = {
    "length_penalty": RNG.choice([0.0, 0.6, 1.0], NUM_ROWS).astype("float32"),
    "min_length": RNG.integers(0, 5, NUM_ROWS, np.int32),
    "no_repeat_ngram": RNG.integers(0, 4, NUM_ROWS, np.int32),
    "coverage_penalty": RNG.choice([0.0, 0.3], NUM_ROWS).astype("float32"),
    "source_mask": RNG.random((NUM_ROWS, 4)) < 0.8,
    "prefix": np.array([[3, 4, 0], [5, 0, 0], [0, 0, 0], [0, 0, 0]] * 10, np.int32),
}


class AttentiveSteps(ScriptedSteps):
    """Attention that is known, of each newest token."""

    def decode_step(self, newest, parents, position, state, return_attention=False):
        logits, _, state = super().decode_step(newest, parents, position, state)
        return logits, tf.gather(LOOKS, newest) if return_attention else None, state


@functools.cache
def compiled(search, vocab_size, names, end_ids):
    """A search as one graph for all tables and maximum lengths."""

    @tf.function(
        input_signature=[tf.TensorSpec([None, vocab_size]), tf.TensorSpec([None], tf.int32)]
    )
    def run(table, max_lengths):
        steps = AttentiveSteps(step_function(table))
        options = {name: tf.constant(OPTIONS[name]) for name in names}
        if "coverage_penalty" in names:
            options["source_mask"] = tf.constant(OPTIONS["source_mask"])
        arguments = first_cache(tf.range(NUM_ROWS), 1), BEGIN, SearchOptions(max_lengths, **options)
        if search is Search:
            return Search(steps, 1, end_ids, 1, SPECIAL).run(*arguments)
        return GreedySearch(steps, end_ids, SPECIAL).run(*arguments)

    return run


def find(search, model, max_lengths, names=(), end_ids=(END,)):
    """What a search finds with some of the options, as NumPy arrays."""
    found = compiled(search, model.table.shape[1], names, end_ids)(model.table, max_lengths)
    return [part.numpy() for part in found]


@pytest.mark.representatives(every=5)  # without options, and with all
@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [
        (),
        ("length_penalty", "min_length"),
        ("no_repeat_ngram",),
        ("coverage_penalty",),
        ("prefix", "length_penalty"),
        ("length_penalty", "min_length", "no_repeat_ngram", "coverage_penalty", "prefix"),
    ],
    ids="+".join,
)
def test_it_finds_what_a_beam_of_one_finds(names):
    max_lengths = np.array([4 + row % 12 for row in range(NUM_ROWS)], np.int32)
    for biases in ((), ((END, -2.0),), ((PAD, 3.0), (END, 1.0))):
        model = scripted_model(9, biases)
        expected = find(Search, model, max_lengths, names)
        found = find(GreedySearch, model, max_lengths, names)
        width = max(expected[0].shape[2], found[0].shape[2])
        for ids in (expected, found):
            ids[0] = np.pad(ids[0], [(0, 0), (0, 0), (0, width - ids[0].shape[2])])
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[3], expected[3])
        for part, expected_part in zip(found[1:3], expected[1:3], strict=True):
            np.testing.assert_allclose(part, expected_part, rtol=1e-5, atol=1e-5)
        assert len(set(found[3].flat)) > 2  # outputs of several lengths


@pytest.mark.slow
def test_several_ends():
    model, max_lengths = scripted_model(9), np.full(NUM_ROWS, 8, np.int32)
    expected = find(Search, model, max_lengths, end_ids=(END, 5, 4))
    found = find(GreedySearch, model, max_lengths, end_ids=(END, 5, 4))
    np.testing.assert_array_equal(found[3], expected[3])
    np.testing.assert_allclose(found[2], expected[2], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("impossible", [(3, 4, 5, END), (END,)], ids=["all", "the end"])
def test_where_no_token_is_allowed_there_is_no_output(impossible):
    """Suppressed tokens are not chosen, even if the model holds all others impossible."""
    biases = tuple((token, -math.inf) for token in impossible)
    model, max_lengths = scripted_model(6, biases), np.array([0, 1, 5, 9] * 10, np.int32)
    for search in (Search, GreedySearch):
        ids, scores, log_probs, lengths = find(search, model, max_lengths)
        assert not ids.any() and not lengths.any()
        assert (scores == -math.inf).all() and (log_probs == -math.inf).all()


def test_a_beam_of_one_is_this_search():
    model = scripted_model(9)
    steps = AttentiveSteps(step_function(model.table))
    options = SearchOptions(tf.fill([NUM_ROWS], 7), 0.6)
    found = beam_search(
        steps,
        first_cache(tf.range(NUM_ROWS), 1),
        beam_size=1,
        begin_id=BEGIN,
        end_ids=[END],
        options=options,
        suppressed_ids=SPECIAL,
    )
    search = GreedySearch(steps, (END,), SPECIAL)
    expected = search.run(first_cache(tf.range(NUM_ROWS), 1), BEGIN, options)
    for part, expected_part in zip(found, expected, strict=True):
        np.testing.assert_array_equal(part, expected_part)

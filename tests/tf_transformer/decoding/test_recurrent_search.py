"""Beam search with recurrent layers, whose states have to follow their hypotheses at every step.

And with the presets for fast decoding, of which one has such layers.
"""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.tf_transformer.decoding.scripted_model import all_outputs, plain_beam_search
from tests.tf_transformer.models.variant_reference import VariantReference
from tf_transformer.decoding.beam_search import beam_search
from tf_transformer.decoding.incremental_decoder import IncrementalDecoder
from tf_transformer.decoding.search_interface import SearchOptions
from tf_transformer.layers.masks import padding_mask
from tf_transformer.models.transformer import Transformer, TransformerConfig
from tf_transformer.presets import PRESETS
from tf_transformer.text.special_ids import BEGIN_ID, END_ID, SUPPRESSED_IDS

VOCAB = 7
WIDTHS = dict(target_vocab_size=VOCAB, d_model=8, d_ff=12, num_heads=2, tied_embeddings="none")
CASES = {
    "recurrent": WIDTHS
    | dict(
        num_encoder_layers=1,
        num_decoder_layers=2,
        decoder_autoregression="ssru",
        begin_embedding="zero",
        first_position=2,
    ),
    "student": PRESETS["student"] | WIDTHS,
    "shallow": PRESETS["shallow"] | WIDTHS,
}
SOURCE = np.array([[4, 5, 6, 5, 3], [6, 3, 0, 0, 0], [5, 5, 4, 3, 0]], "int32")
ALPHA = 0.6


class Uncached:
    """Next-token probabilities by the equations of the whole model, in NumPy."""

    end_id = END_ID

    def __init__(self, model, settings):
        weights = {weight.path.partition("/")[2]: weight for weight in model.weights}
        self.reference = VariantReference(settings, weights)
        self.log_probs = functools.cache(self.log_probs)

    def log_probs(self, row, ids):
        source = SOURCE[row : row + 1, : np.count_nonzero(SOURCE[row])]
        logits = self.reference.logits(np.array([[BEGIN_ID, *ids]]), source)[0, -1]
        return logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())


@pytest.fixture(scope="module", params=CASES)
def case(request):
    """A model, and its equations."""
    keras.utils.set_random_seed(1)
    settings = CASES[request.param]
    model = Transformer(TransformerConfig(source_vocab_size=VOCAB, **settings))
    rng = np.random.default_rng(3)
    for weight in model.weights:
        if weight.name != "gamma":
            weight.assign(rng.normal(size=weight.shape))
    # Long outputs, which differ in the middle.
    model.logits_projection.bias.assign(np.where(np.arange(VOCAB) == END_ID, -4.0, 0.0))
    return model, Uncached(model, settings)


def search(model, beam_size, max_lengths, num_best):
    @tf.function
    def run(source):
        mask = padding_mask(source)
        decoder = IncrementalDecoder(model, beam_size)
        return beam_search(
            decoder,
            decoder.start(len(SOURCE), model.encode(source), mask),
            beam_size=beam_size,
            begin_id=BEGIN_ID,
            end_ids=(END_ID,),
            options=SearchOptions(tf.constant(max_lengths), ALPHA),
            num_best=num_best,
            suppressed_ids=SUPPRESSED_IDS,
        )

    return [part.numpy() for part in run(tf.constant(SOURCE))]


def assert_found(found, row, expected):
    ids, scores, log_probs, lengths = (part[row] for part in found)
    for place, (score, log_prob, output) in enumerate(expected):
        assert tuple(ids[place, : lengths[place]]) == output
        np.testing.assert_allclose(
            [scores[place], log_probs[place]], [score, log_prob], rtol=1e-4, atol=1e-5
        )


@pytest.mark.representatives(every=3)
@pytest.mark.slow
def test_full_width_beam_finds_all_outputs(case):
    """3 + 9 + 27 outputs and the empty one, by brute force."""
    model, uncached = case
    found = search(model, 40, [3, 3, 2], 40)
    for row, max_length in enumerate([3, 3, 2]):
        expected = all_outputs(uncached, row, max_length, ALPHA, SUPPRESSED_IDS)
        assert len(expected) == (40 if max_length == 3 else 13)
        assert_found(found, row, expected)


@pytest.mark.representatives(every=3)
@pytest.mark.slow
@pytest.mark.parametrize("beam_size", [1, 3])
def test_agrees_with_plain_beam_search(case, beam_size):
    """Over several compactions, with rows that finish earlier than others."""
    max_lengths = [20, 6, 11]
    model, uncached = case
    found = search(model, beam_size, max_lengths, beam_size)
    for row, max_length in enumerate(max_lengths):
        expected, _ = plain_beam_search(uncached, row, max_length, ALPHA, SUPPRESSED_IDS, beam_size)
        assert_found(found, row, expected)

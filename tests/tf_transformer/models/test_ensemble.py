"""Ensembles against their equation, in all positions at once, step by step and in a search."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer import Transformer, TransformerConfig
from tf_transformer.decoding.ensemble_decoder import make_decoder
from tf_transformer.decoding.incremental_decoder import IncrementalDecoder
from tf_transformer.decoding.translation_search import TranslationSearch
from tf_transformer.models.ensemble import Ensemble
from tf_transformer.text.framing import end_and_pad
from tf_transformer.text.special_ids import BEGIN_ID, END_ID, SUPPRESSED_IDS

VOCAB = 7
SIZES = dict(source_vocab_size=9, target_vocab_size=VOCAB, d_model=8, num_heads=2, max_length=12)
# Of different sizes, kinds of decoders and begin symbols.
VARIANTS = (
    dict(num_encoder_layers=1, num_decoder_layers=1, d_ff=16),
    dict(num_encoder_layers=2, num_decoder_layers=2, d_ff=8, d_model=12, norm_position="pre"),
    dict(
        num_encoder_layers=1,
        num_decoder_layers=1,
        d_ff=8,
        decoder_autoregression="ssru",
        begin_embedding="zero",
        max_length=20,
    ),
)
WEIGHTS = (2.0, 1.0, 5.0)
SOURCE = tf.ragged.constant([[4, 5, 6], [8], [7, 7, 4, 5, 8]], dtype=tf.int32)


def make_members():
    keras.utils.set_random_seed(1)
    members = [Transformer(TransformerConfig(**(SIZES | variant))) for variant in VARIANTS]
    for member in members:
        for weight in member.weights:
            weight.assign(weight + keras.random.normal(weight.shape, stddev=0.3))
    return members


@pytest.fixture(scope="module")
def ensemble():
    return Ensemble(make_members(), WEIGHTS)


@pytest.fixture
def inputs():
    target = np.random.default_rng(2).integers(4, VOCAB, (3, 6)).astype("int32")
    target[:, 0] = BEGIN_ID
    return {"source": end_and_pad(SOURCE), "target": target}


def expected_log_probs(ensemble, inputs):
    """The normalized product of the members' probabilities, each to the power of its weight."""
    weights = np.array(WEIGHTS) / sum(WEIGHTS)
    product = 1.0
    for weight, member in zip(weights, ensemble.members, strict=True):
        probabilities = np.asarray(keras.ops.softmax(member(inputs)), "float64")
        product = product * probabilities**weight
    return np.log(product / product.sum(axis=-1, keepdims=True))


@pytest.mark.slow
def test_logits_are_the_equation(ensemble, inputs):
    found = keras.ops.log_softmax(ensemble(inputs))
    expected = expected_log_probs(ensemble, inputs)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    single = np.asarray(keras.ops.log_softmax(ensemble.members[0](inputs)))
    assert np.abs(single - expected).max() > 0.1


@pytest.mark.slow
def test_steps_are_all_positions_at_once(ensemble, inputs):
    source, target = inputs["source"], inputs["target"]
    decoder = make_decoder(ensemble, IncrementalDecoder)
    state = decoder.start(len(target), ensemble.encode(source), ensemble.source_mask(source))
    expected = ensemble(inputs)
    for position in range(target.shape[1]):
        newest = target[:, position, np.newaxis]
        logits, attention, state = decoder.decode_step(
            newest, np.zeros_like(newest), position, state, return_attention=position == 2
        )
        np.testing.assert_allclose(logits[:, 0], expected[:, position], atol=1e-4)
        if attention is not None:
            np.testing.assert_allclose(tf.reduce_sum(attention, axis=2), 1.0, atol=1e-5)


@pytest.mark.slow
def test_a_wide_search_finds_the_best_of_all_outputs(ensemble):
    """Of up to 2 tokens: their log-probabilities are those of the equation."""
    search = TranslationSearch(
        ensemble, beam_size=16, length_penalty=0.0, max_length_factor=0.0, max_length_constant=2
    )
    found = search.run(SOURCE)
    tokens = [token for token in range(VOCAB) if token not in (*SUPPRESSED_IDS, END_ID)]
    longest, num_rows = list(itertools.product(tokens, repeat=2)), int(SOURCE.nrows())
    given = {
        "source": np.repeat(end_and_pad(SOURCE), len(longest), axis=0),
        "target": np.array([[BEGIN_ID, *ids] for ids in longest] * num_rows, "int32"),
    }
    tables = expected_log_probs(ensemble, given).reshape(num_rows, len(longest), 3, VOCAB)
    for row in range(num_rows):
        scores = {}
        for ids, log_probs in zip(longest, tables[row], strict=True):
            for length in range(3):
                labels = [*ids[:length], END_ID]
                scores[ids[:length]] = sum(
                    log_probs[index, label] for index, label in enumerate(labels)
                )
        best = max(scores, key=scores.get)
        length = int(found.lengths[row, 0])
        assert tuple(found.ids[row, 0, :length].numpy()) == best
        assert float(found.scores[row, 0]) == pytest.approx(scores[best], abs=1e-4)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_compiled_search_is_the_ordinary_one(ensemble):
    arguments = dict(beam_size=2, length_penalty=0.6)
    two = Ensemble(ensemble.members[1:], WEIGHTS[1:])
    found = TranslationSearch(two, **arguments).run(SOURCE)
    compiled = TranslationSearch(two, **arguments, compiled_shapes=[(3, 8)]).run(SOURCE)
    np.testing.assert_allclose(compiled.scores[:, 0], found.scores[:, 0], atol=1e-4)
    np.testing.assert_array_equal(compiled.lengths[:, 0], found.lengths[:, 0])


@pytest.mark.slow
def test_a_model_twice_is_the_model(inputs):
    member = make_members()[0]
    twice = Ensemble([member, member])
    np.testing.assert_allclose(twice(inputs), member(inputs), atol=1e-6)
    limit = dict(beam_size=1, max_length_factor=0.0, max_length_constant=5)
    found, expected = (TranslationSearch(model, **limit).run(SOURCE) for model in (twice, member))
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_allclose(found.scores[:, 0], expected.scores[:, 0], rtol=1e-5)


@pytest.mark.slow
def test_the_alignment_is_the_weighted_mean(ensemble, inputs):
    weights = np.array(WEIGHTS) / sum(WEIGHTS)
    expected = sum(
        weight * np.asarray(member.alignment(inputs))
        for weight, member in zip(weights, ensemble.members, strict=True)
    )
    np.testing.assert_allclose(ensemble.alignment(inputs), expected, atol=1e-6)


def test_common_settings(ensemble):
    assert ensemble.config.max_length == 12
    assert TranslationSearch(ensemble).limit == 11


@pytest.mark.slow
def test_keras_saves_and_loads_it(ensemble, inputs, tmp_path):
    ensemble.save(tmp_path / "ensemble.keras")
    loaded = keras.models.load_model(tmp_path / "ensemble.keras")
    np.testing.assert_allclose(loaded(inputs), ensemble(inputs), atol=1e-6)
    assert loaded.member_weights == pytest.approx(np.array(WEIGHTS) / sum(WEIGHTS))


@pytest.mark.parametrize(
    ("changes", "weights", "message"),
    [
        (dict(target_vocab_size=8), None, "the same target_vocab_size. Received: 7, 8"),
        (dict(source_vocab_size=8), None, "the same source_vocab_size. Received: 9, 8"),
        (dict(source_end=False), None, "the same source_end. Received: True, False"),
        ({}, [1.0], "expected a weight for each of 2 models, got 1"),
        ({}, [1.0, 0.0], "expected a positive number, got 0.0"),
        ({}, [1.0, float("nan")], "expected a positive number, got nan"),
    ],
)
def test_refuses(changes, weights, message):
    configs = [SIZES | VARIANTS[0], SIZES | VARIANTS[0] | changes]
    members = [Transformer(TransformerConfig(**config)) for config in configs]
    with pytest.raises(ValueError, match=message):
        Ensemble(members, weights)


def test_no_members():
    with pytest.raises(ValueError, match="at least one model"):
        Ensemble([])

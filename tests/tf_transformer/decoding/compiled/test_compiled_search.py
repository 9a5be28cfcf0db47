"""Searches that XLA compiles find what the ordinary search finds, with every option and variant."""

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer import Transformer, TransformerConfig
from tf_transformer.decoding.translation_options import TranslationOptions
from tf_transformer.decoding.translation_search import TranslationSearch

SIZES = dict(
    source_vocab_size=40,
    target_vocab_size=50,
    num_encoder_layers=1,
    num_decoder_layers=1,
    d_model=16,
    d_ff=24,
    num_heads=4,
    max_length=30,
)
SHAPES = [(1, 8), (3, 8), (2, 12)]
VARIANTS = {
    "post-norm": dict(norm_position="post"),
    "tags": dict(norm_position="pre", language_tags="source_and_target", begin_embedding="end"),
    "ssru": dict(decoder_autoregression="ssru", begin_embedding="zero"),
    "relative": dict(relative_positions="keys_values", positions="none"),
    "learned": dict(
        positions="learned", embedding_norm=True, tied_embeddings="none", activation="swiglu"
    ),
    "shapes": dict(
        num_decoder_layers=2,
        decoder=dict(d_ff=40, num_heads=2, head_dim=5),
        layer_history=True,
        norm_position="pre",
        dense_bias=False,
        relative_positions="buckets",
    ),
}


def make_model(**settings):
    tf.keras.utils.set_random_seed(3)
    model = Transformer(TransformerConfig(**(SIZES | settings)))
    model(dict(source=tf.ones((1, 3), tf.int32), target=tf.ones((1, 3), tf.int32)))
    for weight in model.weights:
        weight.assign(weight + tf.random.normal(weight.shape, stddev=0.2, seed=1))
    return model


def make_searches(model, shapes=SHAPES, **arguments):
    """The ordinary search, and one with compiled shapes."""
    return (
        TranslationSearch(model, **arguments),
        TranslationSearch(model, **arguments, compiled_shapes=shapes),
    )


def sources(lengths, seed=0):
    random = np.random.default_rng(seed)
    return tf.ragged.constant(
        [random.integers(4, 40, length).tolist() for length in lengths],
        dtype=tf.int32,
        row_splits_dtype=tf.int64,
        ragged_rank=1,
    )


def check_equal(ordinary, compiled, num_best):
    """Compares the exact results, and their padding with zeros."""
    assert ordinary.scores.shape == compiled.scores.shape
    np.testing.assert_array_equal(ordinary.lengths[:, :num_best], compiled.lengths[:, :num_best])
    width = max(ordinary.ids.shape[2], compiled.ids.shape[2])
    ids = [
        np.pad(found.ids, ((0, 0), (0, 0), (0, width - found.ids.shape[2])))[:, :num_best]
        for found in (ordinary, compiled)
    ]
    lengths = np.asarray(ordinary.lengths)[:, :num_best, np.newaxis]
    is_token = np.arange(width) < lengths
    np.testing.assert_array_equal(ids[0] * is_token, ids[1] * is_token)
    for name in ("scores", "log_probs"):
        theirs, ours = (np.asarray(getattr(x, name))[:, :num_best] for x in (ordinary, compiled))
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.representatives("tags-3")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("variant", "beam_size"), [*((name, 3) for name in VARIANTS), ("ssru", 1), ("relative", 1)]
)
def test_variants(variant, beam_size):
    model = make_model(**VARIANTS[variant])
    arguments = dict(beam_size=beam_size, end_ids=(3, 7))
    ordinary, compiled = make_searches(model, shapes=[(2, 8)], **arguments)
    num_tags = model.config.num_target_tags
    for lengths in ([5], [7 - num_tags], [4, 0], [11, 2]):
        source = sources([length + num_tags * (length > 0) for length in lengths])
        for num_best in (1, beam_size):
            found = [search.run(source, num_best=num_best) for search in (ordinary, compiled)]
            check_equal(*found, num_best)


def options(rows, **given):
    values = TranslationOptions.defaults(rows)._asdict()
    values |= {
        name: tf.constant(np.resize(value, rows), values[name].dtype)
        for name, value in given.items()
    }
    return TranslationOptions(**values)


OPTIONS = {
    "none": {},
    "beam sizes": dict(beam_size=[1, 2, 0]),
    "length penalties": dict(length_penalty=[0.0, 1.5, -1.0]),
    "longest": dict(max_length=[3, 1, 40]),
    "shortest": dict(min_length=[6, 0, 50]),
    "repeated n-grams": dict(no_repeat_ngram=[2, 0, 1]),
    "coverage": dict(coverage_penalty=[0.5, 0.0, 0.1]),
    "all": dict(beam_size=[2, 3], length_penalty=[0.3, 1.0], max_length=[9, 5], min_length=[4, 0]),
    "not numbers": dict(length_penalty=[float("nan")], coverage_penalty=[float("nan")]),
    "out of range": dict(beam_size=[-3, 99], max_length=[-1], min_length=[-5], no_repeat_ngram=-2),
}


@pytest.fixture(scope="module")
def searches():
    return make_searches(make_model(), shapes=[(3, 8)], beam_size=3)


@pytest.mark.slow
@pytest.mark.parametrize("case", OPTIONS)
def test_options(searches, case):
    for lengths in ([5], [6, 3, 1], [11, 2]):
        rows = len(lengths)
        given = options(rows, **OPTIONS[case])
        found = [search.run(sources(lengths), given, num_best=2) for search in searches]
        check_equal(*found, num_best=1 if "beam_size" in OPTIONS[case] else 2)


@pytest.mark.slow
@pytest.mark.parametrize("prefix", [[[9], [], [12, 4, 8]], [[5] * 20, [6], []], [[0], [3], [44]]])
def test_prefixes(searches, prefix):
    for rows in (1, 3):
        given = tf.ragged.constant(prefix[:rows], tf.int32, ragged_rank=1)
        found = [
            search.run(sources([5, 2, 6][:rows]), prefix=given, num_best=3) for search in searches
        ]
        check_equal(*found, num_best=3)


@pytest.mark.slow
def test_no_rows(searches):
    assert searches[1].run(sources([])).scores.shape == (0, 3)


@pytest.mark.slow
def test_which_search_runs():
    """The smallest compiled one that is large enough, or the ordinary one, whose scores are < 0."""
    _, search = make_searches(make_model(), beam_size=2, max_length_constant=5)
    limits = [limit for _, limit, *_ in search._compiled._searches]
    assert limits == [15, 21, 15]
    search._compiled._searches = [
        (*item[:3], marker(item[0])) for item in search._compiled._searches
    ]

    def which(lengths, **given):
        rows = len(lengths)
        given = options(rows, **given) if given else None
        score = float(search.run(sources(lengths), given).scores[0, 0])
        return score if score >= 0 else None

    assert which([7]) == 108 and which([1]) == 108 and which([3], min_length=2) == 108
    assert which([8]) == 212 and which([5, 11]) == 212
    assert which([7, 7]) == 212 and which([1, 2, 3]) == 308  # of equal size: fewer rows first
    for lengths in ([12], [8, 8, 8], [1, 1, 1, 1]):
        assert which(lengths) is None
    for given in (dict(no_repeat_ngram=2), dict(coverage_penalty=0.1), dict(max_length=22)):
        assert which([7], **given) is None
    assert which([7], max_length=16) == 212


def marker(shape):
    """A search that writes its shape into the scores."""
    number = 100.0 * shape[0] + shape[1]

    def search(num_best, ids, prefix, given):
        assert tuple(ids.shape) == tuple(shape)
        array = tf.fill((shape[0], 2), number)
        ids = tf.zeros((shape[0], 2, prefix.shape[1]), tf.int32)
        return ids, array, array, tf.zeros((shape[0], 2), tf.int32)

    return search


@pytest.mark.slow
def test_shapes_are_checked():
    model = make_model()
    for shape in ((0, 8), (1, 1), (1, 31), (1,), (1.5, 8), 5):
        with pytest.raises(ValueError, match="`compiled_shapes` must be pairs of"):
            TranslationSearch(model, compiled_shapes=[shape])

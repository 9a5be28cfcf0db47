"""Searches with a shortlist find what a search finds whose other logits are -infinity."""

import numpy as np
import pytest
import tensorflow as tf

from tests.tf_transformer.decoding.compiled.test_compiled_search import (
    OPTIONS,
    check_equal,
    make_model,
    options,
    sources,
)
from tf_transformer.decoding.beam_search import beam_search
from tf_transformer.decoding.incremental_decoder import IncrementalDecoder
from tf_transformer.decoding.translation_search import TranslationSearch
from tf_transformer.errors import InputError
from tf_transformer.quantization.int8 import quantize
from tf_transformer.quantization.int8_layers import Int8Embedding, Int8Product
from tf_transformer.quantization.tiled_matmul import TiledProduct
from tf_transformer.shortlists.table import ShortlistTable
from tf_transformer.text.framing import end_and_pad

END_IDS = (3, 9)
ALWAYS = [11, 12]
# A random model ends few outputs.
LIMITS = dict(max_length_factor=1.0, max_length_constant=2)
ONE_LAYER = dict(num_encoder_layers=1, num_decoder_layers=1)
PREFIXES = tf.ragged.constant([[40, 41], [], [5]], dtype=tf.int32, row_splits_dtype=tf.int64)


def make_table(most=5, source_vocab_size=40, target_vocab_size=50):
    random = np.random.default_rng(5)
    return ShortlistTable.from_lists(
        ALWAYS,
        [
            random.choice(np.arange(4, target_vocab_size), random.integers(0, most + 1), False)
            for _ in range(source_vocab_size)
        ],
    )


TABLE = make_table()


class MaskedDecoder:
    """Decodes with all ids, and then gives those that are no candidates the logit -infinity."""

    compaction_interval = IncrementalDecoder.compaction_interval

    def __init__(self, decoder):
        self.decoder = decoder

    def decode_step(self, newest, parents, position, state, return_attention=False):
        state, mask = state
        logits, attention, state = self.decoder.decode_step(
            newest, parents, position, state, return_attention
        )
        return tf.where(mask[:, np.newaxis], logits, float("-inf")), attention, (state, mask)

    def select_rows(self, rows, alive, parents, position, state):
        state, mask = state
        state = self.decoder.select_rows(rows, alive, parents, position, state)
        return state, tf.gather(mask, rows)


def masks(source, prefix=None):
    """The candidates of each row, from the definition."""
    result = np.zeros((source.nrows(), 50), bool)
    for row, ids in zip(result, source.to_list(), strict=True):
        row[[0, 1, 2, *END_IDS, *ALWAYS]] = True
        row[TABLE.by_source[[*ids, 3]].flatten()] = True  # and never those of padding
    for row, ids in zip(result, prefix.to_list() if prefix is not None else [], strict=False):
        row[ids] = True
    return result


def expected(search, source, given=None, prefix=None, num_best=1):
    """What `TranslationSearch.run` finds without a shortlist, but with the mask."""
    dense = None
    if given is not None:
        dense = tf.pad(
            (tf.zeros_like(source) if prefix is None else prefix).to_tensor(), [[0, 0], [0, 1]]
        )
        dense = dense if prefix is not None else tf.zeros_like(dense)
    decoder, state, arguments = search.start(end_and_pad(source), given, dense)
    state = (state, tf.constant(masks(source, prefix)))
    return beam_search(MaskedDecoder(decoder), state, num_best=num_best, **arguments)


def with_prefix(source, prefix):
    return None if prefix is None else prefix[: source.nrows()]


@pytest.fixture(scope="module")
def model():
    return make_model(**ONE_LAYER)


@pytest.fixture(scope="module")
def searches(model):
    arguments = dict(beam_size=3, end_ids=END_IDS, **LIMITS)
    return (
        TranslationSearch(model, **arguments),
        TranslationSearch(model, **arguments, shortlist=TABLE),
    )


@pytest.mark.slow
@pytest.mark.parametrize("lengths", [[5], [7, 3, 1], [12, 11, 2, 9, 6, 6]])
def test_default_options(searches, lengths):
    ordinary, short = searches
    source = sources(lengths)
    check_equal(expected(ordinary, source, num_best=3), short.run(source, num_best=3), 3)


@pytest.mark.slow
@pytest.mark.representatives(every=5)
@pytest.mark.parametrize("prefix", [None, PREFIXES])
@pytest.mark.parametrize("case", OPTIONS)
def test_options(searches, case, prefix):
    ordinary, short = searches
    source = sources([6, 4, 9])
    given = options(3, **OPTIONS[case])
    found = short.run(source, given, prefix, num_best=2)
    check_equal(expected(ordinary, source, given, prefix, num_best=2), found, 2)


@pytest.mark.slow
def test_rows_are_independent(searches):
    _, short = searches
    source = sources([3, 8, 5, 2, 11])
    together = short.run(source, num_best=3)
    for row in range(5):
        alone = short.run(source[row : row + 1], num_best=3)
        width = alone.ids.shape[2]
        np.testing.assert_array_equal(together.ids[row : row + 1, :, :width], alone.ids)
        np.testing.assert_allclose(together.scores[row : row + 1], alone.scores, rtol=1e-4)


def test_only_candidates_are_found(searches):
    _, short = searches
    source = sources([4, 9, 6], seed=3)
    found = np.asarray(short.run(source, num_best=3).ids)
    for row, mask in zip(found, masks(source), strict=True):
        assert set(row.flatten()) <= {0, *np.flatnonzero(mask)}


@pytest.mark.slow
def test_all_pieces_as_candidates_change_nothing(model):
    everything = ShortlistTable.from_lists(list(range(4, 50)), [[] for _ in range(40)])
    arguments = dict(beam_size=3, end_ids=END_IDS, **LIMITS)
    source = sources([5, 2, 9])
    found = [
        TranslationSearch(model, **arguments, shortlist=shortlist).run(source, num_best=3)
        for shortlist in (None, everything)
    ]
    check_equal(*found, 3)


@pytest.mark.slow
def test_beams_wider_than_the_candidates(model):
    """As with a vocabulary that is smaller than the beam."""
    short = TranslationSearch(model, beam_size=70, shortlist=TABLE, **LIMITS)
    found = short.run(sources([2]), num_best=70)
    assert found.ids.shape[1] == 70
    scores = np.asarray(found.scores)[0]
    assert np.isfinite(scores[0]) and np.all(np.diff(scores) <= 0)


VARIANTS = {
    "logits bias": dict(logits_bias=True),
    "untied": dict(tied_embeddings="none"),
    "tags": dict(language_tags="source_and_target", begin_embedding="end"),
    "ssru": dict(decoder_autoregression="ssru", begin_embedding="zero"),
}


@pytest.mark.slow
@pytest.mark.representatives("float32-logits bias", "int8-ssru")
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_variants(variant, dtype):
    model = make_model(**ONE_LAYER, **VARIANTS[variant])
    all_ids = ShortlistTable.from_lists(list(range(4, 50)), [[] for _ in range(40)])
    source = sources([6, 3, 9])
    wide = TranslationSearch(model, beam_size=2, **LIMITS).run(source, num_best=2)
    if dtype == "int8":  # the logits of candidates stay float32 if they are tied
        quantize(model)
    found = TranslationSearch(model, beam_size=2, shortlist=all_ids, **LIMITS).run(
        source, num_best=2
    )
    if dtype == "float32":
        check_equal(wide, found, 2)
    else:
        np.testing.assert_allclose(found.scores[:, 0], wide.scores[:, 0], rtol=0.1)


def test_columns_of_replaced_products():
    random = np.random.default_rng(2)
    kernel, ids = random.normal(size=(6, 150)).astype("float32"), tf.constant([3, 149, 64, 0, 3])
    np.testing.assert_array_equal(TiledProduct(kernel).columns(ids), kernel[:, ids])
    for product in (Int8Product(kernel), Int8Embedding(kernel.T)):
        columns = tf.gather(product(np.eye(6, dtype="float32")), ids, axis=1)
        np.testing.assert_allclose(product.columns(ids), columns, rtol=1e-5)


@pytest.mark.representatives("ssru")
@pytest.mark.slow
@pytest.mark.parametrize("variant", ["logits bias", "tags", "ssru"])
def test_compiled(variant):
    """With XLA, for batches that are padded to a shape, and with prefixes and options."""
    model = make_model(**ONE_LAYER, **VARIANTS[variant])
    arguments = dict(beam_size=3, end_ids=END_IDS, shortlist=TABLE, **LIMITS)
    ordinary = TranslationSearch(model, **arguments)
    compiled = TranslationSearch(model, **arguments, compiled_shapes=[(3, 8)])
    num_tags = model.config.num_target_tags
    for lengths in ([5], [7 - num_tags, 2, 0], [4, 3]):
        source = sources([length + num_tags * (length > 0) for length in lengths])
        given = options(len(lengths), length_penalty=[0.3, 1.0], min_length=[3, 0])
        for prefix in (None, PREFIXES[: len(lengths)]):
            found = [
                search.run(source, given, prefix, num_best=2) for search in (ordinary, compiled)
            ]
            check_equal(*found, 2)


@pytest.mark.exhaustive
def test_many_prefix_candidates_take_the_ordinary_search(model):
    """A prefix adds candidates, for which a compiled search may have no space."""
    table = ShortlistTable.from_lists([], [[] for _ in range(40)])
    arguments = dict(beam_size=2, shortlist=table)
    ordinary = TranslationSearch(model, **arguments)
    compiled = TranslationSearch(model, **arguments, compiled_shapes=[(1, 8)])
    assert compiled.shortlist.largest_count(1, 8) == 64
    source, prefix = (
        sources([5]),
        tf.ragged.constant([list(range(4, 20))], dtype=tf.int32, row_splits_dtype=tf.int64),
    )
    check_equal(*(search.run(source, None, prefix) for search in (ordinary, compiled)), 1)


@pytest.mark.parametrize("sizes", [(39, 50), (40, 51)])
def test_tables_of_other_vocabularies_are_refused(model, sizes):
    table = ShortlistTable.from_lists([sizes[1] - 1], [[] for _ in range(sizes[0])])
    with pytest.raises(InputError, match="must be of a model with 40 source and 50 target pieces"):
        TranslationSearch(model, shortlist=table)

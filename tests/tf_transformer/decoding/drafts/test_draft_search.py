"""Draft and verification: the output of greedy search, in fewer steps."""

import functools
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.config import TransformerConfig
from tf_transformer.decoding.drafts import draft_search
from tf_transformer.decoding.drafts.draft_decoder import DraftDecoder
from tf_transformer.decoding.translation_options import TranslationOptions
from tf_transformer.decoding.translation_search import TranslationSearch
from tf_transformer.models.transformer import Transformer
from tf_transformer.quantization.int8 import quantize
from tf_transformer.quantization.tiled_matmul import arrange_weights
from tf_transformer.shortlists.table import ShortlistTable
from tf_transformer.text.special_ids import END_ID, NUM_SPECIAL

VOCAB, NUM_ROWS, EMPTY = 12, 24, 4  # of the rows, one has no tokens
KINDS = {
    "post-norm": {},
    "pre-norm, learned positions": dict(norm_position="pre", positions="learned"),
    "relative positions": dict(relative_positions="keys", positions="none", num_decoder_layers=2),
    "ssru": dict(decoder_autoregression="ssru", num_decoder_layers=2),
    "untied, tags": dict(tied_embeddings="none", language_tags="source_and_target"),
}


@functools.cache
def make_model(kind, dtype="float32"):
    """A model that is random and decided, of which the drafts are sometimes right."""
    keras.utils.set_random_seed(3)
    sizes = dict(
        source_vocab_size=VOCAB,
        target_vocab_size=VOCAB,
        num_encoder_layers=1,
        num_decoder_layers=1,
        d_model=16,
        d_ff=32,
        num_heads=2,
        max_length=40,
        draft_heads=3,
    )
    config = TransformerConfig(**(sizes | KINDS[kind]))
    model = Transformer(config, dtype="float32" if dtype == "int8" else dtype)
    rng = np.random.default_rng(0)
    for weight in model.weights:
        if "embedding" not in weight.path:
            weight.assign(rng.normal(0, 0.4, weight.shape))
    if dtype == "int8":
        quantize(model)
    return model


def sources(num_rows=NUM_ROWS):
    rng = np.random.default_rng(1)
    lengths = rng.integers(2, 10, num_rows)
    lengths[EMPTY : EMPTY + 1] = 0
    return [list(rng.integers(NUM_SPECIAL, VOCAB, length)) for length in lengths]


def make_options(rows):
    """Options that draft search must obey; those of row i depend on i alone."""
    columns = {
        "beam_size": (1,) * len(rows),
        "length_penalty": [(-1.0, 0.0, 1.0)[row % 3] for row in rows],
        "max_length": [(0, 1, 2, 3, 9)[row % 5] for row in rows],
        "min_length": [(0, 5, 3)[row % 3] for row in rows],
        "no_repeat_ngram": (0,) * len(rows),
        "coverage_penalty": (0.0,) * len(rows),
    }
    defaults = TranslationOptions.defaults(len(rows))
    return TranslationOptions(
        *(tf.constant(columns[name], getattr(defaults, name).dtype) for name in defaults._fields)
    )


def make_prefixes(rows):
    return tf.ragged.constant(
        [[NUM_SPECIAL + (row + i) % 5 for i in range(row % 4)] for row in rows],
        dtype=tf.int32,
        row_splits_dtype=tf.int64,
    )


def search_in_parts(search, size, with_options=False, with_prefix=False, num_rows=NUM_ROWS):
    """The outputs of all sentences, `size` at a time: ids as lists, and scores."""
    found_ids, found_scores = [], []
    texts = sources()
    for start in range(0, num_rows, size):
        rows = range(start, min(start + size, num_rows))
        found = search.run(
            tf.ragged.constant([texts[row] for row in rows], dtype=tf.int32),
            make_options(rows) if with_options else None,
            make_prefixes(rows) if with_prefix else None,
        )
        for ids, length, score in zip(found.ids, found.lengths, found.scores, strict=True):
            assert not np.any(ids[0, int(length[0]) :])  # padded with 0
            found_ids.append(ids[0, : int(length[0])].numpy().tolist())
            found_scores.append(float(score[0]))
    return found_ids, found_scores


def search_without_drafts(search, size=NUM_ROWS, **given):
    """The outputs of a search that ignores the heads."""
    with pytest.MonkeyPatch.context() as patch:  # while the graph is traced
        patch.setattr(draft_search, "MOST_ROWS", -1)
        return search_in_parts(search, size, **given)


@functools.cache
def greedy_outputs(kind, given=False):
    """Those of all sentences at once, without options and prefixes or with both."""
    search = TranslationSearch(make_model(kind), beam_size=1)
    return search_without_drafts(search, with_options=given, with_prefix=given)


def check_equal(found, expected, tolerance=1e-4):
    assert found[0] == expected[0]
    np.testing.assert_allclose(found[1], expected[1], rtol=tolerance, atol=tolerance)


@pytest.mark.slow
@pytest.mark.representatives("relative positions-2-True", "ssru-1-False")
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("size", [1, draft_search.MOST_ROWS])
@pytest.mark.parametrize("kind", KINDS)
def test_outputs_are_those_of_greedy_search(kind, size, given):
    """Without options and prefixes, and with both; nothing for a sentence that is empty."""
    search = TranslationSearch(make_model(kind), beam_size=1)
    expected = greedy_outputs(kind, given)
    check_equal(search_in_parts(search, size, given, given), expected)
    assert len({len(ids) for ids in expected[0]}) > 3  # outputs of several lengths
    assert (expected[0][EMPTY], expected[1][EMPTY]) == ([], 0)


@pytest.mark.slow
@pytest.mark.representatives("relative positions")
@pytest.mark.parametrize("kind", KINDS)
def test_compiled_for_one_sentence(kind):
    search = TranslationSearch(make_model(kind), beam_size=1, compiled_shapes=[(1, 12)])
    check_equal(search_in_parts(search, 1, True, True), greedy_outputs(kind, True))


@pytest.mark.slow
@pytest.mark.representatives("int8, shortlist")
@pytest.mark.parametrize(
    ("dtype", "has_shortlist", "shapes"),
    [
        pytest.param("float32", True, (), id="shortlist"),
        pytest.param("float32", True, [(1, 12)], id="shortlist, xla"),
        pytest.param("bfloat16", False, (), id="bfloat16"),
        pytest.param("int8", False, (), id="int8"),
        pytest.param("int8", True, (), id="int8, shortlist"),
    ],
)
def test_of_other_dtypes_and_of_candidates(dtype, has_shortlist, shapes):
    """Sentences alone, since candidates are those of all that are decoded together."""
    model, table = make_model("post-norm", dtype), None
    if has_shortlist:
        by_source = [[4 + (piece + i) % 8 for i in range(4)] for piece in range(VOCAB)]
        table = ShortlistTable.from_lists(range(NUM_SPECIAL), by_source)
    expected = search_without_drafts(TranslationSearch(model, beam_size=1, shortlist=table), 1)
    search = TranslationSearch(model, beam_size=1, shortlist=table, compiled_shapes=shapes)
    check_equal(search_in_parts(search, 1), expected, 0.1 if dtype == "bfloat16" else 1e-4)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_of_tiled_weights(monkeypatch):
    monkeypatch.setattr("tf_transformer.quantization.tiled_matmul._MIN_SIZE", 1)
    monkeypatch.setattr("tf_transformer.quantization.tiled_matmul._TILE_WIDTH", 8)
    model = make_model.__wrapped__("post-norm")  # one of its own, which is changed
    arrange_weights(model, tiled=True)
    found = search_in_parts(TranslationSearch(model, beam_size=1), 1)
    check_equal(found, greedy_outputs("post-norm"))


@pytest.mark.slow
def test_rows_of_a_beam_that_ask_for_greedy_search():
    """Their scores and hypotheses are those without drafts."""
    model = make_model("post-norm")
    expected = search_without_drafts(TranslationSearch(model), with_options=True)
    check_equal(search_in_parts(TranslationSearch(model), 2, with_options=True), expected)


def count_steps(search, monkeypatch, **given):
    """The outputs of single sentences, and the steps of the decoder that they took."""
    steps = []
    verify = DraftDecoder.verify
    with monkeypatch.context() as patch:
        patch.setattr(
            DraftDecoder, "verify", lambda *arguments: steps.append(1) or verify(*arguments)
        )
        tf.config.run_functions_eagerly(True)
        try:
            return search_in_parts(search, 1, **given), len(steps)
        finally:
            tf.config.run_functions_eagerly(False)


class Oracle:
    """Drafts that are known, of which some are wrong: a head's output is not looked at."""

    def __init__(self, outputs, share_right, monkeypatch):
        self.rng = np.random.default_rng(4)
        self.outputs, self.share_right = iter(outputs), share_right
        self.position = 0
        advance = draft_search.DraftSearch.advance
        first_rows = draft_search.DraftSearch.first_rows

        def begin(search, options, begin_id):
            self.ids = [*next(self.outputs), END_ID]
            return first_rows(search, options, begin_id)

        def follow(search, rows, options, state):
            self.position = int(rows.outputs.lengths[0])
            return advance(search, rows, options, state)

        monkeypatch.setattr(draft_search.DraftSearch, "first_rows", begin)
        monkeypatch.setattr(draft_search.DraftSearch, "advance", follow)
        monkeypatch.setattr(DraftDecoder, "draft", self.draft)

    def draft(self, hidden, newest, state):
        """Logits of the ids after the newest one, which is the first that equals it."""
        after = self.position
        while self.ids[after] != int(newest[0]):
            after += 1
        wanted = ([*self.ids[after + 1 :], 5, 5, 5])[:3]
        logits = np.zeros((1, 3, VOCAB), "float32")
        for head, token in enumerate(wanted):
            is_right = self.rng.random() < self.share_right
            logits[0, head, token if is_right else (token + 1) % VOCAB] = 1.0
        return tf.constant(logits)


@pytest.mark.slow
@pytest.mark.representatives("0.5-ssru")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share_right", [0.0, 0.5, 1.0])
def test_more_right_drafts_take_fewer_steps(kind, share_right, monkeypatch):
    model, few = make_model(kind), dict(num_rows=4)
    expected = [part[:4] for part in greedy_outputs(kind)]
    num_tags = model.config.num_target_tags
    outputs = [[*text[:num_tags], *ids] for text, ids in zip(sources(), expected[0], strict=False)]
    tokens = sum(len(ids) + 1 for ids in outputs)  # with the ends
    with monkeypatch.context() as patch:
        Oracle(outputs, share_right, patch)
        found, steps = count_steps(TranslationSearch(model, beam_size=1), monkeypatch, **few)
    check_equal(found, expected)
    # The first step has no drafts, and each other one adds at most four tokens.
    least = sum(1 + -(-len(ids) // 4) for ids in outputs)
    assert least <= steps <= tokens
    assert (steps == tokens, steps == least) == (share_right == 0, share_right == 1)


def test_what_needs_all_tokens_so_far_is_searched_without_drafts(monkeypatch):
    model = make_model("post-norm")
    search = TranslationSearch(model, beam_size=1)
    options = make_options(range(1))._replace(no_repeat_ngram=tf.constant([2]))
    monkeypatch.setattr(DraftDecoder, "verify", None)  # not called
    tf.config.run_functions_eagerly(True)
    try:
        found = search.run(tf.ragged.constant(sources(1), dtype=tf.int32), options)
    finally:
        tf.config.run_functions_eagerly(False)
    ids = found.ids.numpy()[0, 0, : int(found.lengths[0, 0])].tolist()
    pairs = list(itertools.pairwise(ids))
    assert len(pairs) == len(set(pairs))

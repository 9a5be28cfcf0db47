"""Beam search against enumeration and a plain-Python search, on scripted models."""

import functools
import math

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tf_transformer.decoding.scripted_model import (
    BEGIN,
    END,
    PAD,
    Output,
    ScriptedModel,
    ScriptedSteps,
    all_outputs,
    first_cache,
    next_code,
    output,
    plain_beam_search,
    plain_greedy_search,
    scripted_model,
    step_function,
)
from tf_transformer.decoding import logits_processing
from tf_transformer.decoding.beam_search import beam_search as search_beam
from tf_transformer.decoding.search_interface import Hypotheses, SearchOptions, length_penalty

SPECIAL = (PAD, BEGIN)
ALPHAS = (0.0, 0.6, 1.0)
TOLERANCE = dict(rtol=1e-5, atol=1e-5)
IDS = tf.TensorSpec([None], tf.int32)


# ---- Running a search and reading what it found. ----


def beam_search(step, cache, *, max_lengths, end_id, alpha=0.0, end_ids=(), **options):
    """The search over a step function, as most of these tests call it."""
    return search_beam(
        ScriptedSteps(step),
        cache,
        end_ids=end_ids or [end_id],
        options=SearchOptions(max_length=max_lengths, length_penalty=alpha),
        **options,
    )


def greedy_search(step, cache, **options):
    return beam_search(step, cache, beam_size=1, **options)


@functools.cache
def compiled(search, vocab_size, **options):
    """A search as one graph for all tables, rows and maximum lengths."""

    @tf.function(input_signature=[tf.TensorSpec([None, vocab_size], tf.float32), IDS, IDS])
    def run(table, rows, max_lengths):
        cache = first_cache(rows, options.get("beam_size", 1))
        return search(step_function(table), cache, max_lengths=max_lengths, **options)

    return run


def find(model, rows, max_lengths, search=beam_search, **options):
    options = dict(begin_id=BEGIN, end_id=model.end_id) | options
    rows, max_lengths = (np.asarray(x, np.int32) for x in (rows, max_lengths))
    return to_numpy(
        compiled(search, model.table.shape[1], **options)(model.table, rows, max_lengths)
    )


def find_eagerly(model, row, max_length, step=None, **options):
    return to_numpy(
        beam_search(
            step or step_function(model.table),
            first_cache(tf.constant([row]), options["beam_size"]),
            begin_id=BEGIN,
            end_id=model.end_id,
            max_lengths=tf.constant([max_length]),
            **options,
        )
    )


def to_numpy(found):
    return Hypotheses(*(x.numpy() for x in found))


def outputs(found, row):
    """The outputs found for a row, in the order found."""
    return [
        Output(score, log_prob, tuple(ids[:length].tolist()))
        for ids, score, log_prob, length in zip(*(x[row] for x in found), strict=True)
        if score > -math.inf
    ]


def assert_best(found, expected):
    """`found` are the first of `expected`, up to the order of ties."""
    exact = {item.ids: item for item in expected}
    assert len({item.ids for item in found}) == len(found)
    np.testing.assert_allclose(
        [item.score for item in found],
        [item.score for item in expected[: len(found)]],
        **TOLERANCE,
    )
    for item in found:
        assert item.ids in exact
        np.testing.assert_allclose(item[:2], exact[item.ids][:2], **TOLERANCE)


def assert_same(one, other):
    """Equal hypotheses, whatever the number of columns their ids are padded to."""
    columns = min(one.ids.shape[2], other.ids.shape[2])
    for ids in (one.ids, other.ids):
        assert not ids[:, :, columns:].any()
    np.testing.assert_array_equal(one.ids[:, :, :columns], other.ids[:, :, :columns])
    np.testing.assert_array_equal(one.lengths, other.lengths)
    np.testing.assert_allclose(one.scores, other.scores, rtol=1e-6)
    np.testing.assert_allclose(one.log_probs, other.log_probs, rtol=1e-6)


# ---- The length penalty. ----


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0])
def test_length_penalty_is_gnmts(alpha):
    lengths = np.arange(1, 200)
    found = length_penalty(tf.constant(lengths, tf.int32), alpha)
    assert found.dtype == tf.float32
    np.testing.assert_allclose(found, [((5 + n) / 6) ** alpha for n in lengths], rtol=1e-6)


def test_length_penalty_of_known_lengths():
    assert float(length_penalty(1, 0.6)) == 1.0
    assert float(length_penalty(7, 1.0)) == 2.0
    assert float(length_penalty(19, 0.5)) == 2.0


# ---- A beam as wide as the number of possible outputs is exhaustive. ----


@pytest.mark.representatives(every=4)
@pytest.mark.slow
@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize(
    ("vocab_size", "end_id", "suppressed_ids", "n"),
    [(3, 2, (0,), 1), (4, 0, (3,), 2), (4, 3, (), 5), (5, 2, SPECIAL, 3), (5, 2, (), 1)],
)
def test_full_width_beam_finds_the_best_of_all_outputs(
    vocab_size, end_id, suppressed_ids, n, alpha
):
    biases = tuple((token, 1.0) for token in suppressed_ids)
    model = scripted_model(vocab_size, biases, end_id)
    rows = range(25)
    max_lengths = [row % 5 for row in rows]
    expected = [
        all_outputs(model, row, max_length, alpha, suppressed_ids)
        for row, max_length in zip(rows, max_lengths, strict=True)
    ]
    most = max(map(len, expected))
    choices = vocab_size - len(suppressed_ids) - 1
    assert most == sum(choices**length for length in range(5))
    for beam_size, num_best in ((most, n), (most + 2, most)):
        found = find(
            model,
            rows,
            max_lengths,
            beam_size=beam_size,
            num_best=num_best,
            alpha=alpha,
            suppressed_ids=suppressed_ids,
        )
        for row in rows:
            best = outputs(found, row)[:num_best]
            assert len(best) == min(num_best, len(expected[row]))
            assert_best(best, expected[row])


@pytest.mark.slow
@pytest.mark.parametrize("end_ids", [(END, 3), (END, 4, 3)])
def test_any_of_several_ends(end_ids):
    """Against a model whose end is as probable as all of them, and which knows no other."""
    model, merged = scripted_model(6), ScriptedModel(6)
    ends = list(end_ids)
    end = np.log(np.exp(merged.table[:, ends].astype(np.float64)).sum(axis=1))
    merged.table[:, ends] = -np.inf
    merged.table[:, END] = end
    for row in range(10):
        expected = all_outputs(merged, row, 3, 0.6, SPECIAL)
        found = find_eagerly(
            model,
            row,
            3,
            end_ids=end_ids,
            beam_size=len(expected),
            num_best=len(expected),
            alpha=0.6,
            suppressed_ids=SPECIAL,
        )
        assert_best(outputs(found, 0), expected)


@pytest.mark.slow
def test_tokens_the_model_holds_impossible_are_never_chosen():
    model = scripted_model(5, ((3, -math.inf),))
    found = find(model, range(10), [3] * 10, beam_size=20, num_best=20, suppressed_ids=(PAD,))
    for row in range(10):
        expected = all_outputs(model, row, 3, 0.0, (PAD,))
        expected = [item for item in expected if item.score > -math.inf]
        assert len(outputs(found, row)) == len(expected) == 1 + 2 + 4 + 8
        assert_best(outputs(found, row), expected)


# ---- A narrow beam agrees with a plain search that never stops early. ----


@pytest.mark.representatives(every=7)
@pytest.mark.slow
@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize(
    ("beam_size", "num_best"), [(1, 1), (2, 1), (2, 2), (3, 2), (4, 1), (4, 4), (5, 3)]
)
def test_agrees_with_plain_beam_search(beam_size, num_best, alpha):
    options = dict(beam_size=beam_size, alpha=alpha, suppressed_ids=SPECIAL)
    for biases in ((), ((END, -1.0),), ((PAD, 3.0), (END, 1.0))):
        model = scripted_model(10, biases)
        assert_agrees(model, [row % 9 for row in range(36)], num_best, **options)


@pytest.mark.slow
@pytest.mark.representatives(every=3)
@pytest.mark.parametrize("alpha", [0.6, 1.0, 2.0])
@pytest.mark.parametrize(("beam_size", "num_best"), [(4, 1), (4, 2), (5, 3)])
def test_agrees_where_long_outputs_overtake_short_ones(beam_size, num_best, alpha):
    """Some of these are lost if a search stops as soon as no live hypothesis is better by now."""
    model = scripted_model(9, ((PAD, -5.0), (BEGIN, -5.0), (END, 1.0)), decided=0.7)
    options = dict(beam_size=beam_size, alpha=alpha, suppressed_ids=SPECIAL)
    assert_agrees(model, [9 + row % 4 for row in range(200)], num_best, **options)


def assert_agrees(model, max_lengths, num_best, **options):
    rows = range(len(max_lengths))
    found = find(model, rows, max_lengths, num_best=num_best, **options)
    for row, max_length in zip(rows, max_lengths, strict=True):
        expected, _ = plain_beam_search(model, row, max_length, **options)
        best = outputs(found, row)[:num_best]
        assert len(best) == min(num_best, len(expected))
        assert_best(best, expected)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_agrees_with_plain_beam_search_for_any_arguments(data):
    vocab_size = data.draw(st.integers(3, 9), "vocab_size")
    ids = st.integers(0, vocab_size - 1)
    end_id = data.draw(ids, "end_id")
    beam_size = data.draw(st.integers(1, 6), "beam_size")
    num_best = data.draw(st.integers(1, beam_size), "num_best")
    max_length = data.draw(st.integers(0, 6), "max_length")
    row = data.draw(st.integers(0, 999), "row")
    model = scripted_model(vocab_size, (), end_id)
    options = dict(
        beam_size=beam_size,
        alpha=data.draw(st.sampled_from([0.0, 0.3, 0.6, 1.0, 1.5]), "alpha"),
        suppressed_ids=tuple(sorted(data.draw(st.sets(ids, max_size=3)) - {end_id})),
    )
    found = find_eagerly(model, row, max_length, num_best=num_best, **options)
    expected, _ = plain_beam_search(model, row, max_length, **options)
    best = outputs(found, 0)[:num_best]
    assert len(best) == min(num_best, len(expected))
    assert_best(best, expected)


# ---- Greedy search. ----


@pytest.mark.slow
@pytest.mark.parametrize("suppressed_ids", [(), SPECIAL])
@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_a_beam_of_one_is_greedy_search(alpha, suppressed_ids):
    model = scripted_model(9, ((PAD, 2.0),))
    rows = range(30)
    max_lengths = [row % 10 for row in rows]
    options = dict(alpha=alpha, suppressed_ids=suppressed_ids)
    found = find(model, rows, max_lengths, greedy_search, **options)
    for row, max_length in zip(rows, max_lengths, strict=True):
        (item,) = outputs(found, row)
        expected = plain_greedy_search(model, row, max_length, **options)
        assert item.ids == expected.ids
        np.testing.assert_allclose(item[:2], expected[:2], **TOLERANCE)


# ---- Rows do not influence each other. ----


@pytest.mark.slow
@pytest.mark.parametrize(
    ("search", "options"),
    [
        (greedy_search, {}),
        (beam_search, dict(beam_size=1)),
        (beam_search, dict(beam_size=4, num_best=1)),
        (beam_search, dict(beam_size=4, num_best=4)),
    ],
)
def test_a_batch_is_as_its_rows_alone(search, options):
    model = scripted_model(10)
    max_lengths = [0, 30, 1, 12, 0, 5, 30, 2, 8, 1] * 6
    rows = range(100, 100 + len(max_lengths))
    options = dict(alpha=0.6, suppressed_ids=SPECIAL, **options)
    together = find(model, rows, max_lengths, search, **options)
    for i, (row, max_length) in enumerate(zip(rows, max_lengths, strict=True)):
        alone = find(model, [row], [max_length], search, **options)
        assert_same(Hypotheses(*(x[i : i + 1] for x in together)), alone)


@pytest.mark.slow
@pytest.mark.parametrize("search", [greedy_search, beam_search])
def test_an_empty_batch_finds_nothing(search):
    options = {} if search is greedy_search else dict(beam_size=3)
    found = find(scripted_model(10), [], [], search, **options)
    assert found.ids.shape[0] == 0
    assert found.scores.shape == (0, options.get("beam_size", 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    "search",
    [
        greedy_search,
        beam_search,
    ],
)
def test_a_batch_size_known_to_the_graph_changes_nothing(search):
    model = scripted_model(10)
    options = dict(begin_id=BEGIN, end_id=END)
    if search is beam_search:
        options |= dict(beam_size=3)
    rows, max_lengths = tf.constant([4, 5]), tf.constant([6, 3])

    @tf.function
    def run(rows, max_lengths):
        cache = first_cache(rows, options.get("beam_size", 1))
        return search(step_function(model.table), cache, max_lengths=max_lengths, **options)

    assert_same(to_numpy(run(rows, max_lengths)), find(model, rows, max_lengths, search, **options))


# ---- Properties of every result. ----


@pytest.mark.slow
@pytest.mark.parametrize(
    ("search", "options"),
    [
        (greedy_search, {}),
        (beam_search, dict(beam_size=5, num_best=2)),
        (beam_search, dict(beam_size=5, num_best=5)),
        (beam_search, dict(beam_size=16, num_best=3)),  # wider than the vocabulary
    ],
)
@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_result_is_well_formed(search, options, alpha):
    # Suppressed ids are the most probable.
    model = scripted_model(7, ((PAD, 4.0), (BEGIN, 4.0)))
    rows = range(24)
    max_lengths = np.array([row % 8 for row in rows])
    found = find(model, rows, max_lengths, search, alpha=alpha, suppressed_ids=SPECIAL, **options)
    beam_size = options.get("beam_size", 1)
    assert found.ids.shape[:2] == found.scores.shape == (len(rows), beam_size)
    assert found.log_probs.shape == found.lengths.shape == (len(rows), beam_size)
    assert [x.dtype for x in found] == [np.int32, np.float32, np.float32, np.int32]

    positions = np.arange(found.ids.shape[2])
    inside = positions < found.lengths[:, :, np.newaxis]
    assert (found.ids[~inside] == PAD).all()
    assert not np.isin(found.ids[inside], (*SPECIAL, END)).any()
    assert (found.lengths <= max_lengths[:, np.newaxis]).all()
    assert (found.scores[:, :-1] >= found.scores[:, 1:]).all()
    assert (found.scores[:, 0] > -math.inf).all()
    absent = found.scores == -math.inf
    assert (found.log_probs[absent] == -math.inf).all()
    assert (found.lengths[absent] == 0).all()
    for row in rows:
        items = outputs(found, row)
        assert len({item.ids for item in items}) == len(items)
        for item in items:
            log_prob = model.output_log_prob(row, item.ids)
            np.testing.assert_allclose(item[:2], output(log_prob, item.ids, alpha)[:2], **TOLERANCE)


@pytest.mark.slow
def test_ties_give_different_hypotheses():
    model = scripted_model(6)
    table = tf.zeros_like(model.table)
    options = dict(beam_size=8, num_best=8, begin_id=BEGIN, end_id=END, suppressed_ids=SPECIAL)
    found = to_numpy(compiled(beam_search, 6, **options)(table, [0, 1], [3, 5]))
    for row in range(2):
        items = outputs(found, row)
        assert len({item.ids for item in items}) == len(items) == 8
        expected = [-(len(item.ids) + 1) * math.log(6) for item in items]
        np.testing.assert_allclose([item.log_prob for item in items], expected, rtol=1e-5)


@pytest.mark.slow
def test_no_room_for_tokens_leaves_only_the_empty_output():
    model = scripted_model(6, ((END, -9.0),))
    found = find(model, range(5), [0] * 5, beam_size=3, num_best=3, alpha=0.6)
    for row in range(5):
        (item,) = outputs(found, row)
        assert item.ids == ()
        np.testing.assert_allclose(item.score, model.log_probs(row, ())[END], **TOLERANCE)


@pytest.mark.slow
def test_cache_and_newest_token_belong_to_the_same_hypothesis():
    """At every step the step function sees each live prefix of the plain search."""
    model = scripted_model(9, ((END, -1.0),))
    options = dict(beam_size=4, alpha=0.6, suppressed_ids=SPECIAL)
    reordered = False
    for row in range(12):
        seen = []

        def step(newest, cache, seen=seen):
            logits, cache = step_function(model.table)(newest, cache)
            seen.append((cache["inputs"][0].numpy()[0], cache["codes"].numpy()[0]))
            return logits, cache

        find_eagerly(model, row, 7, step, num_best=4, **options)
        _, visited = plain_beam_search(model, row, 7, **options)
        assert len(seen) <= len(visited)
        for prefixes, (inputs, codes) in zip(visited, seen, strict=False):
            code_of = {tuple(ids.tolist()): code for ids, code in zip(inputs, codes, strict=True)}
            for ids in prefixes:
                assert (BEGIN, *ids) in code_of
                assert code_of[BEGIN, *ids] == functools.reduce(next_code, (BEGIN, *ids), row)
            siblings = len(prefixes) - len({ids[:-1] for ids in prefixes})
            reordered |= siblings > 0 and len(prefixes[0]) > 1
    assert reordered  # otherwise the test shows nothing


# ---- When a search stops. ----


def count_steps(model, row, max_length, **options):
    calls = []

    def step(newest, cache):
        calls.append(newest)
        return step_function(model.table)(newest, cache)

    return find_eagerly(model, row, max_length, step, **options), len(calls)


@pytest.mark.parametrize(("beam_size", "num_best", "steps"), [(1, 1, 1), (4, 1, 1), (4, 4, 2)])
def test_stops_when_nothing_better_can_come(beam_size, num_best, steps):
    """The second best outputs end one step later than the best."""
    model = scripted_model(10, ((END, 60.0),))
    for alpha in ALPHAS:
        found, counted = count_steps(
            model, 7, 500, beam_size=beam_size, num_best=num_best, alpha=alpha
        )
        assert outputs(found, 0)[0].ids == ()
        assert counted == steps


@pytest.mark.slow
@pytest.mark.parametrize("search", [greedy_search, beam_search])
def test_graph_stops_once_all_rows_are_done(search):
    model = scripted_model(10, ((END, 60.0),))
    counter = tf.Variable(0)
    options = {} if search is greedy_search else dict(beam_size=4, num_best=2)

    @tf.function(input_signature=[IDS, IDS])
    def run(rows, max_lengths):
        def step(newest, cache):
            counter.assign_add(1)
            return step_function(model.table)(newest, cache)

        return search(
            step,
            first_cache(rows, options.get("beam_size", 1)),
            begin_id=BEGIN,
            end_id=END,
            max_lengths=max_lengths,
            alpha=0.6,
            **options,
        )

    run([1, 2, 3], [500, 0, 400])
    assert counter.numpy() == options.get("num_best", 1)


@pytest.mark.slow
def test_early_stop_saves_steps():
    """Otherwise agreement with the plain search would not show that stopping is harmless."""
    model = scripted_model(8)
    options = dict(beam_size=4, alpha=0.6, suppressed_ids=SPECIAL)
    saved = []
    for row in range(12):
        _, steps = count_steps(model, row, 8, num_best=1, **options)
        _, visited = plain_beam_search(model, row, 8, **options)
        saved.append(len(visited) - steps)
    assert min(saved) >= 0
    assert sum(saved) > 0


@pytest.mark.slow
@pytest.mark.parametrize("search", [greedy_search, beam_search])
def test_a_model_that_never_ends_is_cut_off(search):
    model = scripted_model(10, ((END, -60.0),))
    max_lengths = [0, 25, 3, 11]
    options = {} if search is greedy_search else dict(beam_size=3, num_best=3)
    found = find(model, range(4), max_lengths, search, suppressed_ids=SPECIAL, **options)
    for row, max_length in enumerate(max_lengths):
        items = outputs(found, row)
        # All of the beam, but for the row that has only one possible output.
        assert len(items) == (options.get("num_best", 1) if max_length else 1)
        for item in items:
            assert len(item.ids) == max_length
            expected = model.output_log_prob(row, item.ids)
            np.testing.assert_allclose(item.log_prob, expected, **TOLERANCE)


@pytest.mark.parametrize(
    ("alpha", "ids", "score", "steps"),
    [(0.0, (), math.log(0.5), 1), (1.0, (3, 4, 3, 4, 3, 4), math.log(0.26) / 2, 7)],
)
def test_a_finished_hypothesis_waits_for_a_longer_one_that_may_win(alpha, ids, score, steps):
    """The end at once has 0.5; 3 has 0.26, and then 4 and 3 follow each other for certain.

    ln 0.26 / 2 is barely above ln 0.5, and only an output of full length has the penalty 2.
    """
    probabilities = np.zeros((5, 5), np.float32)
    probabilities[BEGIN, [END, 3, 4]] = 0.5, 0.26, 0.24
    probabilities[3, [4, END]] = 1.0, 1e-30
    probabilities[4, [3, END]] = 1.0, 1e-30
    probabilities[[PAD, END], END] = 1.0
    # The end is certain once six tokens are there.
    last = np.eye(5, dtype=np.float32)[END]
    calls = []

    def step(newest, cache):
        calls.append(newest)
        logits = tf.gather(np.log(probabilities + 1e-38), newest)
        return tf.where(cache[:, :, tf.newaxis] == 6, np.log(last + 1e-38), logits), cache + 1

    found = beam_search(
        step,
        tf.zeros((1, 2), tf.int32),
        beam_size=2,
        begin_id=BEGIN,
        end_id=END,
        max_lengths=tf.constant([6]),
        alpha=alpha,
        suppressed_ids=SPECIAL,
    )
    best = outputs(to_numpy(found), 0)[0]
    assert best.ids == ids
    np.testing.assert_allclose(best.score, score, **TOLERANCE)
    assert len(calls) == steps


# ---- What rows may want for themselves. ----


def find_with(model, rows, width, num_best=1, **options):
    """A beam search of this width with the options of each row."""
    options = {name: tf.constant(value) for name, value in options.items()}
    return to_numpy(
        search_beam(
            ScriptedSteps(step_function(model.table)),
            first_cache(tf.constant(list(rows)), width),
            beam_size=width,
            begin_id=BEGIN,
            end_ids=[model.end_id],
            options=SearchOptions(**options),
            num_best=num_best,
            suppressed_ids=SPECIAL,
        )
    )


def test_beam_and_penalty_of_each_row():
    model, rows = scripted_model(9), range(24)
    beams, alphas = [row % 5 + 1 for row in rows], [row % 3 * 0.5 for row in rows]
    found = find_with(model, rows, 5, max_length=[8] * 24, length_penalty=alphas, beam_size=beams)
    for row in rows:
        expected, _ = plain_beam_search(model, row, 8, alphas[row], SPECIAL, beams[row])
        best = outputs(found, row)
        assert_best(best[:1], expected)
        assert len(best) <= beams[row]


def repeats(ids, size):
    grams = [ids[i : i + size] for i in range(len(ids) - size + 1)]
    return len(set(grams)) < len(grams)


@pytest.mark.parametrize("alpha", [0.0, 0.8])
def test_exhaustive_search_within_what_is_allowed(alpha):
    """A beam as wide as all outputs, with a fewest length, no repeated n-gram and a prefix."""
    model, rows = scripted_model(5), range(18)
    shortest = [row % 4 for row in rows]
    sizes = [row % 3 for row in rows]
    prefixes = [[(), (3,), (4, 3)][row // 6] for row in rows]
    everything = [all_outputs(model, row, 4, alpha, SPECIAL) for row in rows]
    found = find_with(
        model,
        rows,
        len(everything[0]),
        num_best=len(everything[0]),
        max_length=[4] * 18,
        length_penalty=[alpha] * 18,
        min_length=shortest,
        no_repeat_ngram=sizes,
        prefix=[(*prefix, 0, 0, 0)[:3] for prefix in prefixes],
    )
    for row in rows:
        prefix, expected = prefixes[row], []
        given = sum(model.log_probs(row, prefix[:i])[token] for i, token in enumerate(prefix))
        for item in everything[row]:
            if (
                item.ids[: len(prefix)] == prefix
                and len(item.ids) >= shortest[row]
                and not (sizes[row] and repeats(item.ids, sizes[row]))
            ):
                log_prob = item.log_prob - given
                penalty = ((5 + len(item.ids) - len(prefix) + 1) / 6) ** alpha
                expected.append(Output(log_prob / penalty, log_prob, item.ids))
        best = outputs(found, row)
        assert len(best) == len(expected)
        assert_best(best, sorted(expected, reverse=True))


def test_coverage_penalty():
    """Attention that is known: the score is log-probability and the logarithm of what it covers."""
    model = scripted_model(7)
    rng = np.random.default_rng(1)
    looks = rng.dirichlet(np.ones(4), size=7).astype("float32")  # of each newest token

    class Attentive(ScriptedSteps):
        def decode_step(self, newest, parents, number, state, return_attention=False):
            logits, _, state = super().decode_step(newest, parents, number, state)
            return logits, tf.gather(looks, newest) if return_attention else None, state

    mask, beta = np.array([[True, True, True, False]]), 0.7
    width = len(all_outputs(model, 5, 3, 0.0, SPECIAL))
    found = to_numpy(
        search_beam(
            Attentive(step_function(model.table)),
            first_cache(tf.constant([5]), width),
            beam_size=width,
            begin_id=BEGIN,
            end_ids=[END],
            options=SearchOptions(
                max_length=tf.constant([3]),
                length_penalty=0.6,
                coverage_penalty=tf.constant([beta]),
                source_mask=tf.constant(mask),
            ),
            num_best=width,
            suppressed_ids=SPECIAL,
        )
    )
    expected = []
    for item in all_outputs(model, 5, 3, 0.6, SPECIAL):
        covered = np.minimum(sum(looks[token] for token in (BEGIN, *item.ids)), 1.0)
        penalty = beta * np.log(covered[mask[0]]).sum()
        expected.append(Output(item.score + penalty, item.log_prob, item.ids))
    assert_best(outputs(found, 0), sorted(expected, reverse=True))


@pytest.mark.slow
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("forbidden", [(), (0, 1, 3), (2, 16)], ids=str)
@pytest.mark.representatives("1201", "8000")
@pytest.mark.parametrize("vocab_size", [5, 17, 47, 1200, 1201, 4100, 8000])
def test_the_best_of_a_vocabulary(vocab_size, forbidden, is_known):
    """Found by blocks: those of the plain top-k, ties in the same order."""
    rng = np.random.default_rng(1)
    forbidden = tuple(token for token in forbidden if token < vocab_size)
    where = np.array(forbidden, int)
    logits = rng.normal(size=(3, 2, vocab_size)).astype("float32")
    logits[0, :, where] += 10
    logits[1] = rng.integers(0, 5, size=(2, vocab_size))
    logits[2] = -np.inf
    logits[2, :, vocab_size // 2] = 1.0
    allowed = logits.copy()
    allowed[:, :, where] = -np.inf
    spec = tf.TensorSpec([None, 2, vocab_size if is_known else None], tf.float32)
    for k in (1, 2):

        def find_best(logits, k=k):
            return logits_processing.top_k(logits, k, forbidden)

        best, ids = tf.function(find_best, input_signature=[spec])(logits)
        expected_best, expected_ids = tf.math.top_k(allowed, k)
        np.testing.assert_array_equal(best, expected_best)
        np.testing.assert_array_equal(ids[:2], expected_ids[:2])
        if vocab_size // 2 not in forbidden:
            assert ids[2, 0, 0] == vocab_size // 2
    spec = tf.TensorSpec([None, vocab_size if is_known else None], tf.float32)

    def find_one(logits):
        return logits_processing.best_token(logits, forbidden)

    best, ids = tf.function(find_one, input_signature=[spec])(logits[:, 0])
    np.testing.assert_array_equal(best, allowed[:, 0].max(axis=1))
    np.testing.assert_array_equal(ids, allowed[:, 0].argmax(axis=1))


@pytest.mark.parametrize("is_known", [True, False])
def test_forbidden_tokens(is_known):
    logits = np.random.default_rng(1).normal(size=(3, 2, 7)).astype("float32")
    spec = tf.TensorSpec([None, 2, 7 if is_known else None], tf.float32)
    function = functools.partial(logits_processing.forbid, tokens=(0, 3))
    expected = logits.copy()
    expected[:, :, [0, 3]] = -np.inf
    np.testing.assert_array_equal(tf.function(function, input_signature=[spec])(logits), expected)

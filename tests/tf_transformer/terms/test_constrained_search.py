"""Constrained search against enumeration and plain Python, on scripted models."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tf_transformer.decoding.scripted_model import (
    BEGIN,
    END,
    PAD,
    ScriptedSteps,
    all_outputs,
    first_cache,
    scripted_model,
    step_function,
)
from tf_transformer.decoding.beam_search import Search
from tf_transformer.decoding.search_interface import SearchOptions
from tf_transformer.terms.constrained_search import ConstrainedSearch, TrackedModel
from tf_transformer.terms.constraints import Constraints, TokenTables, count_occurrences

VOCAB = 6
TOKENS = tuple(range(3, VOCAB))
NUM_ROWS = 5  # of every search, so that its graph is traced once; the rest are empty


def make_tables(vocab_size=VOCAB, **tokens):
    """`TokenTables` of the tokens that are true in each."""
    found = (np.isin(np.arange(vocab_size), tokens.get(x, ())) for x in TokenTables._fields)
    return TokenTables(*map(tf.constant, found))


PLAIN_TABLES = make_tables()
WORD_TABLES = [
    # Tokens 4 and 5 continue a word, 3 and 4 end in one.
    make_tables(continues=(4, 5), ends_in_word=(3, 4), ends_joined=(3, 4)),
    # 5 is a connector.
    make_tables(continues=4, ends_in_word=(3, 4), ends_joined=(3, 4, 5), is_connector=5),
]


class Phrase:
    """A phrase of a test: its spellings, as tuples of tokens, and what it asks for."""

    def __init__(self, *spellings, needed=1, starts_in_word=True, is_closed=False):
        self.spellings = spellings
        self.needed = needed
        self.starts_in_word = starts_in_word
        self.is_closed = is_closed

    def __repr__(self):
        return f"Phrase{self.spellings, self.needed, self.starts_in_word, self.is_closed}"

    def is_plain(self):
        return self.starts_in_word and not self.is_closed

    def count(self, ids, tables):
        """Occurrences in ids, found by comparing slices from left to right."""
        count, last = 0, 0
        tables = TokenTables(*(table.numpy() for table in tables))
        ends = tables.ends_joined if self.is_closed else tables.ends_in_word
        for end in range(1, len(ids) + 1):
            for spelling in self.spellings:
                start = end - len(spelling)
                if start < last or ids[start:end] != spelling:
                    continue
                if start > 0 and ends[ids[start - 1]] and not self.starts_in_word:
                    continue
                rest = itertools.dropwhile(lambda token: tables.is_connector[token], ids[end:])
                is_continued = tables.continues[next(rest, PAD)]
                count += not (self.is_closed and is_continued)
                last = end
                break
        return count


def make_constraints(rows):
    """`Constraints` of lists of phrases."""
    shape = (len(rows), 4)
    ids = np.zeros((*shape, 2, 4), np.int32)
    needed, closed = np.zeros(shape, np.int32), np.zeros(shape, bool)
    starts = np.zeros((*shape, 2), bool)
    for row, column in np.ndindex(shape):
        if column < len(rows[row]):
            phrase = rows[row][column]
            for index, spelling in enumerate(phrase.spellings):
                ids[row, column, index, : len(spelling)] = spelling
            needed[row, column], closed[row, column] = phrase.needed, phrase.is_closed
            starts[row, column] = phrase.starts_in_word
    return Constraints(*map(tf.constant, (ids, needed, starts, closed)))


compiled_count = tf.function(count_occurrences, reduce_retracing=True)


@functools.cache
def compiled(beam_size, num_best, is_constrained, vocab_size=VOCAB):
    """The search as one graph for all tables, phrases and limits."""

    @tf.function
    def run(table, rows, options, constraints, *tables):
        model = ScriptedSteps(step_function(table))
        state = first_cache(rows, beam_size)
        if not is_constrained:
            return Search(model, beam_size, (END,), num_best, (PAD, BEGIN)).run(
                state, BEGIN, options
            )
        model = TrackedModel(model, TokenTables(*tables))
        search = ConstrainedSearch(model, beam_size, (END,), num_best, (PAD, BEGIN))
        return search.run(model.start(state, constraints, beam_size), BEGIN, options)

    return run


def find(model, phrases, max_lengths, *, beam_size, num_best=1, tables=PLAIN_TABLES, **options):
    """What a constrained search finds for rows of phrases; `max_lengths` one for all, or a list."""
    num_empty = NUM_ROWS - len(phrases)
    options["max_length"] = np.broadcast_to(max_lengths, len(phrases))
    options = {
        name: tf.constant(np.pad(values, (0, num_empty)), tf.int32)
        for name, values in options.items()
    }
    options = SearchOptions(length_penalty=0.6, **options)
    run = compiled(beam_size, num_best, True, len(tables.ends_in_word))
    constraints = make_constraints([*phrases, *[[]] * num_empty])
    found = run(model.table, tf.range(NUM_ROWS), options, constraints, *tables)
    return type(found)(*(x.numpy() for x in found))


def outputs(found, row):
    return [
        tuple(ids[:length].tolist())
        for ids, score, length in zip(found.ids[row], found.scores[row], found.lengths[row],
                                      strict=True)
        if np.isfinite(score)
    ]  # fmt: skip


def is_complete(ids, phrases, tables=PLAIN_TABLES):
    return all(phrase.count(ids, tables) >= phrase.needed for phrase in phrases)


SPELLING = st.lists(st.sampled_from(TOKENS), min_size=1, max_size=3).map(tuple)
PLAIN_PHRASE = st.builds(
    lambda spellings, needed: Phrase(*spellings, needed=needed),
    st.lists(SPELLING, min_size=1, max_size=2, unique=True),
    st.sampled_from([1, 1, 1, 2]),
)
WORD_PHRASE = st.builds(
    lambda spellings, needed, starts, closed: Phrase(
        *spellings, needed=needed, starts_in_word=starts, is_closed=closed
    ),
    st.lists(SPELLING, min_size=1, max_size=2, unique=True),
    st.sampled_from([1, 1, 2]),
    st.booleans(),
    st.booleans(),
).filter(lambda phrase: not phrase.is_closed or all(set(x) - {5} for x in phrase.spellings))


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.lists(WORD_PHRASE, max_size=3), min_size=1, max_size=4),
    st.lists(st.lists(st.sampled_from(TOKENS), max_size=9), min_size=4, max_size=4),
    st.sampled_from(WORD_TABLES),
)
def test_occurrences_are_those_of_slices(phrases, outputs, tables):
    ids = np.zeros((len(phrases), 9), np.int32)
    for row, tokens in zip(ids, outputs, strict=False):
        row[: len(tokens)] = tokens
    found = compiled_count(make_constraints(phrases), tf.constant(ids), tables).numpy()
    for row, row_phrases in enumerate(phrases):
        expected = [phrase.count(tuple(outputs[row]), tables) for phrase in row_phrases]
        assert found[row, : len(expected)].tolist() == expected


@pytest.mark.slow
def test_a_beginning_that_is_not_continued_may_be_part_of_the_phrase():
    phrase = Phrase((3, 4, 3, 5))
    for ids, count in (((3, 4, 3, 4, 3, 5), 1), ((3, 3, 4, 3, 5), 1), ((3, 4, 4, 3, 5), 0)):
        found = compiled_count(make_constraints([[phrase]]), tf.constant([ids]), PLAIN_TABLES)
        assert found.numpy().tolist() == [[count, 0, 0, 0]]


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(WORD_PHRASE, max_size=2), min_size=1, max_size=3),
    st.integers(0, 4),
    st.sampled_from(WORD_TABLES),
)
def test_a_wide_beam_finds_the_best_of_all_outputs_with_the_phrases(phrases, max_length, tables):
    """A row whose phrases do not fit has an output with the most that do."""
    model = scripted_model(VOCAB)
    found = find(model, phrases, max_length, beam_size=210, num_best=3, tables=tables)
    for row, row_phrases in enumerate(phrases):
        everything = all_outputs(model, row, max_length, 0.6, (PAD, BEGIN))
        complete = [x for x in everything if is_complete(x.ids, row_phrases, tables)]
        if complete:
            expected = complete[:3]
            assert outputs(found, row)[: len(expected)] == [x.ids for x in expected]
            np.testing.assert_allclose(
                found.scores[row, : len(expected)], [x.score for x in expected], rtol=1e-5
            )
        elif all(phrase.is_plain() for phrase in row_phrases):

            def num_found(ids, row_phrases=row_phrases):
                counts = (min(p.needed, p.count(ids, tables)) for p in row_phrases)
                return sum(counts)

            # Only outputs of the largest length are forced to end.
            longest = [x for x in everything if len(x.ids) == max_length]
            most = max(num_found(x.ids) for x in longest)
            best = next(x for x in longest if num_found(x.ids) == most)
            assert outputs(found, row)[0] == best.ids


def is_allowed(ids, phrases, n, tables=PLAIN_TABLES):
    """Whether all tokens that repeat an n-gram are parts of phrases that were missing until then.

    By comparing slices; 0 allows everything.
    """
    ngrams = [ids[max(end - n, 0) : end] for end in range(1, len(ids) + 1)]
    repeated = {i for i in range(n - 1, len(ids)) if ngrams[i] in ngrams[n - 1 : i]} if n else set()
    for phrase in phrases:
        counts = [phrase.count(ids[:end], tables) for end in range(len(ids) + 1)]
        for start, spelling in itertools.product(range(len(ids)), phrase.spellings):
            if counts[start] >= phrase.needed or counts[-1] == counts[start]:
                continue
            # Perhaps another spelling ends in this one; then the phrase is there.
            end = next(i for i, count in enumerate(counts) if count > counts[start])
            if ids[start:end] == spelling[: end - start]:
                repeated -= set(range(start, end))
    return not repeated


def test_the_reference_of_repetitions():
    haus = Phrase((3, 3))
    assert is_allowed((5, 3, 3, 4), [haus], 1) and not is_allowed((5, 3, 3, 4), [], 1)
    assert not is_allowed((3, 3, 3), [haus], 1) and not is_allowed((3, 3, 5, 5), [haus], 1)
    assert is_allowed((3, 3, 3), [haus], 3) and not is_allowed((4, 5, 4, 5), [haus], 2)
    assert is_allowed((4, 5, 3, 4, 5), [Phrase((4, 5), needed=2)], 2)
    either = Phrase((3,), (4, 3, 3))
    assert is_allowed((4, 5, 4, 3), [either], 1) and not is_allowed((4, 5, 4), [either], 1)
    assert not is_allowed((4, 5, 4, 3, 3), [either], 1)


# n of each row.
NO_REPEATS = st.lists(st.sampled_from([0, 0, 1, 2, 3]), min_size=4, max_size=4)


@pytest.mark.representatives("6-1", "8-4")
@pytest.mark.slow
@pytest.mark.parametrize("beam_size", [1, 2, 4])
@pytest.mark.parametrize("vocab_size", [6, 8])
@settings(max_examples=25, deadline=None)
@given(
    phrases=st.lists(st.lists(PLAIN_PHRASE, max_size=4), min_size=1, max_size=4),
    sizes=NO_REPEATS,
    slack=st.integers(0, 4),
)
def test_phrases_that_fit_are_always_there(vocab_size, beam_size, phrases, sizes, slack):
    """Even those that repeat n-grams where none may be repeated, and nothing else is repeated."""
    tables = make_tables(vocab_size)
    max_lengths = make_constraints(phrases).num_tokens().numpy() + slack
    found = find(
        scripted_model(vocab_size),
        phrases,
        max_lengths,
        beam_size=beam_size,
        tables=tables,
        no_repeat_ngram=sizes[: len(phrases)],
    )
    for row, row_phrases in enumerate(phrases):
        (best, *_) = outputs(found, row)
        assert len(best) <= max_lengths[row]
        assert is_complete(best, row_phrases, tables)
        assert is_allowed(best, row_phrases, sizes[row], tables)


def overlaps_itself(spelling):
    return any(spelling[:size] == spelling[-size:] for size in range(1, len(spelling)))


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.lists(
            PLAIN_PHRASE.filter(lambda phrase: not any(map(overlaps_itself, phrase.spellings))),
            max_size=2,
        ),
        min_size=1,
        max_size=3,
    ),
    NO_REPEATS,
    st.integers(0, 4),
)
def test_a_wide_beam_finds_the_best_output_without_other_repeats(phrases, sizes, max_length):
    model = scripted_model(VOCAB)
    no_repeat = sizes[: len(phrases)]
    found = find(model, phrases, max_length, beam_size=210, no_repeat_ngram=no_repeat)
    for row, row_phrases in enumerate(phrases):
        everything = all_outputs(model, row, max_length, 0.6, (PAD, BEGIN))
        complete = (
            x
            for x in everything
            if is_complete(x.ids, row_phrases) and is_allowed(x.ids, row_phrases, sizes[row])
        )
        if not (best := next(complete, None)):
            continue
        own = outputs(found, row)[0]
        if abandons_phrase(best.ids, row_phrases):
            # Not found: the search counts a token that begins a phrase as a part of it, so that
            # the same token may not be repeated after it for the phrase: (3, 3, 4) for "3 4".
            assert is_complete(own, row_phrases) and is_allowed(own, row_phrases, sizes[row])
            continue
        assert own == best.ids
        np.testing.assert_allclose(found.scores[row, 0], best.score, rtol=1e-5)


def abandons_phrase(ids, phrases) -> bool:
    """Whether an output has the beginning of a phrase that does not go on."""
    return any(
        ids[start : start + length] == spelling[:length]
        and ids[start : start + length + 1] != spelling[: length + 1]
        for phrase in phrases
        for spelling in phrase.spellings
        for length in range(1, len(spelling))
        for start in range(len(ids))
    )


@pytest.mark.representatives("4")
@pytest.mark.slow
@pytest.mark.parametrize("beam_size", [1, 2, 3, 4])
@settings(max_examples=12, deadline=None)
@given(
    phrases=st.lists(st.lists(PLAIN_PHRASE, max_size=3), min_size=2, max_size=5),
    max_length=st.integers(3, 9),
)
def test_rows_do_not_influence_each_other(beam_size, phrases, max_length):
    """A row without phrases gets what the plain search finds, and each what it gets alone."""
    model = scripted_model(VOCAB)
    together = find(model, phrases, max_length, beam_size=beam_size)
    options = SearchOptions(max_length=tf.fill([NUM_ROWS], max_length), length_penalty=0.6)
    plain = compiled(beam_size, 1, False)(
        model.table, tf.range(NUM_ROWS), options, make_constraints([[]] * NUM_ROWS), *PLAIN_TABLES
    )
    for row, row_phrases in enumerate(phrases):
        # The scripted model knows rows by their number.
        alone = find(model, [*[[]] * row, row_phrases], max_length, beam_size=beam_size)
        assert outputs(together, row)[0] == outputs(alone, row)[0]
        np.testing.assert_allclose(together.scores[row, 0], alone.scores[row, 0], rtol=1e-5)
        if not row_phrases:
            length = plain.lengths[row, 0]
            assert outputs(together, row)[0] == tuple(plain.ids[row, 0, :length].numpy())
            np.testing.assert_allclose(together.scores[row, 0], plain.scores[row, 0], rtol=1e-5)


@pytest.mark.slow
def test_per_row_options():
    """Beam sizes, minimum lengths and repetitions of rows hold beside phrases."""
    model = scripted_model(VOCAB)
    phrases = [[Phrase((5, 3))], [], [Phrase((4, 4))], [Phrase((4, 4))]]
    found = find(
        model,
        phrases,
        8,
        beam_size=4,
        min_length=[6, 6, 0, 0],
        no_repeat_ngram=[0, 0, 0, 1],
    )
    best = [outputs(found, row)[0] for row in range(4)]
    assert len(best[0]) >= 6 and len(best[1]) >= 6
    assert is_complete(best[0], phrases[0]) and is_complete(best[2], phrases[2])
    assert is_complete(best[3], phrases[3]) and is_allowed(best[3], phrases[3], 1)


@pytest.mark.slow
def test_contradictory_limits_give_the_most(no_hang):
    """Three phrases of 2 tokens in an output of 5: two of them are there."""
    model = scripted_model(VOCAB)
    phrases = [Phrase((3, 4)), Phrase((4, 5)), Phrase((5, 5), needed=1)]
    for order in itertools.permutations(phrases):
        found = find(model, [list(order)], 3, beam_size=4)
        best = outputs(found, 0)[0]
        assert len(best) == 3
        assert sum(phrase.count(best, PLAIN_TABLES) >= 1 for phrase in phrases) >= 2

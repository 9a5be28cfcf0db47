"""The terms of a text's sentences, against entries that are applied to each sentence alone."""

import pytest
import tensorflow as tf

from tf_transformer.terms.entries import applicable_phrases, parse_entries
from tf_transformer.terms.limits import MAX_ENTRIES, MAX_PHRASES, MAX_TEXT_ENTRIES
from tf_transformer.terms.sentence_terms import terms_of_sentences

STRINGS = tf.TensorSpec([None], tf.string)


@tf.function(
    input_signature=[
        STRINGS, tf.TensorSpec([None], tf.int32), STRINGS, STRINGS, tf.TensorSpec([None], tf.bool)
    ]
)  # fmt: skip
def find(terms, rows, written, cased, any_case):
    return terms_of_sentences(
        parse_entries(terms, MAX_TEXT_ENTRIES), rows, [written, cased], any_case
    )


def found(terms, rows, sentences, cased=None, any_case=None):
    """The target phrases of each sentence, and the other outputs, as Python values."""
    answer = find(
        tf.constant(terms),
        tf.constant(rows),
        tf.constant(sentences),
        tf.constant(sentences if cased is None else cased),
        tf.constant([False] * len(rows) if any_case is None else any_case),
    )
    lines = [text.decode().split("\n") if text else [] for text in answer.terms.numpy()]
    assert all(line.startswith("\t") for row in lines for line in row)
    phrases = [[line[1:] for line in row] for row in lines]
    return phrases, answer.has_source.numpy().tolist(), answer.num_ignored.numpy().tolist()


@pytest.mark.slow
def test_each_sentence_has_those_of_its_text():
    terms = ["bank\tUfer\n\tja\nred dog\tHund", "", "bank\tBank"]
    sentences = ["The bank.", "A red dog at a bank.", "---", "The bank.", "The bank."]
    phrases, has_source, _ = found(terms, [0, 0, 0, 1, 2], sentences)
    assert phrases == [["Ufer", "ja"], ["Ufer", "ja", "Hund"], ["ja"], [], ["Bank"]]
    assert has_source == [True, True, False, False, True]


def test_each_way_to_write_a_sentence_counts():
    """And case, where it does not count."""
    terms = ["DOG\tA\ndog\tB\nAsian\tC\nstraße\tD\nοδος\tE"]
    phrases, *_ = found(
        terms,
        [0, 0, 0, 0, 0],
        ["THE ASIAN DOG", "THE ASIAN DOG", "the asian dog", "STRASSE ΟΔΟΣ", "STRASSE"],
        ["The asian dog"] * 3 + ["Strasse", "Strasse"],
        [False, True, False, True, False],
    )
    assert phrases == [["A", "B"], ["A", "B", "C"], ["B"], ["D", "E"], []]


def test_distinct_phrases_up_to_the_limit():
    terms = "dog\tx\n" * 100 + "dog\ty\n" + "".join(f"\tt{i}\n" for i in range(30))
    phrases, _, num_ignored = found([terms], [0, 0], ["a dog", "a cat"])
    assert phrases[0] == ["x", "y", *(f"t{i}" for i in range(MAX_PHRASES - 2))]
    assert phrases[1] == [f"t{i}" for i in range(MAX_PHRASES)]
    assert num_ignored == [32 - MAX_PHRASES, 30 - MAX_PHRASES]


def test_a_text_may_have_more_terms_than_a_sentence():
    number = MAX_ENTRIES + 44
    terms = ["\n".join(f"w{i}\tx{i}" for i in range(number))]
    sentences = [f"A w{i} b." for i in range(number)]
    phrases, *_ = found(terms, [0] * number, sentences)
    assert phrases == [[f"x{i}"] for i in range(number)]


def test_sentences_are_searched_as_texts_of_their_own():
    terms = "a\tA\na b\tB\nb a\tC\n\tD\nc\tc\tc"
    sentences = ["a", "b a b", "", "c a", "a b"]
    expected = applicable_phrases(parse_entries(tf.constant([terms] * 5)), tf.constant(sentences))
    phrases, *_ = found([terms], [0] * 5, sentences)
    assert phrases == [[x.decode() for x in row] for row in expected.to_list()]


def test_no_sentences():
    assert found(
        [""], tf.zeros([0], tf.int32), tf.zeros([0], tf.string), any_case=tf.zeros([0], tf.bool)
    ) == ([], [], [])

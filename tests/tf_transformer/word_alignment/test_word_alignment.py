"""Pharaoh's format, the alignment error rate by hand, and symmetrization on small grids."""

import re

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer import Tokenizer
from tf_transformer.text.text_file import TextFile
from tf_transformer.word_alignment.error_rate import ErrorRate
from tf_transformer.word_alignment.pharaoh import (
    check_alignments,
    format_links,
    parse_links,
    parse_reference,
)
from tf_transformer.word_alignment.piece_words import (
    count_words,
    group_by_word,
    word_indices,
)
from tf_transformer.word_alignment.symmetrization import SYMMETRIZATIONS, symmetrize
from training.config import VocabularyConfig
from training.data.vocabulary import train_sentencepiece


def test_format():
    assert parse_links(" 0-0\t2-1  10-0 ", "f:1") == {(0, 0), (2, 1), (10, 0)}
    assert parse_links("", "f:1") == set()
    sure, possible = parse_reference("0-0 1?2 1p3", "f:1")
    assert (sure, possible) == ({(0, 0)}, {(1, 2), (1, 3)})
    assert parse_links("0-0 1?2", "f:1") == {(0, 0), (1, 2)}
    assert format_links({(10, 0), (2, 1), (2, 0)}) == "2-0 2-1 10-0"


@pytest.mark.parametrize(
    "word", ["0", "0-", "-1-0", "0-0-0", "a-b", "1,0", "0-0\xa01-1", "12345678-0", "٠-٠", "0--0"]
)
def test_garbage_is_refused(word):
    message = r"f:7: expected links of words such as 0-0 1-2, got "
    with pytest.raises(ValueError, match=message):
        parse_links(f"0-0 {word}", "f:7")


@pytest.fixture
def files(tmp_path):
    """A function that writes alignments of two pairs, and returns the arguments of the check."""

    def write(alignments: str):
        for name, text in (("a", alignments), ("s", "a b c\nd\n"), ("t", "e\xa0f\n\n")):
            (tmp_path / name).write_text(text, encoding="utf-8")
        return [TextFile(tmp_path / name) for name in ("a", "s", "t")]

    return write


def test_alignments_of_a_text(files):
    check_alignments(*files("2-0 0-1\n\n"))
    for text, message in (
        ("0-0\n0-0\n", "a:2: the link 0-0 is of a word that the target does not have: it has 0"),
        ("0-0 3-1\n\n", "a:1: the link 3-1 is of a word that the source does not have: it has 3"),
        ("0-2\n\n", "a:1: the link 0-2 is of a word that the target does not have: it has 2"),
        ("0-0\n", "a has 1 lines, "),
        ("\n\n\n", "a has 3 lines, "),
        ("\nx\n", "a:2: expected links"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            check_alignments(*files(text))
    check_alignments(*files("\nx\n"), most=1)


def test_error_rate_by_hand():
    """A = 4 links, S = 3, P = 5; |A and S| = 2, |A and P| = 3: AER = 1 - 5/7."""
    rate = ErrorRate()
    rate.add({(0, 0), (1, 1)}, parse_reference("0-0 1?1 2-2", ""))
    rate.add({(0, 0), (5, 5)}, parse_reference("0-0 1?1", ""))
    assert (rate.links, rate.sure, rate.links_and_sure, rate.links_and_possible) == (4, 3, 2, 3)
    assert rate.aer == pytest.approx(1 - 5 / 7)
    assert rate.precision == pytest.approx(3 / 4)
    assert rate.recall == pytest.approx(2 / 3)


def test_error_rate_at_its_ends():
    perfect, wrong = ErrorRate(), ErrorRate()
    perfect.add({(0, 0), (1, 1)}, parse_reference("0-0 1?1", ""))
    wrong.add({(0, 1)}, parse_reference("0-0", ""))
    assert (perfect.aer, wrong.aer) == (0.0, 1.0)
    assert ErrorRate().aer == 0.0


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("intersection", "0-0 3-3"),
        ("union", "0-0 1-0 1-1 3-1 3-3 5-2 6-6"),
        # 1-0 and 1-1 are neighbors of 0-0, and 1-1 only while word 1 of the target has no link.
        ("grow-diag", "0-0 1-0 1-1 3-3"),
        ("grow-diag-final-and", "0-0 1-0 1-1 3-3 5-2 6-6"),
    ],
)
def test_symmetrization(method, expected):
    forward = parse_links("0-0 1-1 3-3 5-2", "")
    reverse = parse_links("0-0 1-0 3-1 3-3 6-6", "")
    assert symmetrize(forward, reverse, method) == parse_links(expected, "")


@pytest.mark.parametrize("method", SYMMETRIZATIONS)
def test_symmetrization_lies_between_intersection_and_union(method):
    rng = np.random.default_rng(1)
    for _ in range(50):
        forward, reverse = (
            {tuple(map(int, link)) for link in rng.integers(0, 6, (8, 2))} for _ in range(2)
        )
        found = symmetrize(forward, reverse, method)
        assert forward & reverse <= found <= forward | reverse
        mirrored = symmetrize({(j, i) for i, j in forward}, {(j, i) for i, j in reverse}, method)
        if method in ("intersection", "union"):
            assert mirrored == {(j, i) for i, j in found}


def test_unknown_method():
    with pytest.raises(ValueError, match="`method` must be one of"):
        symmetrize(set(), set(), "grow")


LINES = [
    "the  red house",
    "",
    "a",
    " red\xa0houses in\u3000the sea ",
    "☃ the ☃☃ a☃",
    "in 12,345 a´b",
]


@pytest.fixture(scope="module", params=["bpe", "unigram", "char"])
def tokenizer(request):
    lines = [f"the {color} house number {n} is sold" for n in range(60) for color in ("red", "sea")]
    settings = VocabularyConfig(
        size=300 if request.param == "unigram" else 340,
        kind=request.param,
        byte_fallback=request.param != "char",
    )
    return Tokenizer(train_sentencepiece(lines, settings))


def test_words_of_pieces(tokenizer):
    """The pieces of a word are those of the word alone."""
    ids = tokenizer.tokenize(tf.constant(LINES))
    indices = word_indices(ids, tokenizer).to_list()
    counts = count_words(tf.constant(LINES)).numpy().tolist()
    assert counts == [len(line.split()) for line in LINES]
    for line, found in zip(LINES[:-1], indices, strict=False):
        expected = [
            index for index, word in enumerate(line.split()) for _ in tokenizer.encode([word])[0]
        ]
        assert found == expected
    # NFKC makes a space and a combining accent of an accent.
    assert indices[-1][-1] + 1 != counts[-1]


def test_values_of_pieces_by_word():
    words = tf.ragged.constant([[0, 0, 1], [], [0], [0, 1, 1, 2]], tf.int32, ragged_rank=1)
    values = words.with_flat_values(tf.range(8))
    found = group_by_word(values, words)
    assert found.to_list() == [[[0, 1], [2]], [], [[3]], [[4], [5, 6], [7]]]
    assert tf.reduce_sum(found, axis=2).to_list() == [[1, 2], [], [3], [4, 11, 7]]
    nothing = words[:0]
    assert group_by_word(nothing, nothing).to_list() == []

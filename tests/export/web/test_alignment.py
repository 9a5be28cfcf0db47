"""Alignments of a server that is not trusted."""

import pytest

from export.web.alignment import parse_alignment


def test_alignment():
    assert parse_alignment("▁a b", "▁A", "1-0", "0.2,0.7,0.1") == {
        "source_pieces": ["▁a", "b"],
        "target_pieces": ["▁A"],
        "hard": [[1, 0]],
        "soft": [[0.2, 0.7, 0.1]],
    }


def test_an_empty_translation():
    found = parse_alignment("▁a", "", "", "")
    assert (found["target_pieces"], found["hard"], found["soft"]) == ([], [], [])


def test_pieces_may_contain_other_spaces():
    found = parse_alignment("a\u00a0b \u2028", "A", "0-0", "0.5,0.2,0.3")
    assert found["source_pieces"] == ["a\u00a0b", "\u2028"]


@pytest.mark.parametrize(
    ("hard", "soft", "match"),
    [
        ("2-0", "0.2,0.7,0.1", "hard alignment of 2 source and 1 target"),
        ("0-1", "0.2,0.7,0.1", "hard alignment of 2 source and 1 target"),
        ("-1-0", "0.2,0.7,0.1", "a pair i-j"),
        ("0", "0.2,0.7,0.1", "a pair i-j"),
        ("9999999-0", "0.2,0.7,0.1", "a pair i-j"),
        ("0-0", "0.2,0.7", "1 words with 3 weights"),
        ("0-0", "0.2,0.7,0.1 0.2,0.7,0.1", "1 words with 3 weights"),
        ("0-0", "", "1 words with 3 weights"),
        ("0-0", "0.2,0.7,nan", "a weight between 0 and 1. Received: 'nan'"),
        ("0-0", "0.2,0.7,1.5", "a weight between 0 and 1"),
        ("0-0", "0.2,0.7,-0.1", "a weight between 0 and 1"),
        ("0-0", "0.2,0.7,", "a weight between 0 and 1"),
    ],
)
def test_invalid_alignments(hard, soft, match):
    with pytest.raises(OSError, match=match):
        parse_alignment("▁a b", "▁A", hard, soft)

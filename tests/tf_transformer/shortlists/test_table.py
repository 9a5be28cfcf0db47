"""Files of shortlists: what is written is read, and everything else is refused by name."""

import gzip

import numpy as np
import pytest

from tf_transformer.errors import InputError
from tf_transformer.shortlists.table import (
    MAX_CANDIDATES,
    ShortlistTable,
    read_shortlist,
    shortlist_lines,
)


class Pieces:
    """A vocabulary of given pieces."""

    def __init__(self, pieces):
        self.pieces = ["<pad>", "<unk>", "<s>", "</s>", *pieces]
        self.vocab_size = len(self.pieces)


SOURCE = Pieces(["▁a", "b", "▁has space", "\u2028"])
TARGET = Pieces(["▁x", "y", "z", "▁has\ttab", "ü"])


def write(path, text):
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_round_trip(tmp_path):
    rows = [[], [], [], [4], [5, 4, 8], [], [], [6]]
    table = ShortlistTable.from_lists([8, 5], rows)
    lines = "".join(shortlist_lines(table, SOURCE, TARGET))
    assert lines == "</s>\t▁x\n▁a\t▁x y ü\n\u2028\tz\n\ty ü\n"
    found = read_shortlist(write(tmp_path / "short", lines), SOURCE, TARGET)
    np.testing.assert_array_equal(found.always, [5, 8])
    expected = [[0, 0, 0]] * 3 + [[4, 0, 0], [4, 5, 8], [0, 0, 0], [0, 0, 0], [6, 0, 0]]
    np.testing.assert_array_equal(found.by_source, expected)
    assert found.digest == table.digest


def test_the_digest_follows_the_content(tmp_path):
    lines = ["\ty\n", "▁a\tz y\n", "b\t▁x\n"]
    tables = [
        read_shortlist(write(tmp_path / "short", "".join(text)), SOURCE, TARGET)
        for text in (lines, lines[::-1], lines[:2])
    ]
    assert tables[0].digest == tables[1].digest != tables[2].digest


def test_an_incomplete_file_is_refused(tmp_path):
    """Wherever it ends before the pieces of its last line."""
    table = ShortlistTable.from_lists([8, 4], [[], [], [], [4], [5, 4, 8], [], [], [6]])
    text = "".join(shortlist_lines(table, SOURCE, TARGET))
    assert text.endswith("\n\t▁x ü\n")
    for end in range(1, len(text) - len("▁x ü\n")):
        with pytest.raises(InputError, match=f"{tmp_path}/short"):
            read_shortlist(write(tmp_path / "short", text[:end]), SOURCE, TARGET)


def test_nothing_for_all_sentences(tmp_path):
    """The line is there nevertheless."""
    table = ShortlistTable.from_lists([], [[], [], [], [], [5], [], [], []])
    lines = list(shortlist_lines(table, SOURCE, TARGET))
    assert lines == ["▁a\ty\n", "\t\n"]
    found = read_shortlist(write(tmp_path / "short", "".join(lines)), SOURCE, TARGET)
    assert found.digest == table.digest


def test_pieces_that_the_format_cannot_hold_are_left_out():
    table = ShortlistTable.from_lists([7, 5], [[], [], [], [], [7], [7, 6], [4], []])
    assert list(shortlist_lines(table, SOURCE, TARGET)) == ["b\tz\n", "\ty\n"]


def test_compressed(tmp_path):
    path = tmp_path / "short.gz"
    path.write_bytes(gzip.compress("▁a\tz\n\t\n".encode()))
    assert read_shortlist(path, SOURCE, TARGET).by_source[4].tolist() == [6]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"short: empty; expected a shortlist"),
        ("\ty\n", r"short: empty; expected a shortlist"),
        ("▁a\ty\n", "short: expected a line without a source piece, .* may be incomplete"),
        ("▁a y\n", r"short:1: expected a source piece, a tab, and target pieces .* '▁a y'"),
        ("b\ty\n▁a b\ty\n", "short:2: expected a source piece, a tab"),
        ("▁a\ty\n▁a\tz\n", "short:2: the source piece '▁a' has a line already"),
        ("\ty\n\tz\n", "short:2: the source piece '' has a line already"),
        ("▁a\ty q\n", "short:1: 'q' is not a piece of the model's target vocabulary"),
        ("▁a\ty  z\n", "short:1: '' is not a piece of the model's target vocabulary"),
        ("q\ty\n", "short:1: 'q' is not a piece of the model's source vocabulary"),
        ("q\x1b[2J\ty\n", r"'q\\x1b\[2J' is not a piece"),
        ("▁a\ty\0\n", "short:1: not text in UTF-8"),
    ],
)
def test_faults(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        read_shortlist(write(tmp_path / "short", text), SOURCE, TARGET)


def test_files_that_are_none(tmp_path):
    with pytest.raises(InputError, match="none: expected a shortlist"):
        read_shortlist(tmp_path / "none", SOURCE, TARGET)
    with pytest.raises(InputError, match="expected a shortlist"):
        read_shortlist(tmp_path, SOURCE, TARGET)
    (tmp_path / "short").write_bytes(b"\xff\xfe\ta\n")
    with pytest.raises(InputError, match="short:1: not UTF-8"):
        read_shortlist(tmp_path / "short", SOURCE, TARGET)
    (tmp_path / "short.gz").write_bytes(gzip.compress(b"b\ty\n" * 1000)[:-9])
    with pytest.raises(InputError, match=r"short\.gz"):
        read_shortlist(tmp_path / "short.gz", SOURCE, TARGET)


def test_too_many_candidates(tmp_path):
    target = Pieces([f"p{index}" for index in range(MAX_CANDIDATES + 1)])
    path = write(tmp_path / "short", f"b\t{' '.join(target.pieces[4:])}\n")
    with pytest.raises(InputError, match="short:1: expected at most 1000 candidates, got 1001"):
        read_shortlist(path, SOURCE, target)

"""Two text files that must fit each other."""

import re

import pytest

from tests.tf_transformer.text.test_text_file import write
from tf_transformer.text.parallel_text import check_parallel
from tf_transformer.text.text_file import TextFile


def make_files(tmp_path, source: str | bytes, target: str | bytes) -> tuple[TextFile, TextFile]:
    return TextFile(write(tmp_path / "source", source)), TextFile(
        write(tmp_path / "target", target)
    )


def test_check_parallel_counts_pairs(tmp_path):
    assert check_parallel(*make_files(tmp_path, "a\n\nc", "x\ny\n\n")) == 3


def test_check_parallel_of_two_columns(tmp_path):
    path = write(tmp_path / "text.tsv.gz", "a\tb\nc\td\n")
    assert check_parallel(TextFile(path, 1), TextFile(path, 2)) == 2


@pytest.mark.parametrize(
    ("source", "target", "counts"),
    [("a\nb\nc\n", "x", (3, 1)), ("", "x\n", (0, 1)), ("a\u2028b\n", "x\ny\n", (1, 2))],
)
def test_unequal_lengths(tmp_path, source, target, counts):
    files = make_files(tmp_path, source, target)
    message = (
        "source and target must have the same number of lines: "
        f"{files[0]} has {counts[0]} lines, {files[1]} has {counts[1]}"
    )
    with pytest.raises(ValueError, match=re.escape(message) + "$"):
        check_parallel(*files)


def test_empty_files(tmp_path):
    source, target = make_files(tmp_path, "", "")
    with pytest.raises(ValueError, match=re.escape(f"{source} and {target} are empty")):
        check_parallel(source, target)


def test_check_parallel_reads_to_the_fault(tmp_path):
    files = make_files(tmp_path, "a\n" * 300, b"b\n" * 299 + b"\xff\n")
    with pytest.raises(ValueError, match=re.escape(f"{files[1]}:300: not UTF-8")):
        check_parallel(*files)

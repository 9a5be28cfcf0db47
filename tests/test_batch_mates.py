"""`python -m benchmarks.batch_mates`, and what docs/serving.md says about its figures in int8."""

import pathlib
import re
import sys

import pytest

from benchmarks import batch_mates

PAGE = pathlib.Path(__file__).parents[1] / "docs" / "serving.md"


def rows_of(text):
    """The figures of each row of the program's table, by type and rows at once."""
    rows = re.findall(r"^\| (\w+) \| (\d+) \|((?: [\d.e+-]+ \|){5})$", text, re.MULTILINE)
    return {
        (dtype, int(size)): [float(cell) for cell in cells.strip("| ").split(" | ")]
        for dtype, size, cells in rows
    }


@pytest.mark.slow
def test_a_sentence_in_int8_depends_on_its_batch_by_hundredths(
    talkative, corpus, tmp_path, monkeypatch, capsys
):
    sentences = tmp_path / "some.en"
    lines = (corpus.directory / "test.en").read_text(encoding="utf-8").splitlines()[:50]
    sentences.write_text("\n".join(lines) + "\n", encoding="utf-8")
    arguments = ["--model-dir", str(talkative), "--sentences", str(sentences)]
    arguments += ["--dtypes", "int8", "--rows", "1", "20"]
    monkeypatch.setattr(sys, "argv", ["batch_mates", *arguments])
    batch_mates.main()
    found = rows_of(capsys.readouterr().out)
    assert list(found) == [("int8", 1), ("int8", 20)]
    for others, _, _, largest, _ in found.values():
        assert others <= 1
        assert largest < 0.1


def test_the_page_says_what_its_table_shows():
    page = PAGE.read_text(encoding="utf-8")
    table = rows_of(page)
    assert "up to a few hundredths" in page
    assert max(table["int8", size][3] for size in (1, 32)) == 0.02
    assert all(table["float32", size][3] < 1e-5 for size in (1, 32))

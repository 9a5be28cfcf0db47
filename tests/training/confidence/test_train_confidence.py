"""`train-confidence`: which words are right, and the command from text to file."""

import contextlib
import io
import json

import pytest

from tests.conftest import Corpus
from tf_transformer.__main__ import main
from training.confidence.train_confidence import right_words


@pytest.mark.parametrize(
    ("words", "reference", "expected"),
    [
        ("Ein Mann schläft.", "ein mann schläft", [1, 1, 1]),
        ("der der Hund", "der Hund", [1, 0, 1]),
        ("„Ja!“ nein", "Ja sagt er", [1, 0]),
        ("a - b", "a - c", [1, 1, 0]),
        ("x", "", [0]),
        ("", "x", []),
        ("我 喜欢 北京 。", "北京我喜爱。", [1, 0, 1, 0]),
        ("我 我们 我", "我们", [1, 1, 0]),
    ],
)
def test_right_words(words, reference, expected):
    assert right_words(words.split(), reference) == [bool(value) for value in expected]


@pytest.fixture(scope="module")
def trained_facts(talkative, corpus: Corpus, tmp_path_factory):
    """The facts of the test set, and what is printed."""
    output = tmp_path_factory.mktemp("confidence") / "confidence.json"
    files = ["--source", corpus.path("test.en"), "--reference", corpus.path("test.de")]
    command = ["train-confidence", "--model-dir", str(talkative), *files, "--beam-size", "1"]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main([*command, "--output", str(output)]) == 0
    return json.loads(output.read_text())["facts"], printed.getvalue()


@pytest.mark.slow
def test_the_command(trained_facts):
    """The confidences are better calibrated than the probabilities of a half-trained model."""
    facts, printed = trained_facts
    assert 0 < facts["share_right"] < 1
    assert facts["errors"]["words, confidences"] < facts["errors"]["words, probabilities"]
    assert "held-out words are right" in printed


@pytest.mark.parametrize(
    ("source", "message"),
    [("one\ntwo\n", "expected the same number of lines"), (None, "no such file")],
)
def test_files_that_do_not_fit(trained, tmp_path, capsys, source, message):
    reference = tmp_path / "reference"
    reference.write_text("eins\n")
    if source is not None:
        (tmp_path / "source").write_text(source)
    files = ["--source", str(tmp_path / "source"), "--reference", str(reference)]
    output = tmp_path / "confidence.json"
    command = ["train-confidence", "--model-dir", str(trained), *files, "--output", str(output)]
    assert main(command) == 2
    assert message in capsys.readouterr().err
    assert not output.exists()


@pytest.mark.slow
def test_blank_lines_do_not_count(talkative, trained_facts, corpus: Corpus, tmp_path):
    """Also if every other line is blank, as in text with double spacing."""
    command = ["train-confidence", "--model-dir", str(talkative), "--beam-size", "1"]
    for option, side in (("--source", "en"), ("--reference", "de")):
        lines = corpus.directory.joinpath(f"test.{side}").read_text().splitlines()
        lines.insert(0, "Two weeks" if side == "en" else " ")  # a source without a reference
        path = tmp_path / f"spaced.{side}"
        path.write_text("\n\n".join(lines) + "\n")
        command += [option, str(path)]
    assert main([*command, "--output", str(tmp_path / "spaced")]) == 0
    facts = json.loads((tmp_path / "spaced").read_text())["facts"]
    assert facts["words"] == trained_facts[0]["words"]
    assert facts["errors"] == pytest.approx(trained_facts[0]["errors"], abs=1e-4)


@pytest.mark.slow
def test_no_words(trained, tmp_path, capsys):
    (tmp_path / "text").write_text("\n\n\n")
    files = ["--source", str(tmp_path / "text"), "--reference", str(tmp_path / "text")]
    output = tmp_path / "confidence.json"
    command = ["train-confidence", "--model-dir", str(trained), *files, "--output", str(output)]
    assert main([*command, "--beam-size", "1"]) == 2
    assert "expected at least 2 translations with words, and with a reference. Received: 0" in (
        capsys.readouterr().err
    )
    assert not output.exists()

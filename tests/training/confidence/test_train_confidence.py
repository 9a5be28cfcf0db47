"""`train-confidence`: which words are right, and the command from text to file."""

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


@pytest.mark.slow
def test_the_command(talkative, corpus: Corpus, tmp_path, capsys):
    """The confidences are better calibrated than the probabilities of a half-trained model."""
    output = tmp_path / "confidence.json"
    files = ["--source", corpus.path("test.en"), "--reference", corpus.path("test.de")]
    command = ["train-confidence", "--model-dir", str(talkative), *files, "--beam-size", "1"]
    assert main([*command, "--output", str(output)]) == 0
    facts = json.loads(output.read_text())["facts"]
    assert 0 < facts["share_right"] < 1
    assert facts["errors"]["words, confidences"] < facts["errors"]["words, probabilities"]
    assert "held-out words are right" in capsys.readouterr().out


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
def test_blank_lines_do_not_count(talkative, corpus: Corpus, tmp_path, capsys):
    """Also if every other line is blank, as in text with double spacing."""
    facts = []
    for name, space in (("plain", "\n"), ("spaced", "\n\n")):
        command = ["train-confidence", "--model-dir", str(talkative), "--beam-size", "1"]
        for option, side in (("--source", "en"), ("--reference", "de")):
            lines = corpus.directory.joinpath(f"test.{side}").read_text().splitlines()[:40]
            path = tmp_path / f"{name}.{side}"
            if name == "spaced":  # and a source without a reference
                lines.insert(0, "Two weeks" if side == "en" else " ")
            path.write_text(space.join(lines) + "\n")
            command += [option, str(path)]
        assert main([*command, "--output", str(tmp_path / name)]) == 0
        facts.append(json.loads((tmp_path / name).read_text())["facts"])
    assert facts[0]["words"] == facts[1]["words"]
    assert facts[0]["errors"] == pytest.approx(facts[1]["errors"], abs=1e-4)


def test_no_words(trained, tmp_path, capsys):
    (tmp_path / "text").write_text("\n\n\n")
    files = ["--source", str(tmp_path / "text"), "--reference", str(tmp_path / "text")]
    output = tmp_path / "confidence.json"
    command = ["train-confidence", "--model-dir", str(trained), *files, "--output", str(output)]
    assert main(command) == 2
    assert "expected at least 2 translations with words, and with a reference. Received: 0" in (
        capsys.readouterr().err
    )
    assert not output.exists()

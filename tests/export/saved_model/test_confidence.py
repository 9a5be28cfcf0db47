"""The signature `confidence` of an export."""

import json

import numpy as np
import pytest
import tensorflow as tf

from tests.export.saved_model.guide_request import answer_to_the_guide
from tests.served_functions import saved_model_predictor
from tests.serving_stub import Behaviour, serve
from tf_transformer.__main__ import main
from tf_transformer.command_line import predictor_options
from tf_transformer.confidence.calibration import Calibration, write_calibration
from tf_transformer.confidence.confident_translator import ConfidentTranslator
from tf_transformer.confidence.word_confidences import translate_with_confidence
from tf_transformer.decoding.search_options import SEARCH_OPTIONS
from tf_transformer.inference.translator import Translator
from tf_transformer.storage.model_dir import weights_digest

TEXTS = ["Peter bought 3 lamps.", "", "Anna was born on Monday.", "\u202e \x00"]


@pytest.fixture(scope="module")
def translator(talkative):
    return Translator.load(talkative)


@pytest.fixture(scope="module")
def calibration(talkative):
    """That of `exported`."""
    return Calibration(0.5, 0.25, weights_digest(talkative))


@pytest.mark.slow
def test_a_saved_model_with_confidences(exported, loaded, calibration, translator):
    """The values are those of the translator in Python; options are per row."""
    card = json.loads((exported / "1" / "model.json").read_text())
    assert card["confidence"] == {"scale": 0.5, "offset": 0.25}
    options = {
        option.name: tf.constant(np.full(len(TEXTS), option.unset, option.dtype))
        for option in SEARCH_OPTIONS
    }
    found = loaded["confidence"](text=tf.constant(TEXTS), **options)
    expected = translate_with_confidence(translator, calibration, tf.constant(TEXTS))
    for name, value in (
        ("translation", expected.text),
        ("words", expected.words),
        ("truncated", expected.truncated),
    ):
        assert found[name].numpy().tolist() == value.numpy().tolist()
    np.testing.assert_allclose(found["confidence"], expected.confidences, rtol=1e-4)
    assert answer_to_the_guide(exported, "confidence")


@pytest.mark.slow
def test_lines_with_confidences(exported, loaded, calibration, translator, tmp_path, monkeypatch):
    """Fields of a line: the translation, its confidence, its words, and theirs.

    tests/export/test_same_bytes.py compares them with those of a model directory.
    """
    predictor = saved_model_predictor(exported / "1", loaded)
    monkeypatch.setattr(predictor_options, "load_saved_model", lambda _: predictor)
    lines = [TEXTS[0], "", TEXTS[2]]
    (tmp_path / "source").write_text("".join(f"{line}\n" for line in lines))
    command = ["translate", "--saved-model", str(exported), "--confidence"]
    command += ["--input", str(tmp_path / "source"), "--output", str(tmp_path / "target")]
    assert main(command) == 0
    written = (tmp_path / "target").read_text().split("\n")
    assert (len(written), written[1], written[3]) == (4, "", "")
    in_python = ConfidentTranslator(translator, calibration)
    for line, expected in zip(written[::2], in_python(lines[::2]), strict=True):
        text, confidence, words, of_words = line.split("\t")
        assert (text, words.split()) == (expected.text, expected.words)
        assert float(confidence) == pytest.approx(expected.confidence, abs=6e-4)
        assert [float(x) for x in of_words.split()] == expected.word_confidences
        assert len(expected.words) == len(expected.word_confidences) > 0


def test_lines_with_confidences_by_a_server(tmp_path, capsys):
    string, number = ("DT_STRING", ()), ("DT_FLOAT", ())
    inputs = {"text": string, "beam_size": ("DT_INT32", ())}
    outputs = {name: string for name in ("translation", "words", "word_confidences")}
    outputs |= {"score": number, "confidence": number, "truncated": ("DT_BOOL", ())}

    def judge(text, beam_size):
        rows = len(text)
        assert beam_size == [3] * rows
        return {
            "translation": [source.upper() for source in text],
            "words": [b"A B"] * rows,
            "word_confidences": [b"0.500 1.000"] * rows,
            "score": [-1.0] * rows,
            "confidence": [0.75] * rows,
            "truncated": [False] * rows,
        }

    behaviour = Behaviour(specs={"confidence": (inputs, outputs)}, answers={"confidence": judge})
    (tmp_path / "source").write_text("a b\n\nc\td\n")
    files = ["--input", str(tmp_path / "source"), "--output", str(tmp_path / "target")]
    with serve("rest", behaviour) as address:
        command = ["translate", "--server", address, *files, "--beam-size", "3"]
        assert main([*command, "--confidence"]) == 0
    assert (tmp_path / "target").read_text() == (
        "A B\t0.750\tA B\t0.500 1.000\n\nC D\t0.750\tA B\t0.500 1.000\n"
    )
    with serve("rest", Behaviour()) as address:
        command = ["translate", "--server", address, "--input", str(tmp_path / "source")]
        assert main([*command, "--confidence"]) == 2
    assert "no signature 'confidence', which --confidence needs; export it" in (
        capsys.readouterr().err
    )


def test_the_file_of_another_model(trained, tmp_path, capsys):
    write_calibration(tmp_path / "confidence.json", Calibration(0.5, 0.25, "0" * 32), {})
    command = ["export", "--model-dir", str(trained), "--output", str(tmp_path / "served")]
    assert main([*command, "--confidence", str(tmp_path / "confidence.json")]) == 2
    assert (
        "confidence.json: belongs to the model with the weights digest" in capsys.readouterr().err
    )
    assert main([*command, "--signatures", "confidence"]) == 2
    assert "'confidence' needs --confidence F" in capsys.readouterr().err
    assert not (tmp_path / "served").exists()

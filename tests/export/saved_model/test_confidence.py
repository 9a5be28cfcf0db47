"""The signature `confidence` of an export."""

import json

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the tokenizer's ops

from tests.export.saved_model.guide_request import answer_to_the_guide
from tf_transformer.__main__ import main
from tf_transformer.confidence.calibration import Calibration, write_calibration
from tf_transformer.confidence.word_confidences import translate_with_confidence
from tf_transformer.decoding.search_options import SEARCH_OPTIONS
from tf_transformer.inference.translator import Translator
from tf_transformer.storage.model_dir import weights_digest

TEXTS = ["Peter bought 3 lamps.", "", "Anna was born on Monday.", "\u202e \x00"]


@pytest.mark.slow
def test_a_saved_model_with_confidences(talkative, tmp_path):
    """The values are those of the translator in Python; options are per row."""
    calibration = Calibration(0.5, 0.25, weights_digest(talkative))
    write_calibration(tmp_path / "confidence.json", calibration, {})
    command = ["export", "--model-dir", str(talkative), "--output", str(tmp_path / "served")]
    command += ["--beam-size", "2", "--confidence", str(tmp_path / "confidence.json")]
    assert main([*command, "--signatures", "confidence"]) == 0
    card = json.loads((tmp_path / "served" / "1" / "model.json").read_text())
    assert card["confidence"] == {"scale": 0.5, "offset": 0.25}
    options = {
        option.name: tf.constant(np.full(len(TEXTS), option.unset, option.dtype))
        for option in SEARCH_OPTIONS
    }
    served = tf.saved_model.load(tmp_path / "served" / "1").signatures["confidence"]
    found = served(text=tf.constant(TEXTS), **options)
    translator = Translator.load(talkative, beam_size=2)
    expected = translate_with_confidence(translator, calibration, tf.constant(TEXTS))
    for name, value in (
        ("translation", expected.text),
        ("words", expected.words),
        ("truncated", expected.truncated),
    ):
        assert found[name].numpy().tolist() == value.numpy().tolist()
    np.testing.assert_allclose(found["confidence"], expected.confidences, rtol=1e-4)
    assert answer_to_the_guide(tmp_path / "served", "confidence")


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

"""`--calibrate` of `evaluate` and `export`: calibrated int8, scored and served."""

import json

import numpy as np
import pytest
import tensorflow as tf

from export.saved_model.signature_names import SIGNATURES
from tf_transformer.__main__ import main
from tf_transformer.command_line.calibration_options import DEFAULT_PERCENTILE
from tf_transformer.inference.calibration import Calibration
from tf_transformer.inference.translator import Translator
from tf_transformer.storage.files import replacing
from tf_transformer.storage.model_dir import load_for_decoding
from tf_transformer.text.text_file import TextFile

EXHAUSTIVE = pytest.mark.exhaustive


@pytest.fixture(scope="module")
def calibration(corpus):
    file = TextFile.parse(corpus.path("validation.en"))
    return Calibration.read(file, DEFAULT_PERCENTILE, [])


@pytest.fixture(scope="module")
def model_dir(talkative, tmp_path_factory):
    """A copy, in which `evaluate` stores scores."""
    import shutil

    return shutil.copytree(talkative, tmp_path_factory.mktemp("calibrated") / "model")


@pytest.mark.exhaustive
@pytest.mark.slow
def test_every_signature_is_exported_with_its_calibration(
    model_dir, corpus, calibration, tmp_path, capsys
):
    """`export` compares each signature, in a fresh process, with the calibrated model."""
    source = corpus.path("validation.en")
    evaluate = ["evaluate", "--model-dir", str(model_dir), "--dtype", "int8", "--source", source]
    evaluate += ["--reference", corpus.path("validation.de")]
    assert main(evaluate) == 0
    assert main([*evaluate, "--calibrate", source]) == 0
    export = ["export", "--model-dir", str(model_dir), "--dtype", "int8"]
    export += ["--output", str(tmp_path / "served"), "--calibrate", source]
    assert main(export) == 0
    card = json.loads((tmp_path / "served" / "1" / "model.json").read_text())
    assert card["dtype"] == "int8"
    assert card["calibration"] == calibration.facts
    assert card["scores"]["calibration"] == calibration.facts
    assert set(card["signatures"]) == set(SIGNATURES)
    expected = Translator(*load_for_decoding(model_dir, "int8", calibration.input_ranges))
    texts = tf.constant((corpus.directory / "test.en").read_text("utf-8").splitlines()[:30])
    served = tf.saved_model.load(tmp_path / "served" / "1").signatures["serving_default"](texts)
    found = expected.translate(texts)
    assert (served["translation"] == found.text[:, 0]).numpy().all()
    np.testing.assert_allclose(served["score"], found.scores[:, 0], atol=1e-4)
    capsys.readouterr()


@pytest.mark.slow
def test_scores_of_another_calibration_are_not_in_the_card(
    unverified, model_dir, corpus, tmp_path, capsys
):
    """This test does not need the scores of the one above, and accepts them."""
    export = ["export", "--model-dir", str(model_dir), "--dtype", "int8"]
    export += ["--output", str(tmp_path / "served"), "--signatures", "tokens"]
    export += ["--calibrate", corpus.path("test.en"), "--calibration-percentile", "99.5"]
    assert main(export) == 0
    card = json.loads((tmp_path / "served" / "1" / "model.json").read_text())
    assert card["calibration"]["sentences"] == 200
    assert card["calibration"]["percentile"] == 99.5
    assert "scores" not in card


# tests/test_light_checks.py has some of them for `export`, too.
@pytest.mark.parametrize("command", ["evaluate", pytest.param("export", marks=EXHAUSTIVE)])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--calibrate {text}", "--calibrate is valid only with --dtype int8"),
        ("--calibrate {text} --dtype bfloat16", "--calibrate is valid only with --dtype int8"),
        ("--dtype int8 --calibration-percentile 99", "valid only with --calibrate"),
        ("--dtype int8 --calibrate {none}", "none: no such file"),
        ("--dtype int8 --calibrate {folder}", "expected a regular file"),
        ("--dtype int8 --calibrate {empty}", "empty: expected sentences to calibrate with"),
        ("--dtype int8 --calibrate {blank}", "every line is blank"),
        ("--dtype int8 --calibrate {binary}", "binary:1: not UTF-8"),
        ("--dtype int8 --calibrate {damaged}", "damaged.gz: truncated or damaged gzip file"),
        *(
            (
                f"--dtype int8 --calibrate {{text}} --calibration-percentile {value}",
                "expected from 50",
            )
            for value in ("0", "-1", "100.1", "nan", "inf")
        ),
    ],
)
def test_faults_are_one_line(trained, corpus, tmp_path, capsys, command, options, message):
    contents = {
        "text": b"A dog.\n",
        "empty": b"",
        "blank": b" \n\n",
        "binary": b"\xff\xfea\n",
        "damaged.gz": b"\x1f\x8b\x08damaged",
    }
    for name, content in contents.items():
        with replacing(tmp_path / name) as path:
            path.write_bytes(content)
    places = {name.partition(".")[0]: tmp_path / name for name in contents}
    words = options.format(**places, none=tmp_path / "none", folder=tmp_path).split()
    words += ["--model-dir", str(trained)]
    if command == "evaluate":
        words += ["--source", corpus.path("test.en"), "--reference", corpus.path("test.de")]
    else:
        words += ["--output", str(tmp_path / "served")]
    assert main([command, *words]) == 2
    error = capsys.readouterr().err
    assert message in error and len(error.splitlines()) == 1
    assert not (tmp_path / "served").exists()


def test_evaluate_does_not_replace_the_text(trained, corpus, tmp_path, capsys):
    text = tmp_path / "text"
    text.write_text("A dog.\n")
    command = ["evaluate", "--model-dir", str(trained), "--dtype", "int8", "--calibrate", str(text)]
    command += ["--source", corpus.path("test.en"), "--reference", corpus.path("test.de")]
    assert main([*command, "--output", str(text)]) == 2
    assert text.read_text() == "A dog.\n"
    assert "text" in capsys.readouterr().err


def test_a_language_model_has_no_text_to_translate(trained, corpus, capsys):
    command = ["evaluate", "--model-dir", str(trained), "--reference", corpus.path("test.de")]
    assert main([*command, "--dtype", "int8", "--calibrate", corpus.path("test.en")]) == 2
    assert "--calibrate is for translations; give a --source" in capsys.readouterr().err

"""Ensembles with the commands: translate, evaluate and export several model directories."""

import json

import numpy as np
import pytest
import tensorflow as tf

from export.saved_model.signature_names import SIGNATURES
from tests.conftest import SMALL_SETTINGS
from tests.tf_transformer.formats.random_model import SOURCES, TARGETS, write_random_model
from tf_transformer import Translator
from tf_transformer.__main__ import main
from tf_transformer.storage.model_dir import weights_digest
from tf_transformer.storage.trained_models import TrainedModels
from training.config import VocabularyConfig
from training.data.vocabulary import train_sentencepiece

STEPS = 20


@pytest.fixture(scope="module")
def second(corpus, talkative, tmp_path_factory):
    """A model of another size and kind with the vocabulary of the first."""
    folder = tmp_path_factory.mktemp("second") / "model"
    settings = {name: x for name, x in SMALL_SETTINGS.items() if not name.startswith("vocab")}
    settings |= {
        "model.d_model": 24,
        "model.decoder_autoregression": "ssru",
        "optimization.steps": STEPS,
        "optimization.checkpoint_every": STEPS,
    }
    command = ["train", "--vocabulary", str(talkative), *corpus.options, "--model-dir", str(folder)]
    assert main([*command, "--set", *(f"{name}={x}" for name, x in settings.items())]) == 0
    return folder


@pytest.fixture(scope="module")
def sentences(corpus):
    return corpus.directory.joinpath("test.en").read_text(encoding="utf-8").splitlines()[:20]


def directories(*paths):
    return ["--model-dir", *map(str, paths)]


@pytest.mark.slow
def test_translate(talkative, second, sentences, tmp_path):
    """The command and the class translate alike, and otherwise than each model alone."""
    (tmp_path / "in").write_text("\n".join(sentences) + "\n", encoding="utf-8")
    command = ["translate", "--input", str(tmp_path / "in"), "--output"]
    models = directories(talkative, second)
    weights = ["--ensemble-weights", "3", "1"]
    assert main([*command, str(tmp_path / "out"), *models, *weights, "--beam-size", "1"]) == 0
    found = (tmp_path / "out").read_text(encoding="utf-8").splitlines()
    translator = Translator.load([talkative, second], ensemble_weights=[3, 1], beam_size=1)
    assert found == translator(sentences)
    assert found != Translator.load(talkative, beam_size=1)(sentences)
    assert found != Translator.load(second, beam_size=1)(sentences)


@pytest.mark.slow
def test_the_digest_is_of_members_and_weights(talkative, second):
    """By which an interrupted translation recognizes its model."""
    models = [
        TrainedModels((talkative,)),
        TrainedModels((talkative, second)),
        TrainedModels((second, talkative)),
        TrainedModels((talkative, second), (3.0, 1.0)),
    ]
    digests = [each.digest() for each in models]
    assert len(set(digests)) == len(models)
    assert digests[0] == weights_digest(talkative)
    assert TrainedModels((talkative, second), (2.0, 2.0)).digest() == digests[1]


@pytest.mark.slow
def test_evaluate(corpus, talkative, second, tmp_path):
    """Its scores name the members, and belong to no model directory."""
    source, reference = (corpus.path(f"validation.{side}") for side in ("en", "de"))
    command = ["evaluate", "--source", source, "--reference", reference, "--beam-size", "1"]
    stored = [(path / "scores.jsonl").exists() for path in (talkative, second)]
    json_path = tmp_path / "scores.json"
    models = directories(talkative, second)
    assert main([*command, *models, "--json", str(json_path)]) == 0
    assert [(path / "scores.jsonl").exists() for path in (talkative, second)] == stored
    scores = json.loads(json_path.read_text())
    assert [member["weight"] for member in scores["members"]] == [0.5, 0.5]
    assert len({member["weights_digest_blake2b"] for member in scores["members"]}) == 2
    assert 1 < scores["perplexity"] < 400


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ["--signatures", *SIGNATURES],
        ["--signatures", "serving_default", "--dtype", "int8"],
        ["--signatures", "serving_default", "--xla", "1x32"],
    ],
    ids=["all signatures", "int8", "xla"],
)
def test_verified_export(talkative, second, sentences, tmp_path, options):
    """`export` compares each signature with the ensemble, in a process of its own."""
    check_export(talkative, second, sentences, tmp_path / "served", options)


@pytest.mark.slow
def test_export(unverified, talkative, second, sentences, tmp_path):
    options = ["--signatures", "serving_default", "--dtype", "int8"]
    check_export(talkative, second, sentences, tmp_path / "served", options)


def check_export(talkative, second, sentences, output, options):
    """Exports the ensemble, and compares its answers and its card."""
    command = ["export", *directories(talkative, second), "--output", str(output)]
    assert main([*command, "--beam-size", "1", *options]) == 0
    served = tf.saved_model.load(output / "1")
    answer = served.signatures["serving_default"](tf.constant(sentences[:1]))
    dtype = "int8" if "int8" in options else "float32"
    translator = Translator.load([talkative, second], dtype=dtype, beam_size=1)
    expected = translator.n_best(sentences[:1])[0][0]
    assert answer["translation"].numpy()[0].decode() == expected.text
    np.testing.assert_allclose(answer["score"], [expected.score], rtol=1e-3)
    card = json.loads((output / "1" / "model.json").read_text())
    assert len(card["members"]) == 2
    assert card["training_steps"] == [300, STEPS]


@pytest.mark.slow
def test_refuses(corpus, talkative, second, tmp_path, capsys):
    """One line for each fault, before TensorFlow is needed."""
    command = ["translate", "--input", corpus.path("test.en"), *directories(talkative, second)]
    assert main([*command, "--ensemble-weights", "1"]) == 2
    assert "--ensemble-weights: expected a weight for each of 2 models" in capsys.readouterr().err
    assert main([*command, "--ensemble-weights", "1", "-1"]) == 2
    assert "expected a positive number, got -1.0" in capsys.readouterr().err
    assert main([*command, str(tmp_path)]) == 2
    assert f"{tmp_path} is not a model directory" in capsys.readouterr().err
    command = ["export", *directories(talkative, second), "--output", str(second)]
    assert main(command) == 2
    assert "is the model directory" in capsys.readouterr().err


def test_other_vocabularies_are_refused(talkative, tmp_path, capsys):
    folder = tmp_path / "model"
    config = VocabularyConfig(size=SMALL_SETTINGS["vocabulary.size"], kind="unigram")
    write_random_model(folder, (train_sentencepiece(SOURCES + TARGETS, config),) * 2)
    assert main(["translate", *directories(talkative, folder), "--input", "-"]) == 2
    error = capsys.readouterr().err
    assert f"{talkative} and {folder} have different vocabularies of the source" in error
    assert f"`train --vocabulary {talkative}`" in error

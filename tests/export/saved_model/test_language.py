"""The signature `language`: there only with a classifier, and without effect on the others."""

import json

import numpy as np
import pytest
import tensorflow as tf

from export.saved_model.signature_names import SIGNATURES
from export.saved_model.signatures import ServedTranslator
from tests.export.saved_model.guide_request import answer_to_the_guide
from tests.served_functions import load_signatures
from tests.tf_transformer.language_id.reference import ODD, random_classifier
from tf_transformer.__main__ import main
from tf_transformer.inference.translator import Translator
from tf_transformer.language_id.classifier_file import write_classifier
from tf_transformer.language_id.identifier import LanguageIdentifier
from tf_transformer.predictors.client.serving_pb2 import PredictionLog
from tf_transformer.storage.model_dir import load_model

CLASSIFIER = random_classifier()


@pytest.fixture(scope="module")
def translator(talkative):
    return Translator(*load_model(talkative), beam_size=2)


def test_an_optional_signature(translator):
    with pytest.raises(ValueError, match=r"'language' needs --language-id F"):
        ServedTranslator(translator, ["language"])
    assert "language" not in SIGNATURES
    served = ServedTranslator(translator, ["language"], identifier=LanguageIdentifier(CLASSIFIER))
    found = served.functions["language"](text=tf.constant(ODD))
    expected = CLASSIFIER.identify(ODD)
    assert [name.decode() for name in found["language"].numpy()] == expected.languages
    np.testing.assert_allclose(found["probability"], expected.probabilities, rtol=1e-5)


@pytest.mark.slow
def test_the_other_signatures_stay_as_they_are(translator):
    graphs = []
    for identifier in (None, LanguageIdentifier(CLASSIFIER)):
        served = ServedTranslator(translator, ["score"], identifier=identifier)
        nodes = served.functions["score"].graph.as_graph_def().node
        graphs.append([(node.name, node.op) for node in nodes])
        assert len(served.weights) == len(translator.search.model.weights)
    assert graphs[0] == graphs[1]


@pytest.mark.slow
def test_an_export(with_files):
    """Verified with odd texts; the server is warmed up with it."""
    version, classifier = with_files.folder / "1", with_files.classifier
    card = json.loads((version / "model.json").read_text())
    assert card["signatures"] == list(with_files.signatures)
    assert card["language_id"]["digest_blake2b"] == classifier.digest
    assert card["language_id"]["languages"] == ["l0", "l1", "l2"]
    warm_up = tf.data.TFRecordDataset(str(version / "assets.extra/tf_serving_warmup_requests"))
    logs = [PredictionLog.FromString(record.numpy()) for record in warm_up]
    names = [log.predict_log.request.model_spec.signature_name for log in logs]
    assert names == card["signatures"]
    texts = [*ODD, "Größe ".encode() * 1_500_000]
    found = load_signatures(version)["language"](text=tf.constant(texts))
    expected = classifier.identify(texts)
    assert [name.decode() for name in found["language"].numpy()] == expected.languages
    np.testing.assert_allclose(found["probability"], expected.probabilities, rtol=1e-5)
    assert answer_to_the_guide(with_files.folder, "language")


def test_options_that_are_refused(talkative, tmp_path, capsys):
    write_classifier(tmp_path / "classifier", CLASSIFIER)
    command = ["export", "--model-dir", str(talkative), "--output", str(tmp_path / "served")]
    given = ["--language-id", str(tmp_path / "classifier")]
    for options, message in (
        (["--signatures", "language"], "'language' needs --language-id F"),
        ([*given, "--signatures", "score"], "which --signatures leaves out"),
        (["--language-id", str(tmp_path / "none")], "none: no such file; expected a classifier"),
        (["--language-id", str(talkative / "config.json")], "config.json: "),
    ):
        assert main([*command, *options]) == 2
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1

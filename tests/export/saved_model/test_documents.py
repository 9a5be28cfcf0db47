"""The signatures for documents, and `translate --split-sentences`."""

import argparse
import json

import numpy as np
import pytest
import tensorflow as tf

from export.commands.options.documents import parse_document_languages
from export.saved_model.signature_names import expand_signatures
from tests.export.saved_model.guide_request import answer_to_the_guide
from tests.served_functions import load_signatures
from tests.serving_stub import SIGNATURES, Behaviour, serve
from tf_transformer.__main__ import main
from tf_transformer.decoding.search_options import SEARCH_OPTIONS
from tf_transformer.documents.document_translator import DocumentTranslator
from tf_transformer.inference.translator import Translator
from tf_transformer.predictors.local_predictor import LocalPredictor
from tf_transformer.predictors.signature import signature_of_task

DOCUMENTS = [
    "Peter bought 3 lamps. ANNA WAS BORN ON MONDAY!\n\n  One day.",
    "",
    " \n",
    "\u200b\u202eTwo weeks.\x01\x00 你好。",
    "Yes. " * 1100,
    "Ask Tte. Smith.",
]


@pytest.fixture(scope="module")
def documents(with_files):
    translator = Translator.load(with_files.model_dir, beam_size=with_files.beam_size)
    return DocumentTranslator(translator, with_files.document_languages)


@pytest.mark.slow
def test_a_saved_model_of_documents(with_files, documents):
    """Rows of a request are apart, and options are those of a row."""
    card = json.loads((with_files.folder / "1" / "model.json").read_text())
    assert card["document_languages"] == list(with_files.document_languages)
    function = load_signatures(with_files.folder / "1")["document_options"]

    def translate(keep_capitals):
        rows = len(keep_capitals)
        options = {
            option.name: tf.constant(np.full(rows, option.unset, option.dtype))
            for option in SEARCH_OPTIONS
        }
        text, keep_capitals = tf.constant(DOCUMENTS[:rows]), tf.constant(keep_capitals)
        return function(text=text, keep_capitals=keep_capitals, **options)

    found = translate([False] * len(DOCUMENTS))
    assert [text.decode() for text in found["translation"].numpy()] == documents(DOCUMENTS)
    assert found["truncated"].numpy().tolist() == [False] * 4 + [True, False]
    assert found["source_spans"].numpy()[5] == b"0-8 9-15"
    assert len(found["sentence_scores"].numpy()[4].split()) == 1000
    kept = translate([True, True, True, False])
    assert kept["translation"].numpy()[0] != found["translation"].numpy()[0]
    assert kept["translation"].numpy()[1:].tolist() == found["translation"].numpy()[1:4].tolist()


@pytest.mark.slow
def test_without_options(exported, loaded):
    """The translation is that of options that are unset."""
    text = tf.constant(DOCUMENTS[:4])
    unset = {
        option.name: tf.constant(np.full(4, option.unset, option.dtype))
        for option in SEARCH_OPTIONS
    }
    unset["keep_capitals"] = tf.fill([4], False)
    found = loaded["document"](text=text)
    expected = loaded["document_options"](text=text, **unset)
    assert found["translation"].numpy().tolist() == expected["translation"].numpy().tolist()
    np.testing.assert_allclose(found["score"], expected["score"], rtol=1e-5)
    spans = answer_to_the_guide(exported, "document")["source_spans"].numpy()
    assert spans == [b"0-11 12-24"]


class Documents(LocalPredictor):
    """Answers with a `DocumentTranslator`."""

    def __init__(self, documents):
        self.documents = documents
        super().__init__("model", {"document": signature_of_task("document")})

    def call(self, signature, tensors):
        translations = self.documents.translate_batch(tensors["text"].numpy().tolist())
        text, score, truncated = map(list, zip(*translations, strict=True))
        return dict(translation=tf.constant(text), score=tf.constant(score)) | {
            "truncated": tf.constant(truncated)
        }


@pytest.mark.slow
def test_lines_with_several_sentences(with_files, documents, tmp_path, monkeypatch):
    """The command hands on the languages; `ModelPredictor` does the rest, see its own tests."""
    given = {}

    def load(*_, **options):
        given.update(options)
        return Documents(documents)

    monkeypatch.setattr("export.commands.options.predictors.load_models", load)
    lines = ["Peter bought 3 lamps.  One day.", "", "ANNA LEFT TODAY. Yes.", "Ask Tte. Smith."]
    (tmp_path / "source").write_text("".join(f"{line}\n" for line in lines))
    command = ["translate", "--model-dir", str(with_files.model_dir), "--split-sentences"]
    command += ["--beam-size", str(with_files.beam_size)]
    command += ["--input", str(tmp_path / "source"), "--output", str(tmp_path / "target")]
    assert main([*command, "--document-languages", *with_files.document_languages]) == 0
    assert given["document_languages"] == with_files.document_languages
    expected = [text.rstrip("\n") for text in documents(lines)]
    assert (tmp_path / "target").read_text().splitlines() == expected


def test_the_order_of_the_languages_is_none_of_the_request():
    """So that an interrupted `translate` resumes with another one."""
    options = argparse.Namespace(document_languages=["en", "de", "en"])
    assert parse_document_languages(options) == ("de", "en")


@pytest.mark.parametrize("options", [[], ["--beam-size", "2"], ["--keep-capitals"]])
def test_lines_with_several_sentences_by_a_server(tmp_path, options):
    """By the signature for documents, with its own inputs."""
    inputs, outputs = SIGNATURES["translate_options"]
    with_options = inputs | {"keep_capitals": ("DT_BOOL", ())}

    def answer(text, keep_capitals=(), beam_size=(), length_penalty=()):
        assert set(keep_capitals) <= {"--keep-capitals" in options}
        assert len(keep_capitals) == len(beam_size) == (len(text) if options else 0)
        scores = [-1.0 for _ in text]
        return {"translation": text, "score": scores, "truncated": [False for _ in text]}

    behaviour = Behaviour(
        specs={
            "document": SIGNATURES["serving_default"],
            "document_options": (with_options, outputs),
        },
        answers={"document": answer, "document_options": answer},
    )
    (tmp_path / "source").write_text("One. Two.\n\nThree.\n")
    with serve("rest", behaviour) as address:
        command = ["translate", "--server", address, "--split-sentences", *options]
        command += ["--input", str(tmp_path / "source"), "--output", str(tmp_path / "target")]
        assert main(command) == 0
    assert (tmp_path / "target").read_text() == "One. Two.\n\nThree.\n"


def test_all_stands_for_those_that_are_not_optional():
    assert "document" not in expand_signatures(["all"])
    assert expand_signatures(["document", "all", "nbest"]) == [
        "document",
        *expand_signatures(["all"]),
    ]
    assert "adapted" in expand_signatures(["all"], ["adapted"])
    with pytest.raises(ValueError, match=r"Expected one of all, .*, document, document_options"):
        expand_signatures(["adapt"])

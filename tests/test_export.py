"""The SavedModel: equal to the model in a process that knows nothing of this project."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

from export import saved_model, verification
from export.verification import run_in_fresh_process
from tests.test_translator import ODD
from tf_transformer.__main__ import main
from tf_transformer.model_dir import load_model
from tf_transformer.translator import Translator


@pytest.fixture(scope="module")
def translator(talkative):
    return Translator(*load_model(talkative))


@pytest.fixture(scope="module")
def served(talkative, tmp_path_factory):
    """The directory that the command writes."""
    directory = tmp_path_factory.mktemp("served") / "translator"
    assert main(["export", "--model-dir", str(talkative), "--output", str(directory)]) == 0
    return directory


def test_equals_the_model_on_200_sentences_and_odd_strings(translator, served, corpus):
    texts = [*ODD, *(corpus.directory / "test.en").read_bytes().splitlines()]
    assert len(texts) == 200 + len(ODD)
    requests = {"serving_default": {"text": np.array(texts, object)}}
    answer = run_in_fresh_process(served / "1", requests)["serving_default"]
    expected = translator.translate(tf.constant(texts))
    assert answer["translation"] == expected.text.numpy()[:, 0].tolist()
    assert answer["score"] == pytest.approx(expected.scores.numpy()[:, 0].tolist(), rel=1e-5)
    assert answer["truncated"] == expected.truncated.numpy().tolist()
    assert len(set(answer["translation"])) > 50


def test_signature(served):
    signature = tf.saved_model.load(str(served / "1")).signatures["serving_default"]
    (_, inputs) = signature.structured_input_signature
    assert inputs == {"text": tf.TensorSpec([None], tf.string, name="text")}
    outputs = {name: (spec.shape.rank, spec.dtype) for name, spec in
               signature.structured_outputs.items()}  # fmt: skip
    assert outputs == {
        "translation": (1, tf.string),
        "score": (1, tf.float32),
        "truncated": (1, tf.bool),
    }


def test_no_rows_give_no_rows(served):
    signature = tf.saved_model.load(str(served / "1")).signatures["serving_default"]
    assert signature(text=tf.constant([], tf.string))["translation"].shape == (0,)


def test_moved_folder_still_loads(served, tmp_path):
    moved = tmp_path / "elsewhere"
    shutil.copytree(served / "1", moved)
    requests = {"serving_default": {"text": np.array([b"ten horses"], object)}}
    assert len(run_in_fresh_process(moved, requests)["serving_default"]["translation"]) == 1


def test_versions_count_up_and_leave_nothing_beside(translator, tmp_path):
    (tmp_path / "7").mkdir()
    exported = saved_model.export_translator(translator, tmp_path, ["serving_default"])
    assert exported == tmp_path / "8"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["7", "8"]


@pytest.mark.parametrize("key", ["translation", "score", "truncated"])
def test_any_difference_is_an_error_and_nothing_appears(translator, tmp_path, monkeypatch, key):
    genuine = verification.run_in_fresh_process

    def tampered(*arguments):
        answers = genuine(*arguments)
        wrong = {"translation": b"?", "score": -99.0, "truncated": True}[key]
        answers["serving_default"][key][9] = wrong
        return answers

    monkeypatch.setattr(verification, "run_in_fresh_process", tampered)
    with pytest.raises(ValueError, match=rf"the SavedModel differs .* as {key} of row 9"):
        saved_model.export_translator(translator, tmp_path, ["serving_default"])
    assert list(tmp_path.iterdir()) == []


def test_unloadable_saved_model_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="does not load in a fresh process"):
        run_in_fresh_process(tmp_path, {})

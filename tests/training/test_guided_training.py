"""Guided alignment as a whole: what it teaches, what it costs, and resuming it."""

import json

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import small_config
from tests.test_cli import fails
from tests.training.test_trainer import weights_of
from tf_transformer import Translator
from tf_transformer.__main__ import main
from tf_transformer.storage.model_dir import load_model, read_config
from tf_transformer.text.text_file import TextFile
from training.data.augmentation import augment
from training.fine_tuning import config_like
from training.run import Start
from training.trainer import train

STEPS = dict(optimization__steps=300, optimization__checkpoint_every=300)


def go_on(talkative, model_dir, texts):
    """Two steps of `talkative`; with guided alignment, if the texts have alignments."""
    optimization = {"steps": 2, "checkpoint_every": 2, "alignment_weight": 0.3}
    given = {"optimization": optimization, "data": {"batch_tokens": 512}}
    given |= {"validation": {"translate_every": 0}}
    start = Start(talkative)
    return train(config_like(talkative, given), model_dir=model_dir, start=start, **texts)


@pytest.fixture(scope="module")
def guided(untraced_training, talkative, corpus, tmp_path_factory):
    model_dir = tmp_path_factory.mktemp("guided") / "model"
    go_on(talkative, model_dir, corpus.guided)
    return model_dir


def error_rate(model_dir, corpus, output, capsys) -> float:
    texts = ["--source", corpus.path("test.en"), "--target", corpus.path("test.de")]
    options = ["--output", str(output), "--reference", corpus.path("test.align")]
    assert main(["align", "--model-dir", str(model_dir), *texts, *options]) == 0
    return float(capsys.readouterr().out.split("error rate ")[1].split(" %")[0])


def validation_loss(model_dir):
    return json.loads((model_dir / "validation_scores.json").read_text())["scores"][-1]["loss"]


@pytest.mark.exhaustive  # test_train_step.py has the gradients of its loss
@pytest.mark.slow
def test_guided_alignment_is_learned(talkative, corpus, tmp_path, capsys):
    """The same model and steps, with and without: fewer errors, and no worse translations."""
    guided = tmp_path / "guided"
    config = small_config(**STEPS, optimization__alignment_weight=0.3)
    train(config, model_dir=guided, **corpus.guided)
    without = error_rate(talkative, corpus, tmp_path / "without", capsys)
    with_it = error_rate(guided, corpus, tmp_path / "with", capsys)
    assert with_it < 0.75 * without  # 0.53 was measured
    assert validation_loss(guided) < 1.03 * validation_loss(talkative)


@pytest.mark.slow
def test_the_served_signature_uses_the_head(unverified, guided, talkative, corpus, tmp_path):
    """The alignment is that of the head."""
    assert read_config(talkative).alignment_head is None
    assert read_config(guided).alignment_head == 0
    folder = tmp_path / "served"
    command = ["export", "--model-dir", str(guided), "--output", str(folder)]
    assert main([*command, "--signatures", "align"]) == 0
    lines = (corpus.directory / "test.en").read_text(encoding="utf-8").splitlines()[:5]
    found = tf.saved_model.load(folder / "1").signatures["align"](text=tf.constant(lines))
    model, source, target = load_model(guided)
    for row, line in enumerate(lines):
        text = found["translation"].numpy()[row].decode()
        pieces = found["target_pieces"].numpy()[row].decode().split()
        ids = [target.pieces.index(piece) for piece in pieces]
        assert target.detokenize(tf.constant([ids])).numpy()[0].decode() == text
        inputs = {"source": np.array([[*source.encode([line])[0], 3]]), "target": [[2, *ids]]}
        inputs = {name: tf.constant(value, tf.int32) for name, value in inputs.items()}
        layer = model.states(inputs).decoder.cross_attention[0][0]
        soft = [
            [float(weight) for weight in word.split(",")]
            for word in found["soft_alignment"].numpy()[row].decode().split()
        ]
        np.testing.assert_allclose(soft, layer[0, :-1], atol=2e-4)
        assert np.abs(np.mean(layer, axis=0)[:-1] - soft).max() > 0.01
    assert Translator.load(guided)(lines[:1])


@pytest.mark.exhaustive
@pytest.mark.slow
def test_resumed_run_is_the_uninterrupted_one(corpus, tmp_path):
    """Also across the noise of the text."""
    settings = dict(data__subword_dropout=0.2, data__word_dropout=0.1, optimization__r_drop=1.0)
    arguments = corpus.guided
    for name, stops in (("whole", [10]), ("parts", [4, 10])):
        for steps in stops:
            config = small_config(**settings, optimization__steps=steps)
            train(config, model_dir=tmp_path / name, **arguments)
    for ours, theirs in zip(weights_of(tmp_path / "whole"), weights_of(tmp_path / "parts"),
                            strict=True):  # fmt: skip
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.slow
def test_a_run_without_its_alignments_is_refused(guided, talkative, corpus, tmp_path):
    """And with others."""
    with pytest.raises(ValueError, match=r"alignment_head=0 \(--alignments\); received None"):
        go_on(talkative, guided, corpus.arguments)
    (tmp_path / "others").write_text("\n" * 599 + "0-0\n")
    with pytest.raises(ValueError, match="trained on another corpus"):
        go_on(
            talkative, guided, corpus.guided | {"corpus": corpus.pair("train", tmp_path / "others")}
        )


@pytest.mark.exhaustive
@pytest.mark.slow
def test_fine_tuning_can_add_a_head(trained, corpus, tmp_path):
    """A model without alignments learns them, and its settings say so."""
    words = [*corpus.options, "--alignments", corpus.path("train.align")]
    words += ["--init-from", str(trained), "--model-dir", str(tmp_path / "new"), "--steps", "2"]
    words += ["--set", "data.batch_tokens=512", "validation.translate_every=0"]
    assert main(["train", *words, "model.alignment_head=1"]) == 0
    assert read_config(tmp_path / "new").alignment_head == 1


def test_prepared_and_damaged_alignments(corpus, tmp_path, capsys):
    damaged = tmp_path / "damaged"
    lines = (corpus.directory / "train.align").read_text().splitlines()
    for line, message in (
        ("0-0 99-0", "damaged:7: the link 99-0 is of a word that the source does not have"),
        ("0:0", "damaged:7: expected links of words such as 0-0 1-2, got '0:0'"),
        ("\udcff", "damaged:7: not UTF-8"),
    ):
        text = "\n".join([*lines[:6], line, *lines[7:]]) + "\n"
        damaged.write_bytes(text.encode(errors="surrogateescape"))
        options = ["--alignments", damaged, "--model-dir", tmp_path / "new"]
        assert message in fails(capsys, "train", *corpus.options, *options)
    assert not (tmp_path / "new").exists()


def test_unaugmented_batches_are_those_without_alignments(corpus):
    """So a run with alignments sees the same batches as one without."""
    config = small_config().data
    dataset = tf.data.Dataset.from_tensors(
        ({"source": tf.constant([[5, 3]]), "target": tf.constant([[2, 5]])}, tf.constant([[5, 3]]))
    )
    assert augment(dataset, config, None, None, 1, 0) is dataset
    assert TextFile.parse(corpus.path("train.align")).path.exists()

"""A model with a recurrent decoder, from training to the SavedModel."""

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import small_config
from tests.stepping import step_by_step
from tf_transformer.__main__ import main
from tf_transformer.inference.inspection import inspect_attention
from tf_transformer.inference.translator import Translator
from tf_transformer.storage.json_files import read_json
from tf_transformer.storage.model_dir import load_for_decoding, load_model
from tf_transformer.text.framing import end_and_pad, prepend_begin
from training.trainer import train

pytestmark = pytest.mark.slow

KINDS = ("serving_default", "align_options", "complete", "score", "sample")


@pytest.fixture(scope="module")
def model_dir(corpus, tmp_path_factory):
    model_dir = tmp_path_factory.mktemp("ssru") / "model"
    config = small_config(
        model__decoder_autoregression="ssru",
        model__begin_embedding="zero",
        model__first_position=2,
        optimization__steps=30,
        optimization__checkpoint_every=10,
        optimization__warmup_steps=25,
    )
    train(config, model_dir=model_dir, **corpus.arguments)
    return model_dir


@pytest.fixture(scope="module")
def sentences(corpus):
    return (corpus.directory / "test.en").read_text(encoding="utf-8").splitlines()[:20]


def test_training_learns(model_dir):
    scores = read_json(model_dir / "validation_scores.json")["scores"]
    losses = [score["loss"] for score in scores]
    assert [score["step"] for score in scores] == [10, 20, 30]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 5.0 < losses[0] < np.log(400)


@pytest.mark.exhaustive
def test_signatures_are_exported(model_dir, sentences, tmp_path):
    """`export` compares each of them with the model, in a process of its own; one of each kind."""
    options = ["--model-dir", str(model_dir), "--output", str(tmp_path / "served")]
    assert main(["export", *options, "--languages", "en-de", "--signatures", *KINDS]) == 0
    served = tf.saved_model.load(tmp_path / "served" / "1")
    assert set(served.signatures) == set(KINDS)
    answer = served.signatures["serving_default"](tf.constant(sentences))
    expected = Translator(*load_model(model_dir)).translate(tf.constant(sentences))
    assert (answer["translation"] == expected.text[:, 0]).numpy().all()
    np.testing.assert_allclose(answer["score"], expected.scores[:, 0], rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_it_decodes_in_every_dtype(model_dir, sentences, dtype):
    """The steps of the prepared model against all positions at once, in float32."""
    model, source_tokenizer, target_tokenizer = load_model(model_dir)
    source = end_and_pad(source_tokenizer.tokenize(tf.constant(sentences)))
    target = prepend_begin(target_tokenizer.tokenize(tf.constant(sentences)).to_tensor(0))
    logits = model({"source": source, "target": target}).numpy()
    prepared, *_ = load_for_decoding(model_dir, dtype)
    stepped = step_by_step(prepared, source, target.numpy())[:, 0]
    real = target.numpy() != 0
    error = np.linalg.norm((stepped - logits)[real]) / np.linalg.norm(logits[real])
    assert error < (1e-5 if dtype == "float32" else 0.05)


@pytest.mark.exhaustive  # tests/training/plots draws that of other models
def test_attention_that_there_is_can_be_drawn(model_dir, tmp_path, capsys):
    inspected = inspect_attention(Translator(*load_model(model_dir)), "two dogs")
    assert inspected.attention.decoder == []
    assert len(inspected.attention.cross) == 1
    options = ["--model-dir", str(model_dir), "--output", str(tmp_path / "map.png")]
    options += ["--text", "two dogs"]
    assert main(["attention", *options, "--part", "decoder"]) == 2
    assert "The model has no decoder attention to draw" in capsys.readouterr().err
    assert main(["attention", *options, "--part", "cross"]) == 0
    assert (tmp_path / "map.png").stat().st_size > 1000

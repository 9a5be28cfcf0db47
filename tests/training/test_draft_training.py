"""`train --draft-heads`: the heads alone are trained, and translations stay as they are."""

import json

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import small_config
from tf_transformer import TransformerConfig, Translator
from tf_transformer.__main__ import main
from tf_transformer.errors import InputError
from tf_transformer.layers.masks import padding_attention_mask
from tf_transformer.storage.model_dir import WEIGHTS_NAME, read_config
from training.early_checks import check_draft_heads
from training.fine_tuning import config_like
from training.step import TrainableDraftHeads, labels_of_heads

pytestmark = pytest.mark.usefixtures("untraced_training")

SETTINGS = [
    "data.batch_tokens=512",
    "optimization.checkpoint_every=4",
    "optimization.warmup_steps=100",
    "optimization.learning_rate_factor=0.3",
    "validation.translate_every=0",
]


def arrays(model_dir):
    found = {}
    with h5py.File(model_dir / WEIGHTS_NAME) as file:
        file.visititems(
            lambda name, item: (
                found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None
            )
        )
    return found


@pytest.fixture(scope="module")
def with_heads(corpus, trained, tmp_path_factory):
    model_dir = tmp_path_factory.mktemp("draft") / "model"
    command = ["train", *corpus.options, "--init-from", str(trained), "--model-dir", str(model_dir)]
    assert main([*command, "--draft-heads", "2", "--steps", "8", "--set", *SETTINGS]) == 0
    return model_dir


def test_the_heads_alone_are_trained(trained, with_heads):
    former, found = arrays(trained), arrays(with_heads)
    heads = {name for name in found if name.startswith("draft_heads/")}
    assert heads and found.keys() - heads == former.keys()
    for name, value in former.items():
        np.testing.assert_array_equal(found[name], value)
    assert np.any(found["draft_heads/outer/kernel"])  # it begins at 0
    scores = json.loads((with_heads / "validation_scores.json").read_text())["scores"]
    losses = [score["loss"] for score in scores]
    assert len(losses) == 2 and losses[1] < losses[0]


@pytest.mark.slow
def test_translations_stay_as_they_are(corpus, trained, with_heads):
    texts = (corpus.directory / "validation.en").read_text().splitlines()[:6]
    expected = Translator.load(trained, beam_size=1)
    found = Translator.load(with_heads, beam_size=1)
    for text in texts:
        assert found.translate([text]).text[0, 0] == expected.translate([text]).text[0, 0]


@pytest.mark.slow
def test_a_model_with_heads_as_the_start(corpus, with_heads, tmp_path):
    """Fine-tuning leaves the heads out, and new heads start anew."""
    assert config_like(with_heads, {}).transformer_config(400, 400).draft_heads == 0
    model_dir = tmp_path / "model"
    command = ["train", *corpus.options, "--init-from", str(with_heads)]
    command += ["--model-dir", str(model_dir), "--steps", "1", "--draft-heads", "1"]
    command += ["--set", *SETTINGS]
    assert main(command) == 0
    assert read_config(model_dir).draft_heads == 1
    found, former = arrays(model_dir), arrays(with_heads)
    np.testing.assert_array_equal(
        found["target_embedding/embeddings"], former["target_embedding/embeddings"]
    )


def test_labels_of_heads():
    labels = tf.constant([[5, 6, 7, 8], [9, 4, 0, 0]])
    expected = [
        [[6, 7, 8], [7, 8, 0], [8, 0, 0], [0, 0, 0]],
        [[4, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]],
    ]
    np.testing.assert_array_equal(labels_of_heads(labels, 3), expected)


@pytest.mark.slow
def test_loss():
    """The mean of the heads' cross-entropies, token by token in NumPy."""
    config = TransformerConfig(
        source_vocab_size=9,
        target_vocab_size=9,
        num_encoder_layers=1,
        num_decoder_layers=1,
        d_model=8,
        d_ff=16,
        num_heads=2,
        draft_heads=2,
    )
    keras.utils.set_random_seed(1)
    model = TrainableDraftHeads(config)
    rng = np.random.default_rng(1)
    for weight in model.draft_heads.weights:
        weight.assign(rng.normal(size=weight.shape))

    class Loss:
        label_smoothing, smoothed_over = 0.0, "all"

    model.loss = Loss
    ids, labels = (
        rng.integers(4, 9, size=(3, 5)).astype("int32"),
        np.array([[5, 6, 7, 8, 3], [4, 3, 0, 0, 0], [8, 8, 3, 0, 0]], "int32"),
    )
    inputs = {"source": ids, "target": np.where(labels > 0, ids, 0)}
    loss, losses = model._token_losses(inputs, labels, 10.0, ())
    memory, hidden = model.hidden_states(inputs)
    mask = padding_attention_mask(model.source_mask(ids))
    logits = model.logits(model.draft(hidden, labels, model.decoder.project_memory(memory), mask))
    log_probs = tf.nn.log_softmax(logits).numpy()
    expected = [
        -log_probs[row, position, head, labels[row, position + head + 1]]
        for row in range(3)
        for position in range(5)
        for head in range(2)
        if position + head + 1 < 5 and labels[row, position + head + 1]
    ]
    np.testing.assert_allclose(losses.surprisal, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(loss, sum(expected) / 20, rtol=1e-4)


@pytest.mark.parametrize(
    ("settings", "given", "message"),
    [
        ({}, dict(has_initial_model=False), "give it as --init-from"),
        ({}, dict(is_guided=True), "leave out --alignments"),
        ({}, dict(adds_pieces=True), "leave out --add-pieces"),
        ({"lora__rank": 2}, {}, "leave out --lora"),
        ({"optimization__r_drop": 1.0}, {}, "leave out optimization.r_drop"),
    ],
)
def test_refused(settings, given, message):
    config = small_config(model__draft_heads=2, **settings)
    choices = dict(has_initial_model=True, is_guided=False, adds_pieces=False) | given
    with pytest.raises(InputError, match=message):
        check_draft_heads(config, **choices)


def test_without_a_model_nothing_is_written(corpus, tmp_path, capsys):
    model_dir = tmp_path / "model"
    command = ["train", *corpus.options, "--model-dir", str(model_dir), "--draft-heads", "2"]
    assert main(command) == 2
    assert "give it as --init-from" in capsys.readouterr().err
    assert not model_dir.exists()


@pytest.mark.slow
def test_adapters_and_pieces_need_the_model_without_heads(with_heads):
    with pytest.raises(InputError, match="give the model that they were trained on"):
        config_like(with_heads, {"lora": {"rank": 2}})
    with pytest.raises(InputError, match="give the model that they were trained on"):
        config_like(with_heads, {}, ["piece"])

"""What a user has set Keras to for other programs changes neither training nor scores."""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

import training
from tests.conftest import SMALL_SETTINGS, small_config
from tf_transformer import (
    LabelSmoothedCrossEntropy,
    LanguageModel,
    Perplexity,
    SmoothedLoss,
    TokenAccuracy,
    Transformer,
    TransformerConfig,
    load_model,
)
from training.checkpointing.validation_history import read_validation_scores

# What is trained is the smallest model, a language model: none of this depends on its kind.
CHANGES = {
    "model__decoder_only": True,
    "optimization__steps": 2,
    "optimization__checkpoint_every": 2,
}


@pytest.fixture(scope="module")
def usual(corpus, tmp_path_factory):
    """A model directory after 2 steps with Keras as it is by default."""
    model_dir = tmp_path_factory.mktemp("usual") / "model"
    training.train(small_config(**CHANGES), model_dir=model_dir, **corpus.target_arguments)
    return model_dir


@pytest.fixture(params=["float16", "float64"])
def floatx(request):
    policy = keras.config.dtype_policy()
    keras.config.set_floatx(request.param)
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy(policy)


def assert_as_usual(model_dir, usual):
    for found, expected in zip(
        *(load_model(d)[0].weights for d in (model_dir, usual)), strict=True
    ):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-6)
    ((found,), (expected,)) = (read_validation_scores(d) for d in (model_dir, usual))
    for name in ("loss", "perplexity", "accuracy"):
        assert found[name] == pytest.approx(expected[name], rel=1e-5)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_training_under_another_floatx(floatx, usual, corpus, tmp_path):
    training.train(small_config(**CHANGES), model_dir=tmp_path, **corpus.target_arguments)
    assert_as_usual(tmp_path, usual)


@pytest.mark.slow
def test_the_command_uses_default_keras(usual, corpus, tmp_path):
    (tmp_path / "keras.json").write_text(json.dumps({"floatx": "float16", "backend": "jax"}))
    limits = {"KERAS_MAX_EPOCHS": "1", "KERAS_MAX_STEPS_PER_EPOCH": "x"}
    changes = {name.replace("__", "."): value for name, value in CHANGES.items()}
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tf_transformer", "train", *corpus.target_options),
            *("--model-dir", tmp_path / "model"),
            *("--set", *(f"{name}={value}" for name, value in (SMALL_SETTINGS | changes).items())),
        ],
        env=os.environ | limits | {"KERAS_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    for name in limits:
        assert f"tf-transformer: {name} is ignored; use --steps instead\n" in done.stderr
    assert_as_usual(tmp_path / "model", usual)


@pytest.mark.parametrize("limit", ["max_epochs", "max_steps_per_epoch"])
def test_limits_of_keras_are_refused(limit, corpus, tmp_path):
    set_limit = getattr(keras.config, f"set_{limit}")
    set_limit(1)
    try:
        with pytest.raises(
            ValueError, match=rf"^Keras is set to {limit}=1; .*KERAS_{limit.upper()}"
        ):
            training.train(small_config(), model_dir=tmp_path / "model", **corpus.arguments)
    finally:
        set_limit(None)
    assert not (tmp_path / "model").exists()


@pytest.mark.representatives(every=5)
@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"relative_positions": "keys_values"},
        {"positions": "learned", "layer_history": True},
        {"norm_type": "l1", "embedding_norm": True, "scaled_embeddings": False},
        {"norm_type": "rms", "relative_positions": "buckets", "dense_bias": False, "head_dim": 3},
        {"decoder_only": True, "tied_embeddings": "none"},
    ],
)
@pytest.mark.parametrize("dtype", ["float16", "float64", "bfloat16"])
def test_fit_in_any_float(dtype, changes):
    """Policies without float32, such as those that stand for another `floatx`."""
    keras.utils.set_random_seed(1)
    sizes = dict(target_vocab_size=11, d_model=8, num_heads=2, d_ff=16)
    sizes |= dict(num_encoder_layers=1, num_decoder_layers=1)
    if not changes.get("decoder_only"):
        sizes["source_vocab_size"] = 11
    model_class = LanguageModel if changes.get("decoder_only") else Transformer
    model = model_class(TransformerConfig(**sizes, **changes), dtype=dtype)
    metrics = [SmoothedLoss(), Perplexity(), TokenAccuracy()]
    # One step takes less time than tracing it.
    model.compile("sgd", LabelSmoothedCrossEntropy(), metrics=metrics, run_eagerly=True)
    ids = np.array([[1, 4, 5, 6, 0], [1, 5, 6, 0, 0]], "int32")
    inputs = {name: ids for name in model.input_keys}
    before = [weight.numpy() for weight in model.trainable_weights]
    history = model.fit(inputs, ids, verbose=0).history
    assert np.isfinite([values[0] for values in history.values()]).all()
    assert any((a != w.numpy()).any() for a, w in zip(before, model.trainable_weights, strict=True))


def test_labels_stay_exact_under_another_floatx(floatx):
    """float16 ends at 65,504 and has whole numbers to 2,048."""
    labels = np.full((1, 3), 70_001)
    logits = np.zeros((1, 3, 70_002), "float32")
    logits[..., 70_001] = 20.0
    assert float(LabelSmoothedCrossEntropy(label_smoothing=0.0)(labels, logits)) < 1e-3
    metric = TokenAccuracy()
    for _ in range(30):
        metric.update_state(np.full((100, 100), 1), np.zeros((100, 100, 2), "float32"))
    assert float(metric.result()) == 1.0

"""Keras set to another backend: the commands choose theirs, the library says what it needs."""

import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys

import keras
import pytest
import tensorflow as tf

from tf_transformer.backend import has_gpu, require_tensorflow

ROOT = pathlib.Path(__file__).parents[2]


def run_python(*arguments, **environment):
    # Commands that ran in this process have set theirs.
    inherited = {name: value for name, value in os.environ.items() if name != "KERAS_BACKEND"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=inherited | {"TF_CPP_MIN_LOG_LEVEL": "3"} | environment,
        input="The train leaves at 3 p.m.\n",
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.representatives("environment")
@pytest.mark.slow
@pytest.mark.parametrize("where", ["environment", "keras.json"])
def test_commands_choose_tensorflow(where, trained, tmp_path):
    """Whatever is set for other programs, installed here or not."""
    environment = {"KERAS_BACKEND": "jax"}
    if where == "keras.json":
        (tmp_path / "keras.json").write_text(json.dumps({"backend": "torch"}))
        environment = {"KERAS_HOME": str(tmp_path)}
    done = run_python(
        *("-m", "tf_transformer", "translate", "--model-dir", str(trained)), **environment
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1


def test_another_backend_is_named(monkeypatch):
    require_tensorflow("this")
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    expected = "^this needs Keras .*'tensorflow'.*'jax'.*KERAS_BACKEND=tensorflow before Keras"
    with pytest.raises(ImportError, match=expected) as raised:
        require_tensorflow("this")
    assert "\n" not in str(raised.value)


def test_a_gpu_is_one_that_tensorflow_may_use(monkeypatch):
    visible = {"CPU": ["CPU:0"], "GPU": []}
    monkeypatch.setattr(tf.config, "get_visible_devices", visible.get)
    assert not has_gpu()
    visible["GPU"] = ["GPU:0"]
    assert has_gpu()
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    assert not has_gpu()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tf_transformer.Transformer", "training.train", "export.Client"])
def test_a_backend_that_is_not_installed(name, tmp_path):
    (tmp_path / "jax.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'jax'\", name='jax')"
    )
    package = name.partition(".")[0]
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport {package}; {name}"
    done = run_python("-c", program, KERAS_BACKEND="jax")
    if name == "export.Client":  # needs no Keras
        assert (done.returncode, done.stderr) == (0, "")
        return
    last = done.stderr.splitlines()[-1]
    assert last == (
        "ImportError: Keras is set to the backend 'jax', which is not installed. Set the "
        "environment variable KERAS_BACKEND=tensorflow before Keras is imported"
    )


_WITH_TORCH = """
import keras, numpy as np
import tf_transformer as t
assert keras.backend.backend() == "torch"
import export, training
for package, name in ((t, "Translator"), (t, "Completer"), (training, "train"),
                      (export, "export_translator")):
    try:
        getattr(package, name)
    except ImportError as error:
        print(name, error)
t.Tokenizer
inputs = {"source": np.array([[5, 6, 7], [9, 4, 0]]), "target": np.array([[2, 4, 9], [2, 5, 0]])}
labels = np.array([[4, 9, 3], [5, 3, 0]])
model = t.Transformer(t.TransformerConfig(
    source_vocab_size=13, target_vocab_size=13, num_encoder_layers=1, num_decoder_layers=1,
    d_model=8, d_ff=12, num_heads=2, relative_positions="keys", layer_history=True,
))
model.compile(
    optimizer=keras.optimizers.Adam(t.NoamSchedule(8, 10)),
    loss=t.LabelSmoothedCrossEntropy(0.1),
    metrics=[t.SmoothedLoss(0.1, name="nats"), t.TokenAccuracy(), t.Perplexity()],
)
losses = model.fit(inputs, labels, epochs=20, verbose=0).history["nats"]
print(losses[0] > losses[-1])
model.save("MODEL")
restored = keras.models.load_model("MODEL")
print(np.array_equal(restored.predict(inputs, verbose=0), model.predict(inputs, verbose=0)))
"""


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
def test_the_model_trains_with_torch(tmp_path):
    """Layers, loss, schedule and metrics are those of any backend; the search is TensorFlow's."""
    program = _WITH_TORCH.replace("MODEL", str(tmp_path / "model.keras"))
    done = run_python("-c", program, KERAS_BACKEND="torch")
    assert done.returncode == 0, done.stderr
    *refusals, learned, restored = done.stdout.splitlines()
    for name, line in zip(
        ("Translator", "Completer", "train", "export_translator"), refusals, strict=True
    ):
        assert re.match(f"{name} .* needs Keras with the backend 'tensorflow'", line)
        assert "backend 'torch'" in line
    assert (learned, restored) == ("True", "True")

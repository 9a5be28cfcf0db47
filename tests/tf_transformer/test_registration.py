"""A saved model loads once this package is imported, before Keras or after it."""

import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

from tf_transformer import (
    LabelSmoothedCrossEntropy,
    NoamSchedule,
    Perplexity,
    Transformer,
    TransformerConfig,
)

ROOT = pathlib.Path(__file__).parents[2]
INPUTS = {"source": np.array([[5, 6, 7]]), "target": np.array([[2, 4, 9]])}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    config = TransformerConfig.preset(
        "tiny", source_vocab_size=13, target_vocab_size=13, num_encoder_layers=1,
        num_decoder_layers=1, d_model=8, d_ff=12, num_heads=2,
    )  # fmt: skip
    model = Transformer(config)
    model.compile(
        optimizer=keras.optimizers.Adam(NoamSchedule(8, 10)),
        loss=LabelSmoothedCrossEntropy(0.2),
        metrics=[Perplexity()],
        run_eagerly=True,
    )
    model.train_on_batch(INPUTS, np.array([[4, 9, 3]]))
    path = tmp_path_factory.mktemp("saved") / "model.keras"
    model.save(path)
    return path


LOADING = """
import sys
model = keras.models.load_model(sys.argv[1])
schedule = model.optimizer._learning_rate
print(*(type(x).__name__ for x in (model, model.loss, schedule)), model.loss.label_smoothing)
finders = [f for f in sys.meta_path if type(f).__module__.startswith("tf_transformer")]
print(set(finder.library for finder in finders) - set(["tensorflow_text"]))
"""
LOADED = [
    "Transformer LabelSmoothedCrossEntropy NoamSchedule 0.2",
    "{'keras_hub'}",  # has not been imported
]
IMPORTING_ALL = """
import importlib.util, pathlib, keras_hub
def names():
    return {name for name in keras.saving.get_custom_objects() if name.startswith("tf_transf")}
before = names()
root = pathlib.Path(tf_transformer.__file__).parents[1]
without_beam = importlib.util.find_spec("apache_beam") is None
for path in (root / "tf_transformer").rglob("*.py"):
    if path.parent.name == "apache_beam" and without_beam:
        continue
    importlib.import_module(".".join(path.relative_to(root).with_suffix("").parts))
print(len(before), names() - before)
"""


def lines_of(program: str, saved: pathlib.Path) -> list[str]:
    """What a program prints that is given the saved model."""
    done = subprocess.run(
        [sys.executable, "-c", program, str(saved)],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_a_saved_model_loads_and_every_class_is_registered(saved):
    """What any module registers is registered once KerasHub and the package are imported."""
    program = f"import tf_transformer, keras\n{LOADING}{IMPORTING_ALL}"
    *loaded, registered = lines_of(program, saved)
    assert loaded == LOADED
    count, _, missing = registered.partition(" ")
    assert int(count) > 15
    assert missing == "set()"


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize(
    "imports",
    [
        "import keras, tf_transformer",
        # Looked for, as some libraries do, before it is imported.
        "import importlib.util, tf_transformer; importlib.util.find_spec('keras'); import keras",
        "import importlib, tf_transformer; importlib.reload(tf_transformer); import keras",
        "import tensorflow as tf, tf_transformer; keras = tf.keras",
        # Its own modules may be the first to import Keras, in whichever order.
        "import tf_transformer.models.base; from tf_transformer import Transformer; import keras",
    ],
)
def test_a_saved_model_loads_after_other_imports(imports, saved):
    assert lines_of(f"{imports}\n{LOADING}", saved) == LOADED

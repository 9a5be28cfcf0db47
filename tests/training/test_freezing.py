"""Frozen weights: no update, no gradient, no optimizer state; all others train as before."""

import json
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import small_config
from tf_transformer import LanguageModel, TransformerConfig
from tf_transformer.__main__ import main
from tf_transformer.losses.label_smoothing import LabelSmoothedCrossEntropy
from tf_transformer.storage.model_dir import load_model
from tf_transformer.storage.weight_shapes import weight_shapes
from training.fine_tuning import config_like
from training.model import build_model
from training.run import Start
from training.settings import make_config
from training.step import TrainableTransformer
from training.trained_weights import check_frozen, freeze
from training.trainer import train

VOCAB = 13
SIZES = dict(
    source_vocab_size=VOCAB,
    target_vocab_size=VOCAB,
    num_encoder_layers=1,
    num_decoder_layers=1,
    d_model=8,
    d_ff=16,
    num_heads=2,
    dropout_rate=0.0,
)


def inner(path):
    return path.partition("/")[2]


def batch():
    rng = np.random.default_rng(1)
    source, target, labels = rng.integers(4, VOCAB, size=(3, 4, 6)).astype("int32")
    return {"source": source, "target": target}, labels


def updates(patterns, num_micro_batches=1, r_drop=0.0, dtype="float32", **switches):
    """The update of each weight in one step of plain gradient descent, by name."""
    keras.utils.set_random_seed(1)
    model = TrainableTransformer(TransformerConfig(**(SIZES | switches)), dtype=dtype)
    freeze(model, patterns)
    model.compile(
        optimizer=keras.optimizers.SGD(0.5),
        loss=LabelSmoothedCrossEntropy(0.1),
        run_eagerly=True,  # one step takes less time than tracing it
    )
    model.num_micro_batches, model.r_drop = num_micro_batches, r_drop
    inputs, labels = batch()
    before = model.get_weights()
    model.fit(inputs, labels, batch_size=len(labels), shuffle=False, verbose=0)
    return {
        inner(weight.path): new - old
        for weight, new, old in zip(model.weights, model.get_weights(), before, strict=True)
    }


@pytest.mark.representatives(every=3)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("patterns", "options"),
    [
        (["encoder/*", "*embedding*"], {}),
        (["*embedding*"], dict(num_micro_batches=2)),
        (["*embedding*", "logits_bias"], dict(r_drop=5.0, logits_bias=True)),
        (["*/bias", "decoder/*/norm/*", "logits_projection/kernel"], dict(tied_embeddings="none")),
        (["target_embedding/*"], dict(tied_embeddings="none", dtype="mixed_bfloat16")),
        (["decoder/*", "encoder/*", "*embedding*"], dict(tied_embeddings="none")),
    ],
    ids=str,
)
def test_other_weights_train_as_before(patterns, options):
    expected, found = updates([], **options), updates(patterns, **options)
    shapes = weight_shapes(TransformerConfig(**SIZES, **without(options)))
    assert found.keys() == expected.keys() == shapes.keys()
    unchanged = {name for name, update in found.items() if not update.any()}
    frozen = {name for name in found if any(matches(name, pattern) for pattern in patterns)}
    assert unchanged == frozen and frozen
    for name in found.keys() - frozen:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-7)


def without(options):
    return {k: v for k, v in options.items() if k in ("tied_embeddings", "logits_bias")}


def matches(name, pattern):
    """`fnmatch`, by hand: the parts between the stars in sequence."""
    start, *parts = pattern.split("*")
    if not name.startswith(start):
        return False
    rest = name[len(start) :]
    for part in parts:
        _, found, rest = rest.partition(part) if part else ("", "yes", "")
        if not found:
            return False
    return not rest


@pytest.mark.representatives("patterns0")
@pytest.mark.slow
@pytest.mark.parametrize("patterns", [["encoder/*", "*embedding*"], ["*embedding*"]])
def test_no_gradient_is_computed(patterns):
    """Frozen parts below all trained ones have no operations of a backward pass."""

    def products(frozen):
        model = TrainableTransformer(TransformerConfig(**SIZES))
        freeze(model, frozen)
        model.compile(optimizer=keras.optimizers.SGD(0.5), loss=LabelSmoothedCrossEntropy(0.1))
        model.optimizer.build(model.trainable_variables)
        graph = tf.function(lambda data: model.train_step(data)).get_concrete_function(
            tf.nest.map_structure(tf.constant, batch())
        )
        definition = graph.graph.as_graph_def()
        nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
        return sum(node.op == "MatMul" for node in nodes)

    # The gradient of the logits' matrix is one product. An encoder layer has four dense layers,
    # with two products each in the gradient.
    assert products([]) - products(patterns) >= (1 + 4 * 2 if len(patterns) == 2 else 1)


def test_no_state_in_the_optimizer():
    config = small_config(
        optimization__frozen=["encoder/*", "*embedding*"], optimization__average_decay=0.9
    )
    model = build_model(config, 400, 400)
    names = {inner(weight.path) for weight in model.trainable_variables}
    assert names == {name for name in weight_shapes(model.config) if name.startswith("decoder/")}
    moments = [variable for variable in model.optimizer.variables if variable.shape.rank]
    assert len(moments) == 3 * len(names)  # two moments and an average


@pytest.mark.parametrize(
    ("frozen", "message"),
    [
        (
            ["encoder/layer_7/*"],
            "'encoder/layer_7/.' matches nothing of .* such as dec",
        ),
        (["encoder/*", "source_embedding/*"], "'source_embedding/.' matches nothing"),
        (["*"], "freezes all .* weights of this model"),
        (["*er/*", "*embedding*"], "nothing to train"),
        ("encoder/*", "'optimization.frozen': input should be a valid list"),
    ],
)
def test_patterns_that_are_refused(frozen, message):
    with pytest.raises(ValueError, match=message):
        make_config({"optimization": {"frozen": frozen}})


def test_frozen_vectors_count():
    config = TransformerConfig(**(SIZES | dict(trainable_embeddings=False)))
    check_frozen(["encoder/*"], config)
    with pytest.raises(ValueError, match="nothing to train"):
        check_frozen(["encoder/*", "decoder/*"], config)


def test_language_models():
    config = TransformerConfig(**(SIZES | dict(source_vocab_size=None, decoder_only=True)))
    model = LanguageModel(config)
    freeze(model, ["decoder/layer_0/feed_forward/*"])
    assert len(model.weights) - len(model.trainable_weights) == 4


def test_one_line_and_status_2(corpus, tmp_path, capsys):
    command = ["train", *corpus.options, "--model-dir", str(tmp_path / "m")]
    assert main([*command, "--set", "optimization.frozen=['encodr/*']"]) == 2
    error = capsys.readouterr().err
    assert "'encodr/*' matches nothing of this model" in error and error.count("\n") == 1
    assert not (tmp_path / "m").exists()


FROZEN = {"frozen": ["encoder/*", "*embedding*"], "average_decay": 0.9}


@pytest.mark.exhaustive
@pytest.mark.slow
def test_resumed_equals_uninterrupted(corpus, trained, tmp_path):
    """And the frozen weights are those of the first model, also after `average`."""
    sizes = {"checkpoint_every": 4, "learning_rate_factor": 0.3, "warmup_steps": 10}

    def run(model_dir, steps, **more):
        given = {"optimization": sizes | FROZEN | {"steps": steps}, "data": {"batch_tokens": 512}}
        config = config_like(trained, given | {"validation": {"translate_every": 0}})
        return train(config, model_dir=model_dir, start=Start(trained), **corpus.arguments, **more)

    run(tmp_path / "once", 8)
    for steps in (3, 4, 8):
        run(tmp_path / "resumed", steps)
    first, once, resumed = (
        {inner(w.path): w.numpy() for w in load_model(path)[0].weights}
        for path in (trained, tmp_path / "once", tmp_path / "resumed")
    )
    for name, weight in once.items():
        np.testing.assert_allclose(resumed[name], weight, atol=1e-6)
        assert np.array_equal(first[name], weight) == (not name.startswith("decoder/"))
    with pytest.raises(ValueError, match=r"trained with optimization.frozen=\["):
        other = dict(FROZEN, frozen=["encoder/*"])
        given = {"optimization": sizes | other | {"steps": 8}, "data": {"batch_tokens": 512}}
        config = config_like(trained, given | {"validation": {"translate_every": 0}})
        train(config, model_dir=tmp_path / "once", start=Start(trained), **corpus.arguments)

    averaged = shutil.copytree(tmp_path / "once", tmp_path / "averaged")
    assert main(["average", "--model-dir", str(averaged), "--last", "1"]) == 0
    for weight in load_model(averaged)[0].weights:
        np.testing.assert_array_equal(weight.numpy(), once[inner(weight.path)])
    settings = json.loads((averaged / "training.json").read_text())["settings"]
    assert settings["optimization"]["frozen"] == FROZEN["frozen"]

"""`train --lora`: only A and B learn, the model is the merged one, a small file adapts a base."""

import json
import re
import shutil
import subprocess
import sys

import h5py
import keras
import numpy as np
import pytest

from tests.conftest import small_config
from tf_transformer import Transformer, TransformerConfig
from tf_transformer.__main__ import main
from tf_transformer.losses.label_smoothing import LabelSmoothedCrossEntropy
from tf_transformer.models.lora import (
    PARTS,
    base_weights,
    enable_lora,
    lora_variables,
    merged_values,
)
from tf_transformer.storage.adapter_file import (
    ADAPTER_NAME,
    kernel_shapes,
    read_adapter,
    write_adapter,
)
from tf_transformer.storage.model_dir import load_model, read_config, weights_digest
from tf_transformer.storage.trained_models import TrainedModels
from tf_transformer.storage.weights_file import model_digest, write_model_weights
from training.checkpointing.checkpoint_files import checkpoint_paths
from training.fine_tuning import config_like
from training.run import Start
from training.settings import make_config
from training.step import TrainableTransformer
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
CONFIG = TransformerConfig(**SIZES)


def batch():
    rng = np.random.default_rng(1)
    source, target, labels = rng.integers(4, VOCAB, size=(3, 4, 6)).astype("int32")
    return {"source": source, "target": target}, labels


def randomized(model, rank=2, names=None, alpha=None, seed=1):
    enable_lora(model, rank, kernel_shapes(model.config) if names is None else names, alpha)
    random = np.random.default_rng(seed)
    for variable in lora_variables(model).values():
        variable.assign(random.normal(size=variable.shape, scale=0.3))
    return model


def plain_arrays(model):
    return {
        weight.path.partition("/")[2]: np.asarray(weight, "float32") for weight in model.weights
    }


# ---- The product and the merge, in NumPy ----


@pytest.mark.parametrize("shape", [(5, 8), (2, 3, 8)])
@pytest.mark.parametrize("training", [False, True])
def test_product(shape, training):
    """h = x W + (alpha / rank) x A B + b, on layers with wider and narrower outputs."""
    model = randomized(Transformer(CONFIG), alpha=6.0)
    arrays = plain_arrays(model)
    inputs = np.random.default_rng(2).normal(size=shape).astype("float32")
    for name in ("encoder/layer_0/feed_forward/inner", "decoder/layer_0/cross_attention/query"):
        layer = model
        for attribute in name.replace("layer_0", "layers/0").split("/"):
            layer = layer[int(attribute)] if attribute == "0" else getattr(layer, attribute)
        w, b, lora_a, lora_b = (
            arrays[f"{name}/{part}"]
            for part in ("kernel", "bias", "lora_kernel_a", "lora_kernel_b")
        )
        expected = inputs @ w + 6.0 / 2 * (inputs @ lora_a) @ lora_b + b
        np.testing.assert_allclose(layer(inputs, training=training), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("switches", [{}, dict(tied_embeddings="none", activation="swiglu")])
def test_merge(switches):
    config = TransformerConfig(**SIZES, **switches)
    model = randomized(Transformer(config), alpha=3.0)
    inputs, _ = batch()
    expected = model(inputs)
    arrays = plain_arrays(model)
    merged = Transformer(config)
    for name, weight in base_weights(merged).items():
        layer = name.removesuffix("/kernel")
        value = arrays[name]
        if layer != name:
            value = (
                value + 1.5 * arrays[f"{layer}/lora_kernel_a"] @ arrays[f"{layer}/lora_kernel_b"]
            )
        weight.assign(value)
    np.testing.assert_allclose(merged(inputs), expected, rtol=1e-3, atol=1e-4)
    found = dict(merged_values(model))
    assert found.keys() == base_weights(merged).keys()
    for name, weight in base_weights(merged).items():
        np.testing.assert_allclose(found[name], weight, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_merged_weights_are_not_rounded():
    """With half precision, W + A B is still computed in float32."""
    model, plain = (
        randomized(Transformer(CONFIG, dtype=dtype)) for dtype in ("mixed_bfloat16", "float32")
    )
    for variable, value in zip(plain.weights, model.get_weights(), strict=True):
        variable.assign(value)
    expected = dict(merged_values(plain))
    for name, value in merged_values(model):
        assert value.dtype == np.float32
        np.testing.assert_array_equal(value, expected[name])


def test_small_updates_survive_half_precision():
    """In W + A B, bfloat16 would lose what is 1/1000 of W."""
    model = Transformer(CONFIG, dtype="mixed_bfloat16")
    name = "encoder/layer_0/feed_forward/inner"
    enable_lora(model, 1, [name])
    layer = model.encoder.layers[0].feed_forward.inner
    layer._kernel.assign(np.ones((8, 16)))
    before = np.asarray(layer(np.eye(8, dtype="float32") - 1 / 8)).astype("float32")
    layer.lora_kernel_a.assign(np.eye(8, 1))
    layer.lora_kernel_b.assign(np.full((1, 16), 1e-3))
    after = np.asarray(layer(np.eye(8, dtype="float32") - 1 / 8)).astype("float32")
    np.testing.assert_allclose((after - before)[0], 7 / 8 * 1e-3, rtol=0.05)


# ---- Training ----


def fitted(targets, dtype="float32", num_micro_batches=1, **switches):
    """The weights before and after two steps, by name."""
    keras.utils.set_random_seed(1)
    model = TrainableTransformer(TransformerConfig(**SIZES, **switches), dtype=dtype)
    plain = model.get_weights()
    inputs, labels = batch()
    expected = model(inputs)
    kernels = kernel_shapes(model.config)
    enable_lora(model, 2, [name for name in kernels if re.search(targets, name)])
    np.testing.assert_array_equal(model(inputs), expected)  # B is zero
    assert len(model.weights) - len(plain) == len(model.trainable_weights)
    model.compile(
        optimizer=keras.optimizers.SGD(1.0),
        loss=LabelSmoothedCrossEntropy(0.1),
        run_eagerly=True,  # two steps take less time than tracing one
    )
    model.num_micro_batches = num_micro_batches
    before = plain_arrays(model)
    model.fit(inputs, labels, batch_size=4, epochs=2, shuffle=False, verbose=0)
    return before, plain_arrays(model)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("targets", "options"),
    [
        ("", {}),
        ("attention", dict(dtype="mixed_bfloat16")),
        ("decoder.*feed_forward", dict(num_micro_batches=2)),
        ("logits_projection", dict(tied_embeddings="none")),
    ],
)
def test_only_a_and_b_learn(targets, options):
    before, after = fitted(targets, **options)
    changed = {name for name, value in before.items() if not np.array_equal(value, after[name])}
    layers = [name for name in kernel_shapes(CONFIG) if re.search(targets, name)]
    if targets == "logits_projection":
        layers = [targets]
    assert changed == {f"{name}/lora_kernel_{part}" for name in layers for part in "ab"} != set()


@pytest.mark.slow
def test_gradients_are_those_of_the_merged_kernel():
    """dA = s x^T dy B^T and dB = s (x A)^T dy, that is s dW B^T and s A^T dW."""
    import tensorflow as tf

    model = randomized(TrainableTransformer(CONFIG), alpha=5.0)
    merged = TrainableTransformer(CONFIG)
    weights = base_weights(merged)
    for name, value in merged_values(model):
        weights[name].assign(value)
    inputs, labels = batch()
    gradients = []
    for each in (model, merged):
        each.compile(loss=LabelSmoothedCrossEntropy(0.1), optimizer=keras.optimizers.SGD())
        names = [weight.path.partition("/")[2] for weight in each.trainable_weights]
        found = each._gradients(inputs, labels, tf.constant(24.0))
        gradients.append(dict(zip(names, map(tf.convert_to_tensor, found), strict=True)))
    arrays = plain_arrays(model)
    assert gradients[0].keys() == lora_variables(model).keys()
    for layer in kernel_shapes(CONFIG):
        a, b = (arrays[f"{layer}/lora_kernel_{part}"] for part in "ab")
        d_kernel = gradients[1][f"{layer}/kernel"].numpy()
        for part, expected in (("a", 2.5 * d_kernel @ b.T), ("b", 2.5 * a.T @ d_kernel)):
            found = gradients[0][f"{layer}/lora_kernel_{part}"]
            np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rank": 0}, "'lora.rank': input should be greater than 0"),
        ({"rank": 2.0}, "'lora.rank': input should be a valid integer"),
        ({"rank": 2, "alpha": -1}, "'lora.alpha': input should be greater than 0"),
        ({"rank": 2, "targets": ["encodr/*"]}, "'encodr/.' matches nothing of this model"),
        ({"rank": 2, "targets": ["*embedding*"]}, "'.embedding.' matches nothing of this model"),
        ({"rank": 2, "targets": []}, "expected at least one pattern"),
        ({"rank": 129}, "'lora.rank' 129: expected at most 128, the rank of the weights of "),
        ({"rank": 2, "alpha": 1e300}, "'lora.alpha': input should be less than or equal to"),
        ({"alpha": 3}, "set 'lora.rank' as well"),
        ({"rank": 2, "dropout": 0.1}, "unknown setting 'lora.dropout'"),
    ],
)
def test_settings_that_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        make_config({"lora": settings})


def test_frozen_and_lora_are_refused_together():
    with pytest.raises(ValueError, match="all weights are frozen already; leave it out"):
        make_config({"lora": {"rank": 2}, "optimization": {"frozen": ["encoder/*"]}})


# ---- The command, its files, and what reads them ----

OPTIMIZATION = {"checkpoint_every": 4, "learning_rate_factor": 1.0, "warmup_steps": 10}


def adapt(base, corpus, model_dir, steps=8, lora=None, translate_every=0, **more):
    given = {"optimization": OPTIMIZATION | {"steps": steps} | more, "data": {"batch_tokens": 512}}
    given |= {
        "validation": {"translate_every": translate_every, "sentences": 2, "beam_size": 1},
        "lora": {"rank": 3, "alpha": 6.0} | (lora or {}),
    }
    config = config_like(base, given)
    return train(config, model_dir=model_dir, start=Start(base), **corpus.arguments)


@pytest.fixture(scope="module")
def tuned(untraced_training, talkative, corpus, tmp_path_factory):
    """A model directory with an adapter of `talkative`; tests only read it."""
    model_dir = tmp_path_factory.mktemp("tuned") / "model"
    adapt(talkative, corpus, model_dir, translate_every=1)
    return model_dir


def weights_of(model_dir, adapter=None):
    return plain_arrays(load_model(model_dir, adapter=adapter)[0])


def sentences(corpus):
    return [line.strip() for line in open(corpus.path("validation.en"), encoding="utf-8")][:12]


@pytest.mark.slow
def test_the_model_is_the_merged_one(talkative, tuned):
    first, merged = weights_of(talkative), weights_of(tuned)
    with h5py.File(tuned / ADAPTER_NAME) as file:
        assert file.attrs["alpha"] == 6.0
        assert file.attrs["base_digest"].decode() == weights_digest(talkative)
        for name, value in first.items():
            layer = name.removesuffix("/kernel")
            update = 0.0
            if layer != name:
                a, b = (file[f"{layer}/lora_kernel_{part}"][()] for part in "ab")
                assert a.shape[1] == b.shape[0] == 3 and b.any()
                update = 2.0 * a @ b
            np.testing.assert_allclose(merged[name], value + update, rtol=1e-5, atol=1e-6)
    assert (tuned / ADAPTER_NAME).stat().st_size < (tuned / "model.weights.h5").stat().st_size
    assert not (tuned / "initial").exists()


@pytest.mark.slow
def test_the_file_adapts_the_base(talkative, tuned, corpus, tmp_path, capsys):
    """In Python, in `evaluate`, and in `translate` in int8, as the merged model does."""
    adapter = str(tuned / ADAPTER_NAME)
    lines = sentences(corpus)
    merged = weights_of(tuned)
    adapted = weights_of(talkative, read_adapter(tuned / ADAPTER_NAME, read_config(talkative)))
    assert merged.keys() == adapted.keys()
    for name, value in merged.items():
        np.testing.assert_allclose(adapted[name], value, rtol=1e-5, atol=1e-6)
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in lines))
    outputs = []
    for number, model in enumerate(([tuned], [talkative, "--adapter", adapter])):
        out = tmp_path / f"{number}.out"
        options = ["--input", tmp_path / "in", "--output", out, "--dtype", "int8"]
        options += ["--beam-size", "1"]
        assert main(["translate", "--model-dir", *map(str, [*model, *options])]) == 0
        outputs.append(out.read_text())
    assert outputs[0] == outputs[1]
    # The digest is that of the adapted model, so that scores and resumed outputs are not mixed up.
    one, both = TrainedModels((talkative,)), TrainedModels((talkative,), None, tuned / ADAPTER_NAME)
    assert one.digest() == weights_digest(talkative) != both.digest()
    base = shutil.copytree(talkative, tmp_path / "base")
    pair = ["--source", corpus.path("validation.en"), "--reference", corpus.path("validation.de")]
    for number, model in enumerate(([tuned], [base, "--adapter", adapter])):
        scores = str(tmp_path / f"{number}.json")
        command = ["evaluate", "--model-dir", *map(str, model), *pair, "--json", scores]
        command += ["--beam-size", "1"]
        assert main(command) == 0
    first, second = (json.loads((tmp_path / f"{number}.json").read_text()) for number in (0, 1))
    assert first["bleu"] == second["bleu"]
    assert first["perplexity"] == pytest.approx(second["perplexity"], rel=1e-4)


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("average", [None, 0.9])
def test_resumed_equals_uninterrupted(talkative, tuned, corpus, tmp_path, average):
    more = {} if average is None else {"average_decay": average}
    if average is None:
        shutil.copytree(tuned, tmp_path / "once")
    else:
        adapt(talkative, corpus, tmp_path / "once", **more)
    for steps in (3, 8):
        adapt(talkative, corpus, tmp_path / "resumed", steps, **more)
    once, resumed = (
        read_adapter(tmp_path / name / ADAPTER_NAME, read_config(tmp_path / name))
        for name in ("once", "resumed")
    )
    assert once.base_digest == resumed.base_digest == weights_digest(talkative)
    for name, value in once.arrays.items():
        np.testing.assert_allclose(resumed.arrays[name], value, atol=1e-5)
    # `average` of one checkpoint is the model itself, and keeps the adapter of that base.
    before = weights_of(tmp_path / "once")
    assert main(["average", "--model-dir", str(tmp_path / "once"), "--last", "1"]) == 0
    for name, value in weights_of(tmp_path / "once").items():
        np.testing.assert_array_equal(value, before[name])
    assert main(["average", "--model-dir", str(tmp_path / "once"), "--last", "2"]) == 0
    averaged = read_adapter(tmp_path / "once" / ADAPTER_NAME, read_config(talkative))
    assert averaged.base_digest == once.base_digest
    loaded = weights_of(talkative, averaged)
    for name, value in weights_of(tmp_path / "once").items():
        np.testing.assert_allclose(loaded[name], value, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match=r"was trained with lora.rank=3 \(--lora\); received 4"):
        adapt(talkative, corpus, tmp_path / "once", lora={"rank": 4}, **more)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_two_devices_are_one(talkative, corpus, tmp_path):
    """Processes of their own: the number of devices is fixed once TensorFlow has started."""
    settings = [f"optimization.{name}={value}" for name, value in OPTIMIZATION.items()]
    settings += ["data.batch_tokens=512", "validation.translate_every=0", "model.dropout_rate=0"]
    for devices in (1, 2):
        command = ["train", *corpus.options, "--model-dir", str(tmp_path / str(devices))]
        command += ["--init-from", str(talkative), "--lora", "2", "--lora-targets", "*attention/*"]
        command += ["--steps", "4", "--devices", str(devices), "--set", *settings]
        done = subprocess.run(
            [sys.executable, "-m", "tf_transformer", *command], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-2000:]
    one, two = (
        read_adapter(tmp_path / name / ADAPTER_NAME, read_config(talkative)) for name in "12"
    )
    assert len(one.layers) == 7 and one.base_digest == two.base_digest
    for name, value in one.arrays.items():
        # Adam's first updates have the size of the learning rate whatever the gradient's.
        np.testing.assert_allclose(two.arrays[name], value, atol=2e-4)
    assert max(np.abs(one.arrays[name]).max() for name in one.arrays if name.endswith("_b")) > 1e-3


@pytest.mark.exhaustive
@pytest.mark.slow
def test_adapters_of_adapted_models(tuned, corpus, tmp_path):
    """The merged model is a model like any other, also to adapt again or to train on."""
    adapt(tuned, corpus, tmp_path / "twice", steps=4, lora={"targets": ["decoder/*"]})
    adapter = read_adapter(tmp_path / "twice" / ADAPTER_NAME, read_config(tuned))
    assert adapter.base_digest == weights_digest(tuned)
    assert all(name.startswith("decoder/") for name in adapter.layers)


@pytest.mark.slow
def test_checkpoints_of_another_run_are_no_adapters(tuned, trained, tmp_path, capsys):
    model_dir = shutil.copytree(tuned, tmp_path / "model")
    for path in (model_dir / "checkpoints").iterdir():
        path.unlink()
    step = checkpoint_paths(trained / "checkpoints")[-1]
    for suffix in (".index", ".data-00000-of-00001"):
        shutil.copy(step + suffix, model_dir / "checkpoints")
    assert main(["average", "--model-dir", str(model_dir), "--last", "1"]) == 2
    assert "damaged, or of another model" in capsys.readouterr().err


def test_lora_needs_a_model(corpus, tmp_path, capsys):
    command = ["train", *corpus.options, "--model-dir", str(tmp_path / "m"), "--lora", "4"]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert "give it as --init-from" in error and error.count("\n") == 1
    with pytest.raises(ValueError, match="give it as --init-from"):
        train(small_config(lora__rank=2), model_dir=tmp_path / "m", **corpus.arguments)
    assert not (tmp_path / "m").exists()


@pytest.mark.slow
def test_saved_models_are_merged(tmp_path):
    model = randomized(TrainableTransformer(CONFIG), alpha=3.0)
    inputs, _ = batch()
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded) is Transformer and len(loaded.weights) == len(base_weights(model))
    np.testing.assert_allclose(loaded(inputs), model(inputs), rtol=1e-3, atol=1e-4)


# ---- Files that are refused ----


@pytest.fixture
def base(tmp_path):
    """A model directory of random weights, an adapter for it, and its file."""
    directory = tmp_path / "base"
    directory.mkdir()
    model = randomized(Transformer(CONFIG), names=["encoder/layer_0/feed_forward/inner"])
    write_adapter(directory / ADAPTER_NAME, model)
    return directory / ADAPTER_NAME


LAYER = "encoder/layer_0/feed_forward/inner"


def replaced(name, value):
    def change(file):
        del file[name]
        file[name] = value

    return change


def attribute(name, value):
    return lambda file: file.attrs.__setitem__(name, value)


def enlarge(file):
    """Makes a rank of 60,000 out of datasets that are not stored."""
    for part, shape in (("a", (8, 60_000)), ("b", (60_000, 16))):
        del file[f"{LAYER}/lora_kernel_{part}"]
        file.create_dataset(f"{LAYER}/lora_kernel_{part}", shape, "float32")


def link(file):
    del file[f"{LAYER}/lora_kernel_a"]
    file[f"{LAYER}/lora_kernel_a"] = h5py.ExternalLink("/etc/hostname", "x")


def test_large_weights_are_adapted_in_parts(base):
    adapter = read_adapter(base, CONFIG)
    kernel = np.random.default_rng(3).normal(size=(8, 16)).astype("float32")
    a, b = (adapter.arrays[f"{LAYER}/{part}"] for part in PARTS)
    expected = kernel + adapter.alpha / 2 * a @ b
    parts = [kernel[:3], kernel[3:4], kernel[4:]]
    found = np.concatenate(list(adapter.added_to(f"{LAYER}/kernel", iter(parts))))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert not np.allclose(expected, kernel)
    for name in (f"{LAYER}/bias", LAYER, "encoder/layer_0/feed_forward/outer/kernel"):
        unchanged = np.concatenate(list(adapter.added_to(name, iter(parts))))
        np.testing.assert_array_equal(unchanged, kernel)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (replaced(f"{LAYER}/lora_kernel_b", np.zeros((2, 15), "f4")), r"shape \(2, 15\), not"),
        (replaced(f"{LAYER}/lora_kernel_a", np.zeros((8, 3), "f4")), r"shape \(2, 16\), not"),
        (replaced(f"{LAYER}/lora_kernel_a", np.zeros((8, 2), "f8")), "the type float64"),
        (replaced(f"{LAYER}/lora_kernel_a", np.full((8, 2), np.nan, "f4")), "NaN or infinite"),
        (replaced(f"{LAYER}/lora_kernel_a", np.zeros((8,), "f4")), "got a rank of 0"),
        (replaced(f"{LAYER}/lora_kernel_a", np.zeros((8, 70_000), "f4")), "got a rank of 70000"),
        (lambda file: file.pop(f"{LAYER}/lora_kernel_b"), "lora_kernel_b is missing"),
        (lambda file: file.pop("encoder"), "got a rank of 0"),
        (lambda file: file.create_dataset("code", data=[1.0]), "'code' is not in this model"),
        (lambda file: file.create_dataset(f"{LAYER}/kernel", data=[1.0]), "is not in this model"),
        (enlarge, "compressed, incomplete or in another file"),
        (link, "is a link to another name or file"),
        (attribute("alpha", "x" * 10_000), "alpha has the type object"),
        (attribute("alpha", np.zeros(9)), r"alpha has the type float64 and the shape \(9,\)"),
        (attribute("alpha", np.inf), "expected an alpha above 0 to 1,048,576, got inf"),
        (attribute("alpha", np.nan), "expected an alpha above 0 to 1,048,576, got nan"),
        (attribute("alpha", 1e300), "expected an alpha above 0 to 1,048,576, got 1e\\+300"),
        (attribute("alpha", -1.0), "expected an alpha above 0 to 1,048,576, got -1"),
        (attribute("base_digest", np.bytes_(b"0" * 31)), "base_digest has the type"),
        (attribute("base_digest", np.bytes_(b"Z" * 32)), "base_digest is not a digest"),
        (attribute("format_version", np.int64(2)), "reads adapters of format 1, got format 2"),
        (attribute("more", 1), "attribute 'more' is unknown"),
        (lambda file: file.attrs.__delitem__("alpha"), "alpha"),
        (lambda file: file.attrs.clear(), "no adapter of `train --lora`"),
    ],
)
def test_files_that_are_refused(base, change, message):
    content = base.read_bytes()
    base.unlink()
    base.write_bytes(content)
    read_adapter(base, CONFIG)
    with h5py.File(base, "r+") as file:
        change(file)
    with pytest.raises(ValueError, match=rf"{re.escape(str(base))}: .*{message}") as raised:
        read_adapter(base, CONFIG)
    assert "\n" not in str(raised.value)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "a.h5"
    with pytest.raises(ValueError, match="no such file"):
        read_adapter(path, CONFIG)
    path.mkdir()
    with pytest.raises(ValueError, match="expected a regular file, got a folder"):
        read_adapter(path, CONFIG)
    path.rmdir()
    path.write_bytes(b"\x80\x04\x95pickle.")
    with pytest.raises(ValueError, match=r"a.h5: damaged, or of another model"):
        read_adapter(path, CONFIG)


@pytest.mark.slow
def test_another_base_is_refused(trained, tmp_path, capsys):
    """By its digest, though the shapes fit; in one line, before TensorFlow is needed."""
    model = load_model(trained)[0]
    assert model_digest(model) == weights_digest(trained)
    enable_lora(model, 2, ["encoder/layer_0/feed_forward/inner"])
    assert model_digest(model) == weights_digest(trained)
    write_adapter(tmp_path / "a.h5", model)
    other = shutil.copytree(trained, tmp_path / "other")
    weight = base_weights(model)["encoder/layer_0/feed_forward/outer/kernel"]
    weight.assign(weight * 1.001)
    write_model_weights(other / "model.weights.h5", model)
    (tmp_path / "in").write_text("a man\n")
    options = ["--adapter", str(tmp_path / "a.h5"), "--input", str(tmp_path / "in")]
    assert main(["translate", "--model-dir", str(other), *options]) == 2
    error = capsys.readouterr().err
    assert "adapts the model with the weights digest" in error and error.count("\n") == 1
    assert main(["translate", "--model-dir", str(trained), str(trained), *options]) == 2
    assert "an adapter belongs to one model" in capsys.readouterr().err
    assert main(["translate", "--server", "localhost:1", *options]) == 2
    assert "--adapter is valid only with --model-dir" in capsys.readouterr().err

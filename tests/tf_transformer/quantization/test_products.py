"""Other products in place of float ones: 8-bit integers, and tiles of the weights."""

import collections
import functools
import json
import math

import keras
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from tests.stepping import step_by_step
from tf_transformer import LanguageModel, Transformer, TransformerConfig
from tf_transformer.__main__ import main
from tf_transformer.inference.translator import Translator
from tf_transformer.layers.dense import Projection
from tf_transformer.private_interfaces import sublayers
from tf_transformer.quantization import int8
from tf_transformer.quantization.int8 import check_kernels, is_quantized, quantize
from tf_transformer.quantization.int8_layers import Int8Embedding, Int8Product
from tf_transformer.quantization.tiled_matmul import (
    TiledProduct,
    TransposedProduct,
    arrange_weights,
)
from tf_transformer.storage.model_dir import load_for_decoding, prepare_for_decoding


def int8_reference(inputs, kernel, bias):
    """The scheme in whole numbers, row by row and column by column."""
    outputs = np.zeros((len(inputs), kernel.shape[1]))
    for column, weights in enumerate(kernel.T.astype("float64")):
        step = np.abs(weights).max() / 64 or 1
        whole_weights = np.rint(weights / step).astype(int)
        for row, values in enumerate(inputs.astype("float64")):
            width = np.abs(values).max() / 127 or 1
            whole_values = np.floor(values / width + 0.5).astype(int)
            product = sum(int(a) * int(b) for a, b in zip(whole_values, whole_weights, strict=True))
            outputs[row, column] = product * step * width + bias[column]
    return outputs


@pytest.fixture
def rng():
    return np.random.default_rng(1)


@pytest.fixture
def sentences(corpus):
    return (corpus.directory / "test.en").read_text(encoding="utf-8").splitlines()[:40]


@pytest.fixture
def arrays(rng):
    """Inputs, kernel and bias, with rows and columns of very different sizes, and of zeros."""
    inputs = rng.normal(size=(5, 24)) * np.array([1, 1e-6, 0, 1e6, 1])[:, np.newaxis]
    kernel = rng.normal(size=(24, 9)) * np.array([1, 1e-4, 0, 1e4, 1, 1, 1, 1, 1])
    return [array.astype("float32") for array in (inputs, kernel, rng.normal(size=9))]


def test_int8_computes_its_equation(arrays):
    found = Int8Product(*arrays[1:])(arrays[0]).numpy()
    expected = int8_reference(*arrays)
    assert np.isfinite(found).all()
    # One unit of rounding, where float32 decides otherwise, would be a hundredth.
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)


def test_int8_is_near_the_float_product(rng):
    inputs, kernel = rng.normal(size=(64, 512)), rng.normal(size=(512, 256))
    found = Int8Product(kernel)(inputs.astype("float32")).numpy()
    error = np.linalg.norm(found - inputs @ kernel) / np.linalg.norm(inputs @ kernel)
    assert 0.001 < error < 0.02


def test_the_largest_int8_sums_are_exact():
    """Kernels without VNNI instructions cut sums of two products off at 2^15."""
    inputs, kernel = np.ones((3, 64), "float32"), np.ones((64, 32), "float32")
    np.testing.assert_allclose(Int8Product(kernel)(inputs).numpy(), inputs @ kernel, rtol=1e-6)


def test_an_int8_row_does_not_depend_on_the_others(rng):
    product = Int8Product(rng.normal(size=(64, 128)))
    rows = (rng.normal(size=(32, 64)) * 10.0 ** rng.integers(-3, 4, (32, 1))).astype("float32")
    together = product(rows).numpy()
    np.testing.assert_array_equal(together[7:9], product(rows[7:9]).numpy())
    np.testing.assert_array_equal(together[::-1], product(rows[::-1]).numpy())
    np.testing.assert_array_equal(
        together.reshape(4, 8, 128), product(rows.reshape(4, 8, 64)).numpy()
    )


def test_int8_in_a_graph_is_the_same_with_weights_of_several_layers(arrays, rng):
    """The kernel keeps its packed weights: each layer needs its own."""
    products = [Int8Product(arrays[1] * size, arrays[2]) for size in (1, 3)]
    together = tf.function(lambda x: [product(x) for product in products])
    for inputs in (arrays[0], arrays[0][:2], rng.normal(size=(40, 24)).astype("float32")):
        for found, product in zip(together(inputs), products, strict=True):
            np.testing.assert_allclose(found, product(inputs), rtol=1e-6, atol=1e-7)


def test_missing_kernels_are_one_clear_error(monkeypatch):
    def missing(*_):
        raise tf.errors.NotFoundError(None, None, "no kernel")

    monkeypatch.setattr(Int8Product, "__call__", missing)
    check_kernels.cache_clear()
    with pytest.raises(ValueError, match="int8 needs TensorFlow's oneDNN kernels"):
        quantize(None)


def test_wrong_kernels_are_one_clear_error(monkeypatch):
    monkeypatch.setattr(Int8Product, "__call__", lambda *_: tf.zeros((3, 48)))
    check_kernels.cache_clear()
    with pytest.raises(ValueError, match="give wrong results"):
        quantize(None)


def test_a_gpu_is_one_clear_error(monkeypatch):
    monkeypatch.setattr("tf_transformer.quantization.int8.has_gpu", lambda: True)
    with pytest.raises(ValueError, match=r"int8 needs the CPU.*CUDA_VISIBLE_DEVICES=-1") as raised:
        quantize(None)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("width", [192, 200, 70])
@pytest.mark.parametrize("shape", [(7, 24), (2, 3, 24)])
def test_tiles_are_the_same_product(rng, shape, width):
    kernel, bias = rng.normal(size=(24, width)), rng.normal(size=width)
    inputs = rng.normal(size=shape).astype("float32")
    np.testing.assert_allclose(
        TiledProduct(kernel, bias)(inputs), inputs @ kernel + bias, atol=1e-5
    )
    np.testing.assert_allclose(TiledProduct(kernel)(inputs), inputs @ kernel, atol=1e-5)
    rows = tf.TensorSpec((None, *shape[1:]))
    graph = tf.function(TiledProduct(kernel), input_signature=[rows]).get_concrete_function()
    assert graph.structured_outputs.shape[-1] == width  # the search needs it
    # The inputs have a static number of rows, and are copied; not those of a graph.
    assert "Tile" not in {operation.type for operation in graph.graph.get_operations()}
    np.testing.assert_allclose(graph(inputs), inputs @ kernel, atol=1e-5)
    half = TiledProduct(kernel.astype(ml_dtypes.bfloat16), dtype="bfloat16")
    assert half(inputs).dtype == tf.bfloat16
    np.testing.assert_allclose(tf.cast(half(inputs), tf.float32), inputs @ kernel, atol=0.3)


LARGE = dict(
    source_vocab_size=640,
    target_vocab_size=640,
    num_encoder_layers=1,
    num_decoder_layers=1,
    d_model=512,
    d_ff=576,
    num_heads=8,
    max_length=16,
)
SOURCE = np.array([[5, 6, 7, 3], [9, 3, 0, 0]])
TARGET = np.array([[2, 11, 12], [2, 13, 14]])


def logits_of(model):
    if isinstance(model, LanguageModel):
        return model({"target": TARGET}).numpy()
    return model({"source": SOURCE, "target": TARGET}).numpy()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "num_tiled"),
    [
        ({}, 12),
        ({"source_vocab_size": 700, "target_vocab_size": 700}, 12),
        ({"tied_embeddings": "none"}, 12),
        ({"decoder_only": True, "source_vocab_size": None}, 5),
        ({"decoder_autoregression": "ssru"}, 11),
    ],
    ids=["tied", "a vocabulary of any size", "untied", "language model", "ssru"],
)
def test_a_model_in_tiles_computes_the_same(settings, num_tiled):
    config = TransformerConfig(**(LARGE | settings))
    model = (LanguageModel if config.decoder_only else Transformer)(config)
    logits, num_weights = logits_of(model), len(model.weights)
    arrange_weights(model, tiled=True)
    tiled = [layer for layer in model._flatten_layers() if isinstance(layer, TiledProduct)]
    assert len(tiled) == num_tiled
    assert len(model.weights) == num_weights + config.logits_tied
    np.testing.assert_allclose(logits_of(model), logits, rtol=1e-5, atol=1e-5)
    source = None if config.decoder_only else SOURCE
    np.testing.assert_allclose(
        step_by_step(model, source, TARGET)[:, 0], logits, rtol=1e-5, atol=1e-5
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("has_gpu", "for_gpu", "has_avx512", "num_tiled", "num_transposed"),
    [
        (False, None, True, 12, 0),
        (False, None, False, 0, 1),
        (True, None, True, 0, 0),
        (True, False, True, 12, 0),
        (True, False, False, 0, 1),
        (False, True, True, 0, 0),
    ],
)
def test_weights_are_arranged_for_the_processor(
    monkeypatch, has_gpu, for_gpu, has_avx512, num_tiled, num_transposed
):
    monkeypatch.setattr("tf_transformer.backend.has_gpu", lambda: has_gpu)
    monkeypatch.setattr(f"{arrange_weights.__module__}.has_avx512", lambda: has_avx512)
    model = Transformer(TransformerConfig(**LARGE))
    prepare_for_decoding(model, "float32", for_gpu=for_gpu)
    found = collections.Counter(map(type, model._flatten_layers()))
    assert (found[TiledProduct], found[TransposedProduct]) == (num_tiled, num_transposed)


def test_small_products_stay_as_they_are():
    model = Transformer(TransformerConfig(**(LARGE | {"d_model": 64, "d_ff": 128})))
    arrange_weights(model, tiled=True)
    assert not any(isinstance(layer, TiledProduct) for layer in model._flatten_layers())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tied", "autoregression"),
    [(True, "self_attention"), (False, "self_attention"), (True, "ssru")],
)
def test_a_quantized_model_computes_nearly_the_same(tied, autoregression):
    settings = {
        "tied_embeddings": "all" if tied else "none",
        "decoder_autoregression": autoregression,
    }
    config = TransformerConfig(**(LARGE | settings))
    keras.utils.set_random_seed(1)
    model = Transformer(config)
    logits = logits_of(model)
    quantize(model)
    layers = [layer for layer in model._flatten_layers() if isinstance(layer, Projection)]
    assert all("int8" in {weight.dtype for weight in layer.weights} for layer in layers)
    assert not any(weight.path.endswith("query/kernel") for weight in model.weights)
    products = [layer for layer in model._flatten_layers() if isinstance(layer, Int8Product)]
    embeddings = [layer for layer in products if isinstance(layer, Int8Embedding)]
    assert len(embeddings) == (1 if tied else 2)
    assert len(products) == len(layers) + len(embeddings)
    assert not any(weight.path.endswith("embeddings") for weight in model.weights)
    assert is_quantized(model)
    error = np.linalg.norm(logits_of(model) - logits) / np.linalg.norm(logits)
    assert 0.001 < error < 0.05
    stepped = step_by_step(model, SOURCE, TARGET)[:, 0]
    # A last bit can decide a rounding.
    np.testing.assert_allclose(stepped, logits_of(model), atol=0.02 * np.std(logits))


@pytest.mark.slow
def test_int8_translates_and_is_exported_once(unverified, talkative, sentences, tmp_path):
    translator = Translator(*load_for_decoding(talkative, "int8"))
    expected = translator.translate(tf.constant(sentences))
    command = ["export", "--model-dir", str(talkative), "--output", str(tmp_path / "served")]
    command += ["--dtype", "int8", "--signatures", "serving_default", "score"]
    assert main(command) == 0
    version = tmp_path / "served" / "1"
    assert json.loads((version / "model.json").read_text())["dtype"] == "int8"
    served = tf.saved_model.load(version).signatures["serving_default"](tf.constant(sentences))
    assert (served["translation"] == expected.text[:, 0]).numpy().all()
    content = (version / "variables" / "variables.data-00000-of-00001").read_bytes()
    model = translator.model
    products = [layer for layer in model._flatten_layers() if isinstance(layer, Int8Product)]
    for product in products:
        assert content.count(product.kernel.numpy().tobytes()) == 1
    assert len(content) < 1.05 * sum(weight.numpy().nbytes for weight in model.weights) + 50_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "arrange", [functools.partial(arrange_weights, tiled=True), quantize], ids=["tiled", "int8"]
)
def test_what_is_replaced_is_not_saved(arrange, tmp_path):
    model = Transformer(TransformerConfig(**LARGE))
    arrange(model)
    tf.train.Checkpoint(model=model).write(tmp_path / "saved")
    saved = (tmp_path / "saved.data-00000-of-00001").stat().st_size
    assert saved < 1.02 * sum(weight.numpy().nbytes for weight in model.weights)


@pytest.mark.slow
def test_keras_does_not_save_what_is_quantized(tmp_path):
    model = Transformer(TransformerConfig(**LARGE))
    quantize(model)
    for save, name in ((model.save, "model.keras"), (model.save_weights, "model.weights.h5")):
        with pytest.raises(ValueError, match=r"8-bit products cannot be saved.*--dtype int8"):
            save(tmp_path / name)
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
def test_small_matrices_stay_float32(monkeypatch):
    """They are faster so; the largest ones are still quantized."""
    model = Transformer(TransformerConfig(**LARGE))
    logits = logits_of(model)
    largest = max(math.prod(weight.shape) for weight in model.weights)
    monkeypatch.setattr(int8, "FEWEST_WEIGHTS", largest)
    prepare_for_decoding(model, "int8")
    sizes = {"int8": 0, "float32": 0}
    for weight in model.weights:
        sizes[weight.dtype] = max(sizes[weight.dtype], math.prod(weight.shape))
    assert sizes["float32"] < sizes["int8"] == largest
    error = np.linalg.norm(logits_of(model) - logits) / np.linalg.norm(logits)
    assert 0 < error < 0.05
    model = Transformer(TransformerConfig(**LARGE))
    monkeypatch.setattr(int8, "FEWEST_WEIGHTS", largest + 1)
    prepare_for_decoding(model, "int8")
    assert not is_quantized(model)


@pytest.mark.slow
def test_narrow_matrices_stay_float32(monkeypatch):
    """A product with few inputs has too little to gain for each output."""
    monkeypatch.setattr(int8, "FEWEST_INPUTS", 256)
    model = Transformer(TransformerConfig(**(LARGE | dict(d_model=128, d_ff=256))))
    quantize(model)
    kernels = {layer.kernel.shape for layer in sublayers(model) if isinstance(layer, Int8Product)}
    assert kernels == {(256, 128)}  # not the embedding, (640, 128)
    assert not any(isinstance(layer, Int8Embedding) for layer in sublayers(model))


@pytest.mark.slow
def test_export_says_if_no_matrix_is_large(unverified, talkative, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(int8, "FEWEST_WEIGHTS", 2**18)
    command = [
        "export",
        "--model-dir",
        str(talkative),
        "--output",
        str(tmp_path),
        "--dtype",
        "int8",
    ]
    assert main([*command, "--signatures", "tokens"]) == 0
    assert "no matrix of this model has 262,144 weights or more" in capsys.readouterr().err
    assert json.loads((tmp_path / "1" / "model.json").read_text())["dtype"] == "float32"

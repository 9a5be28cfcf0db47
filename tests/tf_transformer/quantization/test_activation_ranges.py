"""Counts of activations, and the ranges that follow from them."""

import numpy as np
import pytest
import tensorflow as tf

from tests.stepping import step_by_step
from tf_transformer import Transformer, TransformerConfig
from tf_transformer.layers.dense import Projection
from tf_transformer.quantization.activation_ranges import (
    MagnitudeCounts,
    observed_inputs,
    products_of,
)
from tf_transformer.quantization.int8 import quantize
from tf_transformer.quantization.int8_layers import Int8Product


def counts_of(*arrays):
    counts = MagnitudeCounts()
    for array in arrays:
        counts.add(tf.constant(array, tf.float32))
    return counts


@pytest.fixture
def values():
    rng = np.random.default_rng(2)
    return (rng.normal(size=5000) * 10.0 ** rng.integers(-6, 7, 5000)).astype("float32")


@pytest.mark.parametrize("percentile", [0.01, 1, 50, 99, 99.9, 99.99, 100])
def test_a_percentile_is_that_of_numpy(values, percentile):
    zeros = np.zeros(70_000)
    exact = np.quantile(np.abs(values), percentile / 100, method="inverted_cdf")
    found = counts_of(zeros, values).percentile(percentile)
    assert exact < found <= exact * (1 + 1 / 128) * (1 + 1e-6)


def test_the_order_does_not_matter(values):
    expected = counts_of(values).percentile(99)
    parts = np.split(np.sort(values)[::-1].reshape(50, 100), 5)
    assert counts_of(*(-part for part in parts)).percentile(99) == expected


def test_extreme_values():
    assert counts_of().percentile(50) == 1
    assert counts_of([0.0, -0.0]).percentile(100) == 1
    largest = float(np.finfo("float32").max)
    assert counts_of([largest, -largest]).percentile(100) == largest
    assert 0 < counts_of([1e-30]).percentile(100) < 1.01e-30


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, -np.nan])
def test_values_that_are_not_finite_are_an_error(value):
    with pytest.raises(ValueError, match="activations of the model are not finite"):
        counts_of([1.0, value]).percentile(50)


def test_counts_in_a_loop():
    counts = MagnitudeCounts()

    @tf.function(autograph=False)
    def run(values):
        def step(index, rows):
            counts.add(rows)
            return index + 1, rows * 2

        return tf.while_loop(lambda index, _: index < 3, step, (0, values))[1]

    run(tf.constant([1.0, 3.0]))
    found = [counts.percentile(100 * rank / 6) for rank in range(1, 7)]
    np.testing.assert_allclose(found, [1, 2, 3, 4, 6, 12], rtol=1 / 128)


SOURCE = np.array([[5, 6, 7, 3], [9, 3, 0, 0]])
TARGET = np.array([[2, 11, 12], [2, 13, 14]])


def small_model(**changes):
    settings = dict(
        source_vocab_size=40,
        target_vocab_size=40,
        num_encoder_layers=1,
        num_decoder_layers=1,
        d_model=16,
        d_ff=32,
        num_heads=2,
        max_length=16,
    )
    return Transformer(TransformerConfig(**(settings | changes)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tied_embeddings": "none"},
        {"decoder_autoregression": "ssru"},
        {"activation": "swiglu", "logits_bias": True},
    ],
    ids=["tied", "untied", "ssru", "gated"],
)
def test_every_product_is_observed_and_nothing_else_changes(changes):
    model = small_model(**changes)
    expected = step_by_step(model, SOURCE, TARGET)
    with observed_inputs(model) as counts:
        np.testing.assert_array_equal(step_by_step(model, SOURCE, TARGET), expected)
    assert list(counts) == products_of(model)
    assert all(count.percentile(100) > 0 for count in counts.values())
    assert all(count._counts.numpy().sum() > 0 for count in counts.values())
    assert all(layer.product is None for layer in counts)
    np.testing.assert_array_equal(step_by_step(model, SOURCE, TARGET), expected)
    quantize(model, {layer: count.percentile(100) for layer, count in counts.items()})
    products = [x for x in model._flatten_layers() if isinstance(x, Int8Product)]
    # The embeddings of an untied model only look up.
    num_static = sum(product.input_range is not None for product in products)
    assert num_static == len(counts)
    found = step_by_step(model, SOURCE, TARGET)
    assert np.linalg.norm(found - expected) / np.linalg.norm(expected) < 0.05


def test_the_counts_are_those_of_the_inputs():
    model = small_model()
    inner = next(x for x in model._flatten_layers() if x.name == "inner")
    assert isinstance(inner, Projection)
    inputs = np.random.default_rng(3).normal(size=(3, 5, 16)).astype("float32")
    with observed_inputs(model) as counts:
        inner(inputs)
    assert counts[inner]._counts.numpy().sum() == inputs.size
    largest = np.abs(inputs).max()
    assert largest < counts[inner].percentile(100) <= largest * (1 + 1 / 128)


def test_the_products_are_restored_after_an_error():
    model = small_model()
    with pytest.raises(KeyError), observed_inputs(model):
        raise KeyError
    assert all(layer.product is None for layer in products_of(model))

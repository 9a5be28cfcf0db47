"""8-bit products whose inputs have a constant scale, and embeddings in 8 bits."""

import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.layers.embedding import TokenEmbedding
from tf_transformer.quantization.int8_kernels import multiply
from tf_transformer.quantization.int8_layers import Int8Embedding, Int8Product

RANGE = 2.5


def integers_of(inputs, input_range):
    """round(clip(x, -r, r) 127 / r) as Python computes it, half to even, in float32."""
    scale = np.float32(127) / np.float32(input_range)
    limit = np.float32(input_range)
    return [
        [round(float(np.float32(min(max(x, -limit), limit) * scale))) for x in row]
        for row in np.asarray(inputs, "float32")
    ]


def static_reference(inputs, kernel, bias, input_range):
    """The scheme in whole numbers, element by element."""
    outputs = np.zeros((len(inputs), kernel.shape[1]))
    for row, whole_values in enumerate(integers_of(inputs, input_range)):
        for column, weights in enumerate(kernel.T.astype("float64")):
            step = np.abs(weights).max() / 64 or 1
            whole_weights = np.rint(weights / step).astype(int).tolist()
            product = sum(a * b for a, b in zip(whole_values, whole_weights, strict=True))
            outputs[row, column] = product * step * input_range / 127 + bias[column]
    return outputs


@pytest.fixture
def rng():
    return np.random.default_rng(1)


@pytest.fixture
def arrays(rng):
    """Inputs within and beyond the range, a kernel with columns of very different sizes, a bias."""
    inputs = rng.normal(size=(7, 24)) * np.array([1, 1e-6, 0, 1e6, 1, 1, 3])[:, np.newaxis]
    inputs[4] = (np.arange(24) - 12 + 0.5) * RANGE / 127  # halves are rounded to even
    kernel = rng.normal(size=(24, 9)) * np.array([1, 1e-4, 0, 1e4, 1, 1, 1, 1, 1])
    return [array.astype("float32") for array in (inputs, kernel, rng.normal(size=9))]


def test_a_static_product_computes_its_equation(arrays):
    inputs, kernel, bias = arrays
    expected = static_reference(inputs, kernel, bias, RANGE)
    found = Int8Product(kernel, bias, RANGE)(inputs).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-5)
    found = Int8Product(kernel, None, RANGE)(inputs).numpy()
    np.testing.assert_allclose(found, expected - bias, rtol=1e-6, atol=1e-5)


def test_the_integers_are_exact(rng):
    """With the identity as W, the outputs are the integers of x."""
    inputs = (rng.normal(size=(64, 32)) * 2).astype("float32")
    # Weights of 64 / 127, which are the integer 64, and a range of 127, give integers times 64.
    product = Int8Product(np.eye(32) / 64, None, RANGE)
    found = product(inputs).numpy() * 64 * 127 / RANGE
    np.testing.assert_allclose(found, integers_of(inputs, RANGE), atol=1e-4)


def test_what_exceeds_the_range_is_clipped(arrays):
    _, kernel, bias = arrays
    product = Int8Product(kernel, bias, RANGE)
    signs = np.where(np.arange(24) % 3, 1, -1).astype("float32")
    expected = product(signs * [[RANGE]]).numpy()
    for size in (RANGE * 1.001, 1e3, 3e38, np.inf):
        np.testing.assert_array_equal(product(signs * [[np.float32(size)]]), expected)
    np.testing.assert_array_equal(product(np.full((1, 24), np.nan, "float32"))[0], bias)


def test_a_static_row_does_not_depend_on_the_others(rng):
    product = Int8Product(rng.normal(size=(64, 128)), rng.normal(size=128), RANGE)
    graph = tf.function(product, input_signature=[tf.TensorSpec((None, 64))], autograph=False)
    rows = (rng.normal(size=(32, 64)) * 10.0 ** rng.integers(-3, 4, (32, 1))).astype("float32")
    together = product(rows).numpy()
    for compute in (product, graph):
        np.testing.assert_array_equal(compute(rows), together)
        np.testing.assert_array_equal(compute(rows[::-1])[::-1], together)
        for start, size in ((0, 1), (7, 2), (9, 5)):
            found = compute(rows[start : start + size])
            np.testing.assert_array_equal(found, together[start : start + size])
    np.testing.assert_array_equal(
        product(rows.reshape(4, 8, 64)).numpy(), together.reshape(4, 8, 128)
    )


@pytest.mark.slow
def test_eager_graph_and_saved_model_give_the_same_bits(arrays, tmp_path):
    inputs, kernel, bias = arrays
    module = tf.Module()
    module.products = [
        Int8Product(kernel, bias, RANGE),
        Int8Product(kernel * 3, None, RANGE),
        Int8Product(kernel, bias, 2 * RANGE),
        Int8Embedding(kernel.T, RANGE),
        Int8Product(kernel, bias),
    ]

    @tf.function(input_signature=[tf.TensorSpec((None, 24))], autograph=False)
    def run(rows):
        def step(index, _):  # twice, so that the kernels use the weights that they kept
            return index + 1, tf.stack([product(rows) for product in module.products])

        start = tf.zeros((len(module.products), tf.shape(rows)[0], 9))
        return tf.while_loop(lambda index, _: index < 2, step, (0, start))[1]

    module.run = run
    tf.saved_model.save(module, tmp_path / "saved")
    loaded = tf.saved_model.load(tmp_path / "saved")
    for rows in (inputs, inputs[:1], inputs[2:5]):
        expected = np.stack([product(rows) for product in module.products])
        np.testing.assert_array_equal(run(rows)[:4], expected[:4])
        np.testing.assert_array_equal(loaded.run(rows)[:4], expected[:4])
        np.testing.assert_allclose(run(rows)[4], expected[4], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("input_range", "operations"),
    [
        (RANGE, {"QuantizeV2": 1}),
        (None, {"Abs": 1, "Max": 1, "DivNoNan": 1, "Mul": 2, "Round": 1, "Cast": 1, "AddV2": 1}),
    ],
)
def test_the_operations_of_a_product(rng, input_range, operations):
    """A constant scale saves operations; the numbers are those of a decoding step."""
    product = Int8Product(rng.normal(size=(24, 9)), np.ones(9), input_range)
    spec = tf.TensorSpec((None, 24))
    graph = tf.function(product, input_signature=[spec], autograph=False).get_concrete_function()
    found = {}
    for node in graph.graph.as_graph_def().node:
        found[node.op] = found.get(node.op, 0) + 1
    free = ("Const", "Placeholder", "Identity", "ReadVariableOp", "NoOp", "ZerosLike", "Bitcast")
    assert found.pop("_QuantizedMatMul") == 1
    assert {op: n for op, n in found.items() if op not in free} == operations


PROGRAM = """
import numpy as np
from tf_transformer.quantization.int8_layers import Int8Embedding, Int8Product
inputs, kernel = np.ones((3, 64), "float32"), np.ones((64, 32), "float32")
products = [Int8Product(kernel), Int8Product(kernel, None, 1.0), Int8Embedding(kernel.T, 1.0)]
for sign in (1, -1):
    for product in products:
        np.testing.assert_allclose(product(sign * inputs), sign * 64 * np.ones((3, 32)), rtol=1e-6)
print("exact")
"""


@pytest.mark.representatives("AVX2")
@pytest.mark.slow
@pytest.mark.parametrize("instructions", ["AVX2", "DEFAULT"])
def test_the_largest_sums_are_exact_without_vnni(instructions):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        env=os.environ | {"ONEDNN_MAX_CPU_ISA": instructions},
        timeout=300,
    )
    assert done.stdout == "exact\n", done.stderr


def rows_of(matrix):
    """A matrix in 64 levels on each side of zero, with a scale per row."""
    steps = np.abs(matrix).max(axis=1, keepdims=True) / 64
    return np.rint(matrix / np.where(steps > 0, steps, 1)) * steps


@pytest.fixture
def matrix(rng):
    return (rng.normal(size=(11, 24)) * 10.0 ** rng.integers(-3, 2, (11, 1))).astype("float32")


def test_an_embedding_looks_up_what_its_product_multiplies_with(matrix, rng):
    matrix[4] = 0
    embedding = Int8Embedding(matrix, RANGE)
    ids = np.array([[3, 0, 10], [4, 4, 7]])
    found = embedding.look_up(ids, 5.0)
    assert found.dtype == tf.float32
    np.testing.assert_allclose(found, 5 * rows_of(matrix)[ids], rtol=1e-5)
    inputs = rng.normal(size=(2, 3, 24)).astype("float32")
    expected = static_reference(inputs.reshape(6, 24), matrix.T, np.zeros(11), RANGE)
    np.testing.assert_allclose(
        embedding(inputs), expected.reshape(2, 3, 11), rtol=1e-6, atol=1e-5 * np.abs(matrix).max()
    )
    with pytest.raises(tf.errors.InvalidArgumentError):
        embedding.look_up([11])


def test_a_token_embedding_with_a_table(matrix):
    layer = TokenEmbedding(vocab_size=11, d_model=24)
    layer.build()
    layer.set_vectors(matrix)
    layer.replace_table(Int8Embedding(matrix, RANGE))
    assert {weight.dtype for weight in layer.weights} == {"int8", "float32"}
    assert sum(weight.numpy().nbytes for weight in layer.weights) == 11 * 24 + 4 * 11
    expected = np.sqrt(24) * rows_of(matrix)[[3, 1]]
    np.testing.assert_allclose(layer(np.array([[3, 1]]))[0], expected, rtol=1e-5)
    hidden = np.ones((2, 24), "float32")
    np.testing.assert_array_equal(layer.logits(hidden), layer.table(hidden))


def test_the_transposed_product_is_the_same(rng):
    kernel = rng.integers(-64, 65, (24, 9)).astype("int8")
    rows, scales = rng.normal(size=(5, 24)).astype("float32"), np.ones(9, "float32")

    @tf.function(autograph=False)
    def both(input_range):
        return [
            multiply(rows, weights, tf.constant(scales), None, input_range, transposed=transposed)
            for weights, transposed in (
                (tf.constant(kernel), False),
                (tf.constant(kernel.T.copy()), True),
            )
        ]

    for input_range in (None, RANGE):
        found = both(input_range)
        np.testing.assert_array_equal(found[0], found[1])

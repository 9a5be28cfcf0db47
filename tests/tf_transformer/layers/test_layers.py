"""Every layer through one helper, and its equation against NumPy."""

import dataclasses
import json
import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.numpy_reference import (
    decoder_layer,
    encoder_layer,
    feed_forward,
    read_decoder_layer,
    read_encoder_layer,
    read_linear,
    read_norm,
    residual,
)
from tf_transformer.layers.attention import CrossAttention, SelfAttention
from tf_transformer.layers.decoder import Decoder, DecoderLayer
from tf_transformer.layers.dense import Projection, projection
from tf_transformer.layers.dropout import Dropout
from tf_transformer.layers.embedding import TokenEmbedding
from tf_transformer.layers.encoder import Encoder, EncoderLayer
from tf_transformer.layers.feed_forward import FeedForward
from tf_transformer.layers.residual import Residual
from tf_transformer.layers.ssru import SSRU

D_MODEL = 8
VOCAB = 11
BATCH, SOURCE_LENGTH, TARGET_LENGTH = 2, 5, 4


@pytest.fixture(autouse=True)
def rng():
    keras.utils.set_random_seed(1)
    return np.random.default_rng(1)


@dataclasses.dataclass
class Case:
    """One layer, what it is made from, and the names of what it is called with."""

    layer_class: type
    arguments: dict[str, Any]
    inputs: tuple[str, ...]
    output_length: int = SOURCE_LENGTH
    output_dtype: str = ""
    num_weights: int = 0
    call: Callable[..., Any] = lambda layer, *inputs, **options: layer(*inputs, **options)

    def __str__(self):
        return "-".join([self.layer_class.__name__, self.arguments.get("norm_position", "")])


SUBLAYERED = dict(
    num_heads=2,
    d_ff=12,
    dropout_rate=0.1,
    attention_dropout_rate=0.2,
    feed_forward_dropout_rate=0.3,
    layer_norm_epsilon=1e-5,
)
ENCODER_INPUTS = ("source", "source_mask")
DECODER_INPUTS = ("target", "source", "target_mask", "source_mask")
CASES = [
    Case(Dropout, dict(rate=0.2, seed=7), ("source",)),
    Case(SelfAttention, dict(num_heads=2, dropout_rate=0.1), ENCODER_INPUTS, num_weights=4),
    Case(
        CrossAttention,
        dict(num_heads=4, dropout_rate=0.1),
        ("target", "source", "source_mask"),
        TARGET_LENGTH,
        num_weights=6,
    ),
    Case(
        TokenEmbedding,
        dict(vocab_size=VOCAB, d_model=D_MODEL),
        ("ids",),
        output_dtype="float32",
        num_weights=1,
    ),
    Case(FeedForward, dict(d_ff=12, dropout_rate=0.1), ("source",), num_weights=4),
    Case(SSRU, dict(initial_gain=0.5), ("source",), num_weights=2),
]
for norm_position in ("post", "pre"):
    final = 2 * (norm_position == "pre")
    arguments = SUBLAYERED | dict(norm_position=norm_position)
    CASES += [
        Case(
            Residual,
            dict(norm_position=norm_position, dropout_rate=0.1, epsilon=1e-5),
            ("source",),
            num_weights=2,
            call=lambda layer, x, **options: layer(x, layer.sublayer_inputs(x) ** 2, **options),
        ),
        Case(EncoderLayer, arguments, ENCODER_INPUTS, num_weights=12),
        Case(
            Encoder,
            arguments | dict(num_layers=1),
            ENCODER_INPUTS,
            num_weights=12 + final,
        ),
        Case(DecoderLayer, arguments, DECODER_INPUTS, TARGET_LENGTH, num_weights=20),
        Case(
            DecoderLayer,
            arguments | dict(autoregression="ssru"),
            DECODER_INPUTS,
            TARGET_LENGTH,
            num_weights=18,
        ),
        Case(
            Decoder,
            arguments | dict(num_layers=1),
            DECODER_INPUTS,
            TARGET_LENGTH,
            num_weights=20 + final,
        ),
    ]


def make_inputs(rng):
    source_mask = np.ones((BATCH, 1, 1, SOURCE_LENGTH), bool)
    source_mask[0, ..., 3:] = False
    causal = np.tril(np.ones((TARGET_LENGTH, TARGET_LENGTH), bool))
    return {
        "source": rng.normal(size=(BATCH, SOURCE_LENGTH, D_MODEL)).astype("float32"),
        "target": rng.normal(size=(BATCH, TARGET_LENGTH, D_MODEL)).astype("float32"),
        "ids": rng.integers(0, VOCAB, size=(BATCH, SOURCE_LENGTH)).astype("int32"),
        "source_mask": source_mask,
        "target_mask": np.broadcast_to(causal, (BATCH, 1, TARGET_LENGTH, TARGET_LENGTH)).copy(),
    }


def randomise(layer, rng):
    """Biases and gains too, which start out at 0 and 1 and would hide mistakes."""
    for weight in layer.weights:
        if weight.name == "gamma":
            weight.assign(rng.uniform(0.5, 1.5, size=weight.shape))
        else:
            weight.assign(rng.normal(scale=0.4, size=weight.shape))


def dtype_of(tensor):
    return keras.backend.standardize_dtype(tensor.dtype)


def check_layer(case, rng):
    """Build and call, configuration, serialisation, precision, gradients: the same for all."""
    arrays = make_inputs(rng)
    inputs = [arrays[name] for name in case.inputs]
    shape = (BATCH, case.output_length, D_MODEL)

    # 1. built by its first call (a residual by the layer that owns it)
    layer = case.layer_class(**case.arguments)
    if case.layer_class is Residual:
        layer.build(shape)
    case.call(layer, *inputs)
    assert layer.built
    assert len(layer.weights) == len(layer.trainable_weights) == case.num_weights
    assert len({weight.path for weight in layer.weights}) == case.num_weights
    randomise(layer, rng)
    output = case.call(layer, *inputs)
    assert output.shape == shape
    assert dtype_of(output) == "float32"
    assert np.isfinite(output).all()
    np.testing.assert_array_equal(case.call(layer, *inputs, training=False), output)

    # 2. the configuration holds every argument
    config = layer.get_config()
    assert case.arguments.items() <= config.items()
    restored = case.layer_class.from_config(config)
    assert restored.get_config() == config
    assert_same_layer(case, restored, layer, inputs, output)

    # 3. serialised as JSON, under a name that cannot collide
    serialised = json.loads(json.dumps(keras.saving.serialize_keras_object(layer)))
    assert serialised["registered_name"] == f"tf_transformer>{case.layer_class.__name__}"
    restored = keras.saving.deserialize_keras_object(serialised)
    assert type(restored) is case.layer_class
    assert_same_layer(case, restored, layer, inputs, output)

    # 4. built by `build` alone, and traced with nothing known but the width
    restored = case.layer_class.from_config(config)
    restored.build(np.shape(inputs[0]))
    assert_same_layer(case, restored, layer, inputs, output)
    symbols = [
        keras.Input(batch_shape=(None, None) + np.shape(array)[2:3] + (None,) * (array.ndim - 3))
        if array.ndim == 3
        else keras.Input(batch_shape=(None,) * array.ndim, dtype=array.dtype)
        for array in inputs
    ]
    symbolic_output = case.call(layer, *symbols)
    assert symbolic_output.shape == (None, None, D_MODEL)
    assert dtype_of(symbolic_output) == "float32"
    traced = keras.Model(symbols, symbolic_output).predict_on_batch(inputs)
    # Outputs of size 3: a few of float32's steps apart.
    np.testing.assert_allclose(traced, output, rtol=1e-5, atol=2e-6)

    # 5. bfloat16 computes nearly the same, from float32 weights
    mixed = case.layer_class.from_config(config | {"dtype": "mixed_bfloat16"})
    mixed.build(np.shape(inputs[0]))
    mixed.set_weights(layer.get_weights())
    assert all(dtype_of(weight) == "float32" for weight in mixed.weights)
    mixed_output = case.call(mixed, *inputs)
    assert dtype_of(mixed_output) == (case.output_dtype or "bfloat16")
    mixed_output = np.asarray(tf.cast(mixed_output, "float32"))
    assert np.isfinite(mixed_output).all()
    difference = np.sqrt(np.mean((mixed_output - output) ** 2) / np.mean(output**2))
    assert difference < (1e-6 if case.output_dtype == "float32" else 0.03)
    assert dtype_of(case.call(mixed, *symbols)) == (case.output_dtype or "bfloat16")

    # 6. the gradient reaches every weight, while dropout is on, in both precisions
    direction = tf.constant(rng.normal(size=shape), "float32")
    for each in (layer, mixed):
        with tf.GradientTape() as tape:
            trained = case.call(each, *inputs, training=True)
            value = tf.reduce_sum(tf.cast(trained, "float32") * direction)
        gradients = tape.gradient(value, [weight.value for weight in each.trainable_weights])
        for weight, gradient in zip(each.trainable_weights, gradients, strict=True):
            assert gradient is not None, weight.path
            gradient = np.asarray(tf.convert_to_tensor(gradient))
            assert np.isfinite(gradient).all(), weight.path
            assert gradient.any(), weight.path


def assert_same_layer(case, restored, layer, inputs, output):
    """Another layer with equal weights gives equal outputs."""
    if not restored.built:
        restored.build(np.shape(inputs[0]))
    assert [weight.shape for weight in restored.weights] == [
        weight.shape for weight in layer.weights
    ]
    restored.set_weights(layer.get_weights())
    np.testing.assert_array_equal(case.call(restored, *inputs), output)


@pytest.mark.representatives(
    *("Dropout", "SelfAttention", "CrossAttention", "TokenEmbedding", "FeedForward", "SSRU"),
    *("Residual-post", "EncoderLayer-post", "Encoder-pre", "DecoderLayer-pre1", "Decoder-post"),
)
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_layer(case, rng):
    check_layer(case, rng)


@pytest.mark.parametrize("norm_position", ["post", "pre"])
@pytest.mark.parametrize("masked", [False, True])
def test_encoder_layer_equation(rng, norm_position, masked):
    arrays = make_inputs(rng)
    mask = arrays["source_mask"] if masked else None
    layer = EncoderLayer(**SUBLAYERED, norm_position=norm_position)
    layer.build((None, None, D_MODEL))
    randomise(layer, rng)
    expected = encoder_layer(
        read_encoder_layer(layer), arrays["source"], None if mask is None else mask[:, 0]
    )
    np.testing.assert_allclose(layer(arrays["source"], mask), expected, atol=1e-5)


@pytest.mark.parametrize("norm_position", ["post", "pre"])
@pytest.mark.parametrize("masked", [False, True])
def test_decoder_layer_equation(rng, norm_position, masked):
    arrays = make_inputs(rng)
    masks = [arrays["target_mask"], arrays["source_mask"]] if masked else []
    layer = DecoderLayer(**SUBLAYERED, norm_position=norm_position)
    layer.build((None, None, D_MODEL))
    randomise(layer, rng)
    expected = decoder_layer(
        read_decoder_layer(layer),
        arrays["target"],
        arrays["source"],
        *(mask[:, 0] for mask in masks),
    )
    computed = layer(arrays["target"], arrays["source"], *masks)
    np.testing.assert_allclose(computed, expected, atol=1e-5)


@pytest.mark.parametrize("norm_position", ["post", "pre"])
@pytest.mark.parametrize("stack_class", [Encoder, Decoder])
def test_stack_equation(rng, stack_class, norm_position):
    """Layer upon layer, and a final norm with pre-norm."""
    arrays = make_inputs(rng)
    stack = stack_class(num_layers=2, **SUBLAYERED, norm_position=norm_position)
    stack.build((None, None, D_MODEL))
    randomise(stack, rng)
    assert len(stack.stacked_layers) == 2
    if stack_class is Encoder:
        hidden = arrays["source"]
        computed = stack(hidden, arrays["source_mask"])
        for layer in stack.stacked_layers:
            hidden = encoder_layer(read_encoder_layer(layer), hidden, arrays["source_mask"][:, 0])
    else:
        hidden = arrays["target"]
        masks = arrays["target_mask"], arrays["source_mask"]
        computed = stack(hidden, arrays["source"], *masks)
        for layer in stack.stacked_layers:
            hidden = decoder_layer(
                read_decoder_layer(layer), hidden, arrays["source"], masks[0][:, 0], masks[1][:, 0]
            )
    if norm_position == "pre":
        hidden = read_norm(stack.final_norm)(hidden)
    np.testing.assert_allclose(computed, hidden, atol=1e-4)


def test_feed_forward_equation(rng):
    inputs = make_inputs(rng)["source"]
    layer = FeedForward(d_ff=12)
    layer.build(inputs.shape)
    randomise(layer, rng)
    expected = feed_forward(read_linear(layer.inner), read_linear(layer.outer), inputs)
    np.testing.assert_allclose(layer(inputs), expected, atol=1e-5)


@pytest.mark.parametrize("norm_position", ["post", "pre"])
def test_residual_equation(rng, norm_position):
    inputs = make_inputs(rng)["source"]
    layer = Residual(norm_position=norm_position, epsilon=1e-2)
    layer.build(inputs.shape)
    randomise(layer, rng)
    computed = layer(inputs, np.tanh(layer.sublayer_inputs(inputs)))
    expected = residual(norm_position, read_norm(layer.norm), inputs, np.tanh)
    np.testing.assert_allclose(computed, expected, atol=1e-5)


def test_residual_is_built_by_its_first_use(rng):
    """As its docstring has it: `before`, the sublayer, the residual."""
    inputs = make_inputs(rng)["source"]
    layer = Residual(norm_position="pre")
    layer(inputs, layer.sublayer_inputs(inputs))
    assert len(layer.weights) == 2


@pytest.mark.parametrize("masks", [[], [None, None]])
def test_decoder_without_masks(rng, masks):
    """Masks default to none, as in the encoder."""
    arrays = make_inputs(rng)
    decoder = Decoder(num_layers=1, **SUBLAYERED)
    computed = decoder(arrays["target"], arrays["source"], *masks)
    expected = decoder_layer(
        read_decoder_layer(decoder.stacked_layers[0]), arrays["target"], arrays["source"]
    )
    np.testing.assert_allclose(computed, expected, atol=1e-5)


def test_token_embedding_equation(rng):
    """Rows times sqrt(d_model) on the way in, the plain matrix on the way out."""
    layer = TokenEmbedding(vocab_size=VOCAB, d_model=D_MODEL)
    ids = make_inputs(rng)["ids"]
    embedded = layer(ids)
    matrix = np.asarray(layer.embeddings, np.float64)
    np.testing.assert_allclose(embedded, matrix[ids] * np.sqrt(D_MODEL), rtol=1e-6)
    hidden = rng.normal(size=(3, 2, D_MODEL)).astype("float32")
    np.testing.assert_allclose(layer.logits(hidden), hidden @ matrix.T, atol=1e-5)


def test_logits_are_float32_whatever_the_policy(rng):
    layer = TokenEmbedding(vocab_size=VOCAB, d_model=D_MODEL, dtype="mixed_bfloat16")
    layer.build()
    hidden = tf.cast(rng.normal(size=(3, D_MODEL)), "bfloat16")
    logits = layer.logits(hidden)
    assert dtype_of(logits) == "float32"
    expected = tf.cast(hidden, "float32").numpy() @ np.asarray(layer.embeddings).T
    np.testing.assert_allclose(logits, expected, atol=1e-6)


# Projections


@pytest.mark.parametrize("num_outputs", [5, 12])
def test_projection_trains_as_it_computes(rng, num_outputs):
    """Training has a gradient of its own for what is wider than its input."""
    layer = projection(D_MODEL, num_outputs)
    randomise(layer, rng)
    inputs = tf.constant(rng.normal(size=(2, 3, D_MODEL)), tf.float32)
    upstream = tf.constant(rng.normal(size=(2, 3, num_outputs)), tf.float32)

    def outputs_and_gradients(training):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = layer(inputs, training=training)
        watched = [inputs, layer.kernel.value, layer.bias.value]
        return [outputs, *tape.gradient(outputs, watched, upstream)]

    for found, expected in zip(
        outputs_and_gradients(True), outputs_and_gradients(False), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_projection_gradient_is_of_the_weights_that_computed(rng):
    layer = projection(D_MODEL, 12)
    inputs = tf.constant(rng.normal(size=(3, D_MODEL)), tf.float32)
    expected = tf.reduce_sum(layer.kernel.value, axis=1)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = layer(inputs, training=True)
    layer.kernel.assign(0 * layer.kernel)
    np.testing.assert_allclose(tape.gradient(outputs, inputs)[0], expected, rtol=1e-5)


def test_projection_of_a_strategy_called_outside_its_replicas():
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        layer = projection(D_MODEL, 12)
    inputs = tf.ones((3, D_MODEL))
    np.testing.assert_allclose(layer(inputs, training=True), layer(inputs), rtol=1e-6)


def test_projection_with_adapters_or_an_activation_trains(rng):
    inputs = tf.constant(rng.normal(size=(3, D_MODEL)), tf.float32)
    adapted, activated = projection(D_MODEL, 12), Projection(12, activation="relu")
    adapted.enable_lora(2)
    for layer in (adapted, activated):
        np.testing.assert_allclose(layer(inputs, training=True), layer(inputs), rtol=1e-6)


# Dropout


def test_dropout_share_and_scale():
    """What is left is scaled to keep the sum."""
    ones = np.ones((200, 200), "float32")
    output = np.asarray(Dropout(0.3, seed=1)(ones, training=True))
    assert set(np.unique(output)) == {np.float32(0), np.float32(1 / 0.7)}
    # 40,000 draws: four standard deviations are 0.9 %.
    assert abs((output == 0).mean() - 0.3) < 0.01
    assert abs(output.mean() - 1) < 0.014


def test_relu_then_dropout(rng):
    """Output and gradient are those of ReLU, then dropout with the same draws."""
    inputs = tf.constant(rng.normal(size=(20, 30)), tf.float32)
    upstream = tf.constant(rng.normal(size=(20, 30)), tf.float32)

    def outputs_and_gradient(function):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = function(Dropout(0.3, seed=1))
        return outputs, tape.gradient(outputs, inputs, upstream)

    found = outputs_and_gradient(lambda layer: layer.relu_then_dropout(inputs, training=True))
    expected = outputs_and_gradient(lambda layer: layer(tf.nn.relu(inputs), training=True))
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-6)
    np.testing.assert_array_equal(Dropout(0.3).relu_then_dropout(inputs), tf.nn.relu(inputs))


def test_dropout_draws_anew_at_each_call_and_again_from_its_seed():
    ones = np.ones((8, 8), "float32")
    first, second, other = Dropout(0.5, seed=3), Dropout(0.5, seed=3), Dropout(0.5, seed=4)
    draws = [np.asarray(first(ones, training=True)) for _ in range(3)]
    for number, draw in enumerate(draws):
        np.testing.assert_array_equal(second(ones, training=True), draw)
        assert (np.asarray(other(ones, training=True)) != draw).any()
        assert all((draw != earlier).any() for earlier in draws[:number])


def test_dropout_of_one_layer_is_not_that_of_another():
    """Without a seed of its own each draws one, from the global seed."""

    def draw():
        keras.utils.set_random_seed(5)
        layers = [Dropout(0.5), Dropout(0.5)]
        return [np.asarray(layer(np.ones((8, 8), "float32"), training=True)) for layer in layers]

    first, second = draw()
    assert (first != second).any()
    np.testing.assert_array_equal(draw(), [first, second])


@pytest.mark.parametrize("training", [None, False])
def test_dropout_outside_training(rng, training):
    inputs = make_inputs(rng)["source"]
    np.testing.assert_array_equal(Dropout(0.5)(inputs, training=training), inputs)


def test_dropout_rate_zero(rng):
    inputs = make_inputs(rng)["source"]
    layer = Dropout(0)
    np.testing.assert_array_equal(layer(inputs, training=True), inputs)
    assert not layer.variables


@pytest.mark.parametrize("stack_class", [Encoder, Decoder])
@pytest.mark.parametrize(
    "name", ["", "dropout_rate", "attention_dropout_rate", "feed_forward_dropout_rate"]
)
def test_each_dropout_rate_acts_while_training_alone(rng, stack_class, name):
    arrays = make_inputs(rng)
    names = ENCODER_INPUTS if stack_class is Encoder else DECODER_INPUTS
    inputs = [arrays[name] for name in names]
    stack = stack_class(num_layers=1, num_heads=2, d_ff=12, **({name: 0.5} if name else {}))
    plain = np.asarray(stack(*inputs))
    trained = np.asarray(stack(*inputs, training=True))
    # Training's layer norm rounds in another order.
    assert np.allclose(trained, plain, rtol=0, atol=1e-5) != bool(name)
    # Each sublayer of its own: attention twice and its outputs in the decoder.
    sublayers = {"": 0, "dropout_rate": 3, "attention_dropout_rate": 2}.get(name, 1)
    if stack_class is Encoder:
        sublayers -= name in ("dropout_rate", "attention_dropout_rate")
    assert len(stack.non_trainable_variables) == sublayers


def test_dropout_of_attention_weights_and_inner_activations(rng):
    """The rates arrive where they belong."""
    layer = DecoderLayer(**SUBLAYERED)
    assert layer.self_attention.dropout.rate == 0.2
    assert layer.cross_attention.dropout.rate == 0.2
    assert layer.feed_forward.dropout.rate == 0.3
    for name in ("self_attention", "cross_attention", "feed_forward"):
        assert getattr(layer, f"{name}_residual").dropout.rate == 0.1
        assert getattr(layer, f"{name}_residual").norm.epsilon == 1e-5


@pytest.mark.parametrize("activation", ["gelu", "swish", "glu", "reglu", "geglu", "swiglu"])
def test_feed_forward_activations(rng, activation):
    """Shazeer, 2020: act(x W_1 + b_1), times x V + c where gated."""
    sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    functions = {
        "gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / np.sqrt(2))) / 2,
        "swish": lambda x: x * sigmoid(x),
        "glu": sigmoid,
        "reglu": lambda x: np.maximum(x, 0),
    }
    functions |= {"geglu": functions["gelu"], "swiglu": functions["swish"]}
    layer = FeedForward(d_ff=12, activation=activation)
    layer.build((None, None, D_MODEL))
    randomise(layer, rng)
    x = rng.normal(size=(2, 3, D_MODEL)).astype("float32")
    inner = x @ np.asarray(layer.inner.kernel) + np.asarray(layer.inner.bias)
    gated = activation.endswith("glu")
    assert inner.shape[-1] == (24 if gated else 12)
    hidden = functions[activation](inner[..., :12]) * (inner[..., 12:] if gated else 1)
    expected = hidden @ np.asarray(layer.outer.kernel) + np.asarray(layer.outer.bias)
    np.testing.assert_allclose(layer(x), expected, atol=1e-4)

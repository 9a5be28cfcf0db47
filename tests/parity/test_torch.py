"""Encoder and decoder against those of `torch.nn.Transformer`, from the same weights."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.decoder import Decoder
from tf_transformer.encoder import Encoder
from tf_transformer.masks import causal_attention_mask, padding_attention_mask

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.parity

D_MODEL, D_FF, NUM_HEADS, NUM_LAYERS, EPSILON = 16, 24, 4, 2, 1e-4
SOURCE_REAL = np.array([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0]], bool)
TARGET_REAL = np.array([[1, 1, 0, 0, 0], [1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], bool)
CAUSAL = np.tril(np.ones((5, 5), bool))


@pytest.fixture(autouse=True)
def rng():
    keras.utils.set_random_seed(1)
    torch.manual_seed(1)
    return np.random.default_rng(1)


@pytest.fixture(params=["post", "pre"])
def norm_position(request):
    return request.param


@pytest.fixture
def arrays(rng):
    """Inputs of both stacks, and a direction to take the gradient in."""
    source, target = (
        rng.normal(size=(*real.shape, D_MODEL)).astype("float32")
        for real in (SOURCE_REAL, TARGET_REAL)
    )
    return {
        "source": source,
        "target": target,
        "source_direction": rng.normal(size=source.shape).astype("float32"),
        "target_direction": rng.normal(size=target.shape).astype("float32"),
    }


# Both libraries' stacks


def make_stack(stack_class, norm_position):
    stack = stack_class(
        num_layers=NUM_LAYERS,
        num_heads=NUM_HEADS,
        d_ff=D_FF,
        norm_position=norm_position,
        layer_norm_epsilon=EPSILON,
    )
    stack.build((None, None, D_MODEL))
    return stack


def make_torch_stack(stack_class, norm_position, rng):
    """With random biases and gains too; in training mode, which has no short cuts."""
    layer_class, torch_class, options = {
        Encoder: (
            torch.nn.TransformerEncoderLayer,
            torch.nn.TransformerEncoder,
            {"enable_nested_tensor": False},
        ),
        Decoder: (torch.nn.TransformerDecoderLayer, torch.nn.TransformerDecoder, {}),
    }[stack_class]
    layer = layer_class(
        D_MODEL,
        NUM_HEADS,
        dim_feedforward=D_FF,
        dropout=0.0,
        activation="relu",
        layer_norm_eps=EPSILON,
        batch_first=True,
        norm_first=norm_position == "pre",
    )
    norm = torch.nn.LayerNorm(D_MODEL, eps=EPSILON) if norm_position == "pre" else None
    stack = torch_class(layer, NUM_LAYERS, norm=norm, **options)
    with torch.no_grad():
        for name, parameter in stack.named_parameters():
            if "norm" in name and name.endswith("weight"):
                values = rng.uniform(0.5, 1.5, size=parameter.shape)
            else:
                values = rng.normal(scale=0.3, size=parameter.shape)
            parameter.copy_(torch.tensor(values, dtype=torch.float32))
    return stack.train()


def pairs_of_weights(stack, torch_values):
    """Every Keras weight beside the PyTorch array that it should equal.

    torch_values maps the names of PyTorch's parameters to arrays: the parameters, or gradients.
    PyTorch's matrices are (outputs, inputs), those of query, key and value one below the other.
    """
    decoder = isinstance(stack, Decoder)
    for number, layer in enumerate(stack.stacked_layers):

        def value(name, number=number):
            return torch_values[f"layers.{number}.{name}"]

        def dense(dense_layer, weight, bias):
            return [(dense_layer.kernel, weight.T), (dense_layer.bias, bias)]

        def linear(dense_layer, name, value=value):
            return dense(dense_layer, value(f"{name}.weight"), value(f"{name}.bias"))

        def norm(residual, name, value=value):
            return [
                (residual.norm.gamma, value(f"{name}.weight")),
                (residual.norm.beta, value(f"{name}.bias")),
            ]

        weight, bias = value("self_attn.in_proj_weight"), value("self_attn.in_proj_bias")
        yield from dense(layer.self_attention.query_key_value, weight, bias)
        yield from linear(layer.self_attention.output_projection, "self_attn.out_proj")
        if decoder:
            weight = value("multihead_attn.in_proj_weight")
            bias = value("multihead_attn.in_proj_bias")
            cross_attention = layer.cross_attention
            yield from dense(cross_attention.query, weight[:D_MODEL], bias[:D_MODEL])
            yield from dense(cross_attention.key_value, weight[D_MODEL:], bias[D_MODEL:])
            yield from linear(cross_attention.output_projection, "multihead_attn.out_proj")
            yield from norm(layer.cross_attention_residual, "norm2")
        yield from linear(layer.feed_forward.inner, "linear1")
        yield from linear(layer.feed_forward.outer, "linear2")
        yield from norm(layer.self_attention_residual, "norm1")
        yield from norm(layer.feed_forward_residual, "norm3" if decoder else "norm2")
    if stack.norm_position == "pre":
        yield stack.final_norm.gamma, torch_values["norm.weight"]
        yield stack.final_norm.beta, torch_values["norm.bias"]


def make_both(stack_class, norm_position, rng):
    torch_stack = make_torch_stack(stack_class, norm_position, rng)
    stack = make_stack(stack_class, norm_position)
    parameters = {name: value.detach().numpy() for name, value in torch_stack.named_parameters()}
    pairs = list(pairs_of_weights(stack, parameters))
    assert len({id(weight) for weight, _ in pairs}) == len(pairs) == len(stack.weights)
    assert sum(value.size for _, value in pairs) == sum(map(np.size, parameters.values()))
    for weight, value in pairs:
        weight.assign(value)
    return stack, torch_stack


# Their outputs


def encode(stack, arrays):
    return stack(arrays["source"], padding_attention_mask(SOURCE_REAL))


def encode_torch(stack, arrays):
    """PyTorch's masks are True where attention is forbidden."""
    return stack(torch.tensor(arrays["source"]), src_key_padding_mask=torch.tensor(~SOURCE_REAL))


def decode(stack, arrays):
    """From the source itself: any array will do for a memory."""
    return stack(
        arrays["target"],
        arrays["source"],
        causal_attention_mask(tf.constant(TARGET_REAL)),
        padding_attention_mask(SOURCE_REAL),
    )


def decode_torch(stack, arrays):
    return stack(
        torch.tensor(arrays["target"]),
        torch.tensor(arrays["source"]),
        tgt_mask=torch.tensor(~CAUSAL),
        tgt_key_padding_mask=torch.tensor(~TARGET_REAL),
        memory_key_padding_mask=torch.tensor(~SOURCE_REAL),
    )


STACKS = [
    pytest.param(Encoder, encode, encode_torch, SOURCE_REAL, id="encoder"),
    pytest.param(Decoder, decode, decode_torch, TARGET_REAL, id="decoder"),
]


@pytest.mark.parametrize(("stack_class", "run", "run_torch", "real"), STACKS)
def test_outputs(stack_class, run, run_torch, real, norm_position, arrays, rng):
    stack, torch_stack = make_both(stack_class, norm_position, rng)
    output = run(stack, arrays).numpy()
    expected = run_torch(torch_stack, arrays).detach().numpy()
    np.testing.assert_allclose(output[real], expected[real], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("stack_class", "run", "run_torch", "real"), STACKS)
def test_gradients(stack_class, run, run_torch, real, norm_position, arrays, rng):
    """Of a random projection of the real outputs, with respect to every weight."""
    stack, torch_stack = make_both(stack_class, norm_position, rng)
    name = "source_direction" if stack_class is Encoder else "target_direction"
    direction = arrays[name] * real[..., None]
    with tf.GradientTape() as tape:
        value = tf.reduce_sum(run(stack, arrays) * direction)
    gradients = tape.gradient(value, [weight.value for weight in stack.weights])
    gradients = dict(zip(map(id, stack.weights), gradients, strict=True))

    torch_value = (run_torch(torch_stack, arrays) * torch.tensor(direction)).sum()
    torch_value.backward()
    torch_gradients = {
        name: parameter.grad.numpy() for name, parameter in torch_stack.named_parameters()
    }
    np.testing.assert_allclose(value, torch_value.item(), rtol=1e-4)
    for weight, expected in pairs_of_weights(stack, torch_gradients):
        assert np.abs(expected).max() > 0.01, weight.path
        np.testing.assert_allclose(
            gradients[id(weight)], expected, rtol=1e-4, atol=1e-4, err_msg=weight.path
        )


def test_decoder_on_top_of_encoder(norm_position, arrays, rng):
    """`torch.nn.Transformer` as a whole: the decoder's memory is the encoder's output."""
    encoder, torch_encoder = make_both(Encoder, norm_position, rng)
    decoder, torch_decoder = make_both(Decoder, norm_position, rng)
    whole = torch.nn.Transformer(
        D_MODEL,
        NUM_HEADS,
        custom_encoder=torch_encoder,
        custom_decoder=torch_decoder,
        batch_first=True,
    ).train()
    # Its constructor draws all matrices anew.
    for stack, torch_stack in ((encoder, whole.encoder), (decoder, whole.decoder)):
        values = {name: value.detach().numpy() for name, value in torch_stack.named_parameters()}
        for weight, value in pairs_of_weights(stack, values):
            weight.assign(value)
    expected = whole(
        torch.tensor(arrays["source"]),
        torch.tensor(arrays["target"]),
        tgt_mask=torch.tensor(~CAUSAL),
        src_key_padding_mask=torch.tensor(~SOURCE_REAL),
        tgt_key_padding_mask=torch.tensor(~TARGET_REAL),
        memory_key_padding_mask=torch.tensor(~SOURCE_REAL),
    ).detach()
    output = decode(decoder, arrays | {"source": encode(encoder, arrays)}).numpy()
    np.testing.assert_allclose(
        output[TARGET_REAL], expected.numpy()[TARGET_REAL], rtol=1e-5, atol=1e-5
    )

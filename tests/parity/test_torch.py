"""Encoder and decoder against `torch.nn.Transformer`, from the same weights."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer import Transformer, TransformerConfig
from tf_transformer.formats.naming import convert_weights
from tf_transformer.formats.originals import TORCH
from tf_transformer.layers.masks import causal_attention_mask, padding_attention_mask
from tf_transformer.storage.weight_shapes import weight_shapes

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


def make_both(norm_position, rng):
    """`torch.nn.Transformer` and a `Transformer` with its weights, biases and gains random too.

    The former ends both stacks in a norm, in either norm order; in training mode it takes no short
    cuts.
    """
    whole = torch.nn.Transformer(
        D_MODEL,
        NUM_HEADS,
        NUM_LAYERS,
        NUM_LAYERS,
        D_FF,
        dropout=0.0,
        layer_norm_eps=EPSILON,
        batch_first=True,
        norm_first=norm_position == "pre",
    ).train()
    with torch.no_grad():
        for name, parameter in whole.named_parameters():
            if "norm" in name and name.endswith("weight"):
                values = rng.uniform(0.5, 1.5, size=parameter.shape)
            else:
                values = rng.normal(scale=0.3, size=parameter.shape)
            parameter.copy_(torch.tensor(values, dtype=torch.float32))
    model = Transformer(
        TransformerConfig(
            source_vocab_size=4,
            target_vocab_size=4,
            num_encoder_layers=NUM_LAYERS,
            num_decoder_layers=NUM_LAYERS,
            d_model=D_MODEL,
            d_ff=D_FF,
            num_heads=NUM_HEADS,
            norm_position=norm_position,
            final_norm=True,
            layer_norm_epsilon=EPSILON,
        )
    )
    values = {name: value.detach().numpy() for name, value in whole.named_parameters()}
    ours = dict(convert_weights(stack_shapes(model), TORCH, values))
    for variable in stack_weights(model):
        variable.assign(ours.pop(name_of(variable)))
    assert not ours
    return model, whole


def stack_shapes(model):
    """Those of both stacks: there are no embeddings and no logits on the other side."""
    return {
        name: shape
        for name, shape in weight_shapes(model.config).items()
        if name.startswith(("encoder/", "decoder/"))
    }


def stack_weights(model):
    return [*model.encoder.weights, *model.decoder.weights]


def name_of(variable):
    return variable.path.partition("/")[2]


def run(model, arrays):
    memory = model.encoder(arrays["source"], padding_attention_mask(SOURCE_REAL))
    outputs = model.decoder(
        arrays["target"],
        memory,
        causal_attention_mask(tf.constant(TARGET_REAL)),
        padding_attention_mask(SOURCE_REAL),
    )
    return memory, outputs


def run_torch(whole, arrays):
    """PyTorch's masks are True where attention is forbidden."""
    source_padding = torch.tensor(~SOURCE_REAL)
    memory = whole.encoder(torch.tensor(arrays["source"]), src_key_padding_mask=source_padding)
    outputs = whole.decoder(
        torch.tensor(arrays["target"]),
        memory,
        tgt_mask=torch.tensor(~CAUSAL),
        tgt_key_padding_mask=torch.tensor(~TARGET_REAL),
        memory_key_padding_mask=source_padding,
    )
    return memory, outputs


@pytest.mark.slow
def test_outputs(norm_position, arrays, rng):
    model, whole = make_both(norm_position, rng)
    for ours, theirs, real in zip(
        run(model, arrays), run_torch(whole, arrays), (SOURCE_REAL, TARGET_REAL), strict=True
    ):
        np.testing.assert_allclose(
            ours.numpy()[real], theirs.detach().numpy()[real], rtol=1e-5, atol=1e-5
        )


@pytest.mark.slow
def test_gradients(norm_position, arrays, rng):
    """Of a random projection of the real outputs, with respect to every weight."""
    model, whole = make_both(norm_position, rng)
    directions = (
        arrays["source_direction"] * SOURCE_REAL[..., None],
        arrays["target_direction"] * TARGET_REAL[..., None],
    )
    weights = stack_weights(model)
    with tf.GradientTape() as tape:
        outputs = run(model, arrays)
        value = sum(tf.reduce_sum(x * d) for x, d in zip(outputs, directions, strict=True))
    gradients = tape.gradient(value, [weight.value for weight in weights])

    outputs = run_torch(whole, arrays)
    torch_value = sum((x * torch.tensor(d)).sum() for x, d in zip(outputs, directions, strict=True))
    torch_value.backward()
    theirs = {name: parameter.grad.numpy() for name, parameter in whole.named_parameters()}
    expected = dict(convert_weights(stack_shapes(model), TORCH, theirs))
    np.testing.assert_allclose(value, torch_value.item(), rtol=1e-4)
    for weight, gradient in zip(weights, gradients, strict=True):
        name = name_of(weight)
        assert np.abs(expected[name]).max() > 0.01, name
        np.testing.assert_allclose(gradient, expected[name], rtol=1e-4, atol=1e-4, err_msg=name)

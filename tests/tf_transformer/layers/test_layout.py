"""Computing without padding against computing with it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer import LanguageModel, Transformer, TransformerConfig
from tf_transformer.layers.layout import Packed

# Of 3, no, 1 and 4 tokens, with padding anywhere.
MASK = np.array([[1, 1, 1, 0], [0, 0, 0, 0], [0, 0, 1, 0], [1, 1, 1, 1]], bool)
HEADS, HEAD_DIM = 2, 3
SIZES = dict(
    target_vocab_size=20,
    num_encoder_layers=2,
    num_decoder_layers=2,
    d_model=8,
    d_ff=16,
    num_heads=2,
    dropout_rate=0.0,
)


@pytest.fixture(autouse=True, params=["cpu", "gpu"])
def device(request, monkeypatch):
    """The indices' dtype is another one on a GPU."""
    monkeypatch.setattr("tf_transformer.layers.layout.has_gpu", lambda: request.param == "gpu")
    return request.param


def test_dtype_of_indices(device):
    """TensorFlow's kernels for GPUs compute with int64 on the GPU, with int32 on the CPU."""
    layout = Packed.from_mask(MASK)
    expected = {"cpu": tf.int32, "gpu": tf.int64}[device]
    assert layout.padded_indices.dtype == layout.packed_indices.dtype == expected


def normal(*shape):
    return tf.constant(np.random.default_rng(1).normal(size=shape), tf.float32)


def padded(tokens):
    """`(tokens, width)` to `(batch, length, width)`, by NumPy."""
    array = np.zeros((*MASK.shape, tokens.shape[-1]), "float32")
    array[MASK] = tokens
    return array


def split(array, num_parts):
    """Heads of a padded array, by NumPy: `(parts, batch, heads, length, head_dim)`."""
    heads = array.reshape(*MASK.shape, num_parts, HEADS, HEAD_DIM)
    return heads.transpose(2, 0, 3, 1, 4)


def test_pack():
    vectors, upstream = normal(*MASK.shape, 5), normal(MASK.sum(), 5)
    with tf.GradientTape() as tape:
        tape.watch(vectors)
        tokens = Packed.from_mask(MASK).pack(vectors)
    np.testing.assert_array_equal(tokens, vectors.numpy()[MASK])
    gradient = tape.gradient(tokens, vectors, output_gradients=upstream)
    np.testing.assert_array_equal(gradient, padded(upstream.numpy()))


@pytest.mark.parametrize("num_parts", [1, 3])
def test_split_heads(num_parts):
    """At real tokens; and the gradient of anything that does not depend on padding."""
    width = num_parts * HEADS * HEAD_DIM
    tokens, other = normal(MASK.sum(), width), normal(MASK.sum(), width)
    with tf.GradientTape() as tape:
        tape.watch(tokens)
        parts = Packed.from_mask(MASK).split_heads(tokens, num_parts, HEADS)
    is_real = np.broadcast_to(MASK[None, :, None, :, None], parts.shape)
    expected = split(padded(tokens.numpy()), num_parts)
    np.testing.assert_array_equal(np.where(is_real, parts, 0), expected)
    upstream = split(padded(other.numpy()), num_parts)
    gradient = tape.gradient(parts, tokens, output_gradients=upstream)
    np.testing.assert_array_equal(gradient, other)


def test_join_heads():
    attended, upstream = normal(4, HEADS, 4, HEAD_DIM), normal(MASK.sum(), HEADS * HEAD_DIM)
    with tf.GradientTape() as tape:
        tape.watch(attended)
        tokens = Packed.from_mask(MASK).join_heads(attended, HEADS * HEAD_DIM)
    expected = attended.numpy().transpose(0, 2, 1, 3).reshape(*MASK.shape, -1)[MASK]
    np.testing.assert_array_equal(tokens, expected)
    gradient = tape.gradient(tokens, attended, output_gradients=upstream)
    np.testing.assert_array_equal(gradient, split(padded(upstream.numpy()), 1)[0])


@pytest.mark.slow
@pytest.mark.representatives(
    "cpu-switches1", "cpu-switches3", "cpu-switches4", "cpu-switches5", "gpu-switches0"
)
@pytest.mark.parametrize(
    "switches",
    [
        {},
        dict(relative_positions="keys_values", norm_position="pre"),
        dict(layer_history=True),
        dict(relative_positions="buckets", head_dim=3, embedding_norm=True),
        dict(decoder_only=True),
        dict(decoder_autoregression="ssru"),
        dict(decoder_autoregression="ssru", decoder_only=True),
    ],
)
def test_model(switches):
    """Logits wherever they are wanted are those of the model that computes with padding."""
    keras.utils.set_random_seed(1)
    vocabulary = {} if "decoder_only" in switches else dict(source_vocab_size=20)
    config = TransformerConfig(**SIZES, **vocabulary, **switches)
    model = (LanguageModel if config.decoder_only else Transformer)(config)
    source, target = np.random.default_rng(1).integers(4, 20, (2, 3, 5)).astype("int32")
    source[0, 2:] = source[1, 4:] = target[1, 1:] = target[2, 3:] = 0
    inputs = {"target": target} if config.decoder_only else {"source": source, "target": target}
    wanted = np.array([[1, 1, 0, 1, 0], [1, 0, 0, 0, 0], [0, 0, 1, 0, 0]], bool)
    hidden = model.hidden_at(inputs, wanted)
    table, _ = model.logits_weights()
    np.testing.assert_allclose(
        hidden @ tf.transpose(table), model(inputs).numpy()[wanted], atol=1e-5
    )

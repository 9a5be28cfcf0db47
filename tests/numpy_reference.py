"""The equations of "Attention Is All You Need" in NumPy float64, written from the paper alone.

Nothing here imports the package: these are the numbers that it is held against. Loops are written
out where the formula is; speed does not matter.
"""

import dataclasses
import math

import numpy as np


@dataclasses.dataclass
class Linear:
    """x W + b."""

    kernel: np.ndarray
    bias: np.ndarray

    def __call__(self, inputs):
        return np.asarray(inputs, np.float64) @ self.kernel + self.bias


@dataclasses.dataclass
class Norm:
    """Gain and bias of a layer norm."""

    gain: np.ndarray
    bias: np.ndarray
    epsilon: float

    def __call__(self, inputs):
        return layer_norm(inputs, self.gain, self.bias, self.epsilon)


@dataclasses.dataclass
class Attention:
    """The projections of multi-head attention; head h owns the h-th block of columns."""

    query: Linear
    key: Linear
    value: Linear
    output: Linear
    num_heads: int


@dataclasses.dataclass
class EncoderLayer:
    self_attention: Attention
    self_attention_norm: Norm
    inner: Linear
    outer: Linear
    feed_forward_norm: Norm
    norm_position: str


@dataclasses.dataclass
class DecoderLayer(EncoderLayer):
    cross_attention: Attention
    cross_attention_norm: Norm


def softmax(logits):
    powers = np.exp(logits - np.max(logits, axis=-1, keepdims=True))
    return powers / np.sum(powers, axis=-1, keepdims=True)


def scaled_dot_product_attention(query, key, value, mask=None):
    """Equation 1, a query at a time over those keys alone that it may attend to.

    query `(query_length, d_k)`, key `(key_length, d_k)`, value `(key_length, d_v)`, mask boolean
    `(query_length, key_length)`, True = may attend.
    """
    query, key, value = (np.asarray(array, np.float64) for array in (query, key, value))
    outputs = np.zeros((len(query), value.shape[-1]))
    for i in range(len(query)):
        allowed = [j for j in range(len(key)) if mask is None or mask[i, j]]
        scores = np.array([np.dot(query[i], key[j]) / math.sqrt(len(query[i])) for j in allowed])
        for weight, j in zip(softmax(scores), allowed, strict=True):
            outputs[i] += weight * value[j]
    return outputs


def multi_head_attention(weights, inputs, memory, mask=None):
    """Section 3.2.2 for a batch; self-attention where memory is inputs.

    inputs `(batch, query_length, d_model)`, memory `(batch, key_length, d_model)`, mask boolean,
    broadcasts to `(batch, query_length, key_length)`.
    """
    batch, query_length, d_model = inputs.shape
    mask = np.broadcast_to(
        True if mask is None else mask, (batch, query_length, np.shape(memory)[1])
    )
    width = d_model // weights.num_heads
    outputs = []
    for row in range(batch):
        query, key = weights.query(inputs[row]), weights.key(memory[row])
        value = weights.value(memory[row])
        heads = []
        for head in range(weights.num_heads):
            columns = slice(head * width, (head + 1) * width)
            heads.append(
                scaled_dot_product_attention(
                    query[:, columns], key[:, columns], value[:, columns], mask[row]
                )
            )
        outputs.append(weights.output(np.concatenate(heads, axis=-1)))
    return np.stack(outputs)


def layer_norm(inputs, gain, bias, epsilon):
    """Ba et al., 2016: over the last axis, with the biased variance."""
    inputs = np.asarray(inputs, np.float64)
    mean = inputs.mean(axis=-1, keepdims=True)
    variance = ((inputs - mean) ** 2).mean(axis=-1, keepdims=True)
    return (inputs - mean) / np.sqrt(variance + epsilon) * gain + bias


def feed_forward(inner, outer, inputs):
    """Equation 2: max(0, x W_1 + b_1) W_2 + b_2."""
    return outer(np.maximum(0.0, inner(inputs)))


def residual(norm_position, norm, inputs, sublayer):
    """ "post": norm(x + sublayer(x)), section 3.1; "pre": x + sublayer(norm(x))."""
    if norm_position == "post":
        return norm(inputs + sublayer(inputs))
    return inputs + sublayer(norm(inputs))


def encoder_layer(weights, inputs, mask=None):
    """mask as in `multi_head_attention`."""
    hidden = residual(
        weights.norm_position,
        weights.self_attention_norm,
        inputs,
        lambda x: multi_head_attention(weights.self_attention, x, x, mask),
    )
    return residual(
        weights.norm_position,
        weights.feed_forward_norm,
        hidden,
        lambda x: feed_forward(weights.inner, weights.outer, x),
    )


def decoder_layer(weights, inputs, memory, mask=None, memory_mask=None):
    """Both masks as in `multi_head_attention`."""
    hidden = residual(
        weights.norm_position,
        weights.self_attention_norm,
        inputs,
        lambda x: multi_head_attention(weights.self_attention, x, x, mask),
    )
    hidden = residual(
        weights.norm_position,
        weights.cross_attention_norm,
        hidden,
        lambda x: multi_head_attention(weights.cross_attention, x, memory, memory_mask),
    )
    return residual(
        weights.norm_position,
        weights.feed_forward_norm,
        hidden,
        lambda x: feed_forward(weights.inner, weights.outer, x),
    )


def sinusoids(positions, d_model):
    """Section 3.5: PE(pos, 2i) = sin(pos / 10000^(2i / d)), PE(pos, 2i + 1) = cos(the same)."""
    table = np.zeros((len(positions), d_model))
    for row, position in enumerate(positions):
        for i in range(d_model // 2):
            angle = float(position) / 10000.0 ** (2 * i / d_model)
            table[row, 2 * i] = math.sin(angle)
            table[row, 2 * i + 1] = math.cos(angle)
    return table


def smoothed_distribution(labels, vocab_size, label_smoothing):
    """q of Szegedy et al., 2016, section 7: e / V everywhere, and 1 - e more at the label."""
    labels = np.asarray(labels)
    q = np.full((*labels.shape, vocab_size), label_smoothing / vocab_size)
    for index in np.ndindex(labels.shape):
        q[(*index, labels[index])] += 1.0 - label_smoothing
    return q


def token_losses(labels, logits, label_smoothing):
    """-sum_k q(k) log p(k) of every token, padding included."""
    logits = np.asarray(logits, np.float64)
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    q = smoothed_distribution(labels, logits.shape[-1], label_smoothing)
    return -(q * log_p).sum(axis=-1)


def smoothed_cross_entropy(labels, logits, label_smoothing):
    """Mean of the token losses over the real tokens, those whose label is not 0."""
    real = np.asarray(labels) != 0
    return token_losses(labels, logits, label_smoothing)[real].mean()


def smoothed_cross_entropy_gradient(labels, logits, label_smoothing):
    """d loss / d logits = (p - q) / tokens at real tokens, 0 at padding."""
    real = np.asarray(labels) != 0
    p = softmax(np.asarray(logits, np.float64))
    q = smoothed_distribution(labels, logits.shape[-1], label_smoothing)
    return (p - q) * real[..., None] / real.sum()


def finite_differences(function, inputs, size=1e-5):
    """Gradient of a scalar function by central differences."""
    inputs = np.array(inputs, np.float64)
    gradient = np.zeros_like(inputs)
    for index in np.ndindex(inputs.shape):
        value = inputs[index]
        inputs[index] = value + size
        above = function(inputs)
        inputs[index] = value - size
        below = function(inputs)
        inputs[index] = value
        gradient[index] = (above - below) / (2 * size)
    return gradient


def noam_rate(step, d_model, warmup_steps, factor=1.0):
    """Equation 3 for the update that follows `step` done ones, so its number is n = step + 1."""
    n = step + 1
    if n < warmup_steps:
        return factor * n / (math.sqrt(d_model) * warmup_steps * math.sqrt(warmup_steps))
    return factor / (math.sqrt(d_model) * math.sqrt(n))


# Weights out of built layers, as arrays: the one place that knows how the package packs them.


def read_linear(dense, part=0, num_parts=1):
    """The `part`-th of `num_parts` projections that lie side by side in one dense layer."""
    kernel, bias = (np.asarray(weight, np.float64) for weight in (dense.kernel, dense.bias))
    return Linear(np.split(kernel, num_parts, axis=1)[part], np.split(bias, num_parts)[part])


def read_attention(layer):
    if hasattr(layer, "query_key_value"):
        inputs = [read_linear(layer.query_key_value, part, 3) for part in range(3)]
    else:
        inputs = [read_linear(layer.query)]
        inputs += [read_linear(layer.key_value, part, 2) for part in range(2)]
    return Attention(*inputs, read_linear(layer.output_projection), layer.num_heads)


def read_norm(norm):
    return Norm(np.asarray(norm.gamma, np.float64), np.asarray(norm.beta, np.float64), norm.epsilon)


def read_encoder_layer(layer):
    return EncoderLayer(
        self_attention=read_attention(layer.self_attention),
        self_attention_norm=read_norm(layer.self_attention_residual.norm),
        inner=read_linear(layer.feed_forward.inner),
        outer=read_linear(layer.feed_forward.outer),
        feed_forward_norm=read_norm(layer.feed_forward_residual.norm),
        norm_position=layer.settings.norm_position,
    )


def read_decoder_layer(layer):
    return DecoderLayer(
        **vars(read_encoder_layer(layer)),
        cross_attention=read_attention(layer.cross_attention),
        cross_attention_norm=read_norm(layer.cross_attention_residual.norm),
    )

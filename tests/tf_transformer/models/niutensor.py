"""NiuTensor's Transformer as its article describes it, written anew in NumPy (float64).

Post-norm residuals, one fused product for queries, keys and values, positions as one half sine and
one half cosine with rates 10000^(-2i / (d - 2)), additive masks.
"""

import numpy as np

FORBIDDEN = -1e9


def random_weights(rng, source_vocab, target_vocab, num_layers, d_model, d_ff):
    """All weights by the names of `formats.originals.NIUTENSOR`; biases and gains random too."""
    weights = {
        "source.embedding": rng.normal(size=(source_vocab, d_model)) * d_model**-0.5,
        "target.embedding": rng.normal(size=(target_vocab, d_model)) * d_model**-0.5,
        "output.weight": rng.normal(size=(d_model, target_vocab)) * d_model**-0.5,
    }

    def dense(name, inputs, outputs):
        weights[f"{name}.weight"] = rng.normal(size=(inputs, outputs)) * inputs**-0.5
        weights[f"{name}.bias"] = rng.normal(size=outputs) * 0.3

    def norm(name):
        weights[f"{name}.weight"] = rng.uniform(0.5, 1.5, size=d_model)
        weights[f"{name}.bias"] = rng.normal(size=d_model) * 0.3

    for stack in ("encoder", "decoder"):
        for number in range(num_layers):
            layer = f"{stack}.{number}"
            for attention in ("self_attention", "cross_attention")[: 1 + (stack == "decoder")]:
                dense(f"{layer}.{attention}.query_key_value", d_model, 3 * d_model)
                dense(f"{layer}.{attention}.output", d_model, d_model)
                norm(f"{layer}.{attention}_norm")
            dense(f"{layer}.inner", d_model, d_ff)
            dense(f"{layer}.outer", d_ff, d_model)
            norm(f"{layer}.feed_forward_norm")
    return weights


def position_table(length, d_model):
    half = d_model // 2
    table = np.zeros((length, d_model))
    for pos in range(length):
        for i in range(half):
            rate = np.exp(-i * np.log(10000.0) / (half - 1))
            table[pos, i] = np.sin(pos * rate)
            table[pos, half + i] = np.cos(pos * rate)
    return table


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


class Network:
    """The forward pass.

    Args:
        weights: of `random_weights`.
        num_layers, num_heads: as the weights have them.
        epsilon: of the norms.
    """

    def __init__(self, weights, num_layers, num_heads, epsilon):
        self.weights = weights
        self.num_layers = num_layers
        self.num_heads = num_heads
        self.epsilon = epsilon

    def norm(self, name, x):
        variance = ((x - x.mean(-1, keepdims=True)) ** 2).mean(-1, keepdims=True)
        normalised = (x - x.mean(-1, keepdims=True)) / np.sqrt(variance + self.epsilon)
        return normalised * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def dense(self, name, x):
        return x @ self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def attention(self, name, x, memory, mask):
        d_model = x.shape[-1]
        # One product each for what asks and for what is asked; unused thirds are dropped.
        query = self.dense(f"{name}.query_key_value", x)[..., :d_model]
        _, key, value = np.split(self.dense(f"{name}.query_key_value", memory), 3, axis=-1)
        heads = []
        for q, k, v in zip(
            *(np.split(part, self.num_heads, axis=-1) for part in (query, key, value)), strict=True
        ):
            scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
            heads.append(softmax(scores + mask) @ v)
        return self.dense(f"{name}.output", np.concatenate(heads, axis=-1))

    def feed_forward(self, layer, x):
        hidden = np.maximum(self.dense(f"{layer}.inner", x), 0)
        return self.norm(f"{layer}.feed_forward_norm", x + self.dense(f"{layer}.outer", hidden))

    def embed(self, side, ids):
        table = self.weights[f"{side}.embedding"]
        d_model = table.shape[1]
        return table[ids] * np.sqrt(d_model) + position_table(ids.shape[1], d_model)

    def encode(self, source):
        x = self.embed("source", source)
        mask = np.where(source == 0, FORBIDDEN, 0)[:, None, :]
        for number in range(self.num_layers):
            layer = f"encoder.{number}"
            attended = self.attention(f"{layer}.self_attention", x, x, mask)
            x = self.norm(f"{layer}.self_attention_norm", x + attended)
            x = self.feed_forward(layer, x)
        return x

    def logits(self, source, target):
        memory = self.encode(source)
        x = self.embed("target", target)
        length = target.shape[1]
        future = np.triu(np.full((length, length), FORBIDDEN), 1)
        mask = np.where(target == 0, FORBIDDEN, 0)[:, None, :] + future
        memory_mask = np.where(source == 0, FORBIDDEN, 0)[:, None, :]
        for number in range(self.num_layers):
            layer = f"decoder.{number}"
            attended = self.attention(f"{layer}.self_attention", x, x, mask)
            x = self.norm(f"{layer}.self_attention_norm", x + attended)
            attended = self.attention(f"{layer}.cross_attention", x, memory, memory_mask)
            x = self.norm(f"{layer}.cross_attention_norm", x + attended)
            x = self.feed_forward(layer, x)
        return x @ self.weights["output.weight"]


def smoothed_loss(logits, labels, smoothing):
    """Mean over real tokens of the cross-entropy with the mass spread over the vocabulary."""
    log_p = logits - logits.max(-1, keepdims=True)
    log_p = log_p - np.log(np.exp(log_p).sum(-1, keepdims=True))
    own = np.take_along_axis(log_p, labels[..., None], -1)[..., 0]
    losses = -(1 - smoothing) * own - smoothing * log_p.mean(-1)
    return losses[labels != 0].mean()

"""OpenNMT-tf's Transformer in NumPy, with random weights under the names of its checkpoints.

This follows, in OpenNMT-tf 2.32.0: `opennmt/layers/position.py` (`SinusoidalPositionEncoder`,
`PositionEmbedder`), `layers/transformer.py` (`relative_positions`, `FeedForwardNetwork`,
`MultiHeadAttention`, `TransformerLayerWrapper`), `layers/common.py` (`Dense`, `LayerNorm`,
`LayerWrapper`), `encoders/self_attention_encoder.py`, `decoders/self_attention_decoder.py`
(`_run`), `models/sequence_to_sequence.py` (sharing of embeddings), `inputters/text_inputter.py`
(ids). `tests/parity/test_opennmt_tf.py` compares it with the program: names, logits, translations.
"""

import math
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

SPECIAL = ["<blank>", "<s>", "</s>"]
PAD, BEGIN, END = range(3)
OPTIONS = dict(
    num_layers=(2, 2),
    num_units=32,
    num_heads=4,
    ffn_inner_dim=48,
    ffn_activation="relu",
    mha_bias=True,
    position_encoder="sinusoids",
    maximum_relative_position=None,
    share_embeddings="NONE",
    pre_norm=True,
    output_layer_bias=True,
)
NUM_POSITIONS = 40
ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2,
    "swish": lambda x: x / (1 + np.exp(-x)),
}


def variable_shapes(options: dict, source_size: int, target_size: int) -> dict:
    """Returns the shapes of a checkpoint's variables, by name."""
    width, inner = options["num_units"], options["ffn_inner_dim"]
    shapes = {}

    def dense(name, num_inputs, num_outputs, bias=True):
        shapes[f"{name}/kernel"] = (num_inputs, num_outputs)
        if bias:
            shapes[f"{name}/bias"] = (num_outputs,)

    def norm(name):
        shapes.update({f"{name}/gamma": (width,), f"{name}/beta": (width,)})

    def wrapper(name):
        norm(f"{name}/{'input' if options['pre_norm'] else 'output'}_layer_norm")

    def attention(name, relative=None):
        wrapper(name)
        for layer in ("queries", "keys", "values", "output"):
            dense(f"{name}/layer/linear_{layer}", width, width, options["mha_bias"])
        if relative:
            vectors = (2 * relative + 1, width // options["num_heads"])
            for kind in ("keys", "values"):
                shapes[f"{name}/layer/relative_position_{kind}"] = vectors

    for stack, num_layers in zip(("encoder", "decoder"), options["num_layers"], strict=True):
        for index in range(num_layers):
            layer = f"model/{stack}/layers/{index}"
            attention(f"{layer}/self_attention", options["maximum_relative_position"])
            if stack == "decoder":
                attention(f"{layer}/attention/0")
            wrapper(f"{layer}/ffn")
            dense(f"{layer}/ffn/layer/inner", width, inner)
            dense(f"{layer}/ffn/layer/outer", inner, width)
        if options["pre_norm"]:
            norm(f"model/{stack}/layer_norm")
        if options["position_encoder"] == "learned":
            vectors = (NUM_POSITIONS + 1, width)
            shapes[f"model/{stack}/position_encoder/position_embedding"] = vectors
    shapes["model/examples_inputter/features_inputter/embedding"] = (source_size, width)
    if options["share_embeddings"] in ("NONE", "TARGET"):
        shapes["model/examples_inputter/labels_inputter/embedding"] = (target_size, width)
    dense("model/decoder/output_layer", width, target_size, options["output_layer_bias"])
    if options["share_embeddings"] in ("TARGET", "ALL"):
        del shapes["model/decoder/output_layer/kernel"]
    return shapes


def random_variables(options: dict, source_size: int, target_size: int) -> dict:
    """Returns the variables of a model, biases and gains random, too."""
    random = np.random.default_rng(1)
    found = {}
    for name, shape in variable_shapes(options, source_size, target_size).items():
        if name.endswith("gamma"):
            values = random.uniform(0.5, 1.5, shape)
        else:  # small, except what makes one token differ from another
            is_small = name.endswith(("embedding", "bias", "beta"))
            values = random.normal(0, 0.2 if is_small else 0.4, shape)
        found[name] = values.astype("float32")
    return found


def save_checkpoint(folder: pathlib.Path, variables: Mapping[str, np.ndarray], step: int) -> None:
    """Saves variables with TensorFlow, as `opennmt/utils/checkpoint.py` does."""
    tree: dict = {"optimizer": {"iter": tf.Variable(step, dtype="int64")}}
    for name, value in variables.items():
        *path, last = name.split("/")
        node = tree
        for part in path:
            node = node.setdefault(part, {})
        node[last] = tf.Variable(value)
    manager = tf.train.CheckpointManager(_trackable(tree), str(folder), max_to_keep=8)
    manager.save(checkpoint_number=step)


def _trackable(tree):
    if not isinstance(tree, dict):
        return tree
    return tf.train.Checkpoint(**{name: _trackable(value) for name, value in tree.items()})


class Reference:
    """A model, computed one sentence at a time, without padding.

    Args:
        options: those of `opennmt.models.Transformer`.
        variables: the variables of a checkpoint.
    """

    def __init__(self, options: dict, variables: Mapping[str, np.ndarray]):
        self.options = options
        self.variables = {name: value.astype("float64") for name, value in variables.items()}

    def logits(self, source: Sequence[int], target: Sequence[int]) -> np.ndarray:
        """Computes logits `(len(target), vocab_size)`; `target` begins with the begin id."""
        features = self.variables["model/examples_inputter/features_inputter/embedding"]
        labels = self.variables.get("model/examples_inputter/labels_inputter/embedding", features)
        memory = self._stack("encoder", features[list(source)])
        hidden = self._stack("decoder", labels[list(target)], memory)
        name = "model/decoder/output_layer"
        kernel = self.variables.get(f"{name}/kernel", labels.T)
        return hidden @ kernel + self.variables.get(f"{name}/bias", 0)

    def _stack(self, stack, inputs, memory=None):
        x = inputs * np.sqrt(self.options["num_units"])
        x = x + self._positions(stack, len(x))
        for index in range(self.options["num_layers"][stack == "decoder"]):
            name = f"model/{stack}/layers/{index}"
            x = self._wrapped(f"{name}/self_attention", x, self._attention)
            if memory is not None:
                x = self._wrapped(f"{name}/attention/0", x, self._attention, memory)
            x = self._wrapped(f"{name}/ffn", x, self._feed_forward)
        return self._norm(f"model/{stack}/layer_norm", x) if self.options["pre_norm"] else x

    def _positions(self, stack, length):
        positions = np.arange(1, length + 1)
        kind, width = self.options["position_encoder"], self.options["num_units"]
        if kind is None:
            return 0.0
        if kind == "learned":
            table = self.variables[f"model/{stack}/position_encoder/position_embedding"]
            return table[np.minimum(positions, NUM_POSITIONS)]
        increment = np.log(10000) / (width / 2 - 1)
        times = positions[:, None] * np.exp(np.arange(width // 2) * -increment)
        return np.concatenate([np.sin(times), np.cos(times)], axis=1)

    def _wrapped(self, name, x, layer, *arguments):
        if self.options["pre_norm"]:
            normed = self._norm(f"{name}/input_layer_norm", x)
            return layer(f"{name}/layer", normed, *arguments) + x
        return self._norm(f"{name}/output_layer_norm", layer(f"{name}/layer", x, *arguments) + x)

    def _norm(self, name, x):
        centered = x - x.mean(-1, keepdims=True)
        normed = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-3)
        return normed * self.variables[f"{name}/gamma"] + self.variables[f"{name}/beta"]

    def _dense(self, name, x):
        return x @ self.variables[f"{name}/kernel"] + self.variables.get(f"{name}/bias", 0)

    def _feed_forward(self, name, x):
        activation = ACTIVATIONS[self.options["ffn_activation"]]
        return self._dense(f"{name}/outer", activation(self._dense(f"{name}/inner", x)))

    def _attention(self, name, x, memory=None):
        num_heads = self.options["num_heads"]
        size = self.options["num_units"] // num_heads

        def heads(layer, inputs):
            outputs = self._dense(f"{name}/linear_{layer}", inputs)
            return outputs.reshape(len(inputs), num_heads, size).transpose(1, 0, 2)

        queries = heads("queries", x) * size**-0.5
        keys, values = (
            heads(layer, x if memory is None else memory) for layer in ("keys", "values")
        )
        dot = queries @ keys.transpose(0, 2, 1)
        distance = np.arange(keys.shape[1])[None] - np.arange(len(x))[:, None]
        relative = self.options["maximum_relative_position"] if memory is None else None
        if relative:
            places = np.clip(distance, -relative, relative) + relative
            vectors = self.variables[f"{name}/relative_position_keys"][places]
            dot = dot + np.einsum("hqd,qkd->hqk", queries, vectors)
        if memory is None and "decoder" in name:
            dot = np.where(distance > 0, -np.inf, dot)
        weights = np.exp(dot - dot.max(-1, keepdims=True))
        weights = weights / weights.sum(-1, keepdims=True)
        context = weights @ values
        if relative:
            vectors = self.variables[f"{name}/relative_position_values"][places]
            context = context + np.einsum("hqk,qkd->hqd", weights, vectors)
        return self._dense(f"{name}/linear_output", context.transpose(1, 0, 2).reshape(len(x), -1))

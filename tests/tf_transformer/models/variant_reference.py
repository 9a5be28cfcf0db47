"""Every variant's equations in NumPy float64, from the settings as they are written.

Knows nothing of the package but the names of its weights. A setting of one side, such as
`{"decoder": {"norm_type": "l1"}}`, holds there; else the common one does.
"""

import math

import numpy as np

DEFAULTS = {
    "norm_position": "post",
    "norm_type": "layer",
    "positions": "interleaved",
    "first_position": 0,
    "begin_embedding": "own",
    "language_tags": "source",
    "source_end": True,
    "decoder_autoregression": "self_attention",
    "relative_positions": "none",
    "max_relative_distance": 16,
    "relative_buckets": 16,
    "dense_bias": True,
    "scaled_embeddings": True,
    "embedding_norm": False,
    "activation": "relu",
    "layer_history": False,
    "final_norm": None,
    "cross_num_heads": None,
    "logits_bias": None,
}
EPSILON = 1e-6


class VariantReference:
    """A model of these settings and weights; `logits` is its forward pass."""

    def __init__(self, settings, weights):
        self.settings = DEFAULTS | settings
        self.weights = {name: np.asarray(value, np.float64) for name, value in weights.items()}

    def logits(self, target, source=None):
        memory = memory_mask = None
        if source is not None:
            seen = source != 0
            if not self.settings["source_end"]:
                seen &= source != 3
            memory_mask = np.broadcast_to(seen[:, None, :], (*source.shape, len(source.T)))
            memory = self.stack("encoder", self.embed("source", source), memory_mask)
            memory_mask = seen[:, None, :]
        causal = np.tril(np.ones((target.shape[1],) * 2, bool)) & (target != 0)[:, None, :]
        if self.settings["language_tags"] == "end_and_begin":
            causal[:, 1:, 0] = False
        hidden = self.stack("decoder", self.embed("target", target), causal, memory, memory_mask)
        if self.settings["tied_embeddings"] in ("target", "all"):
            logits = hidden @ self.weights["target_embedding/embeddings"].T
            return logits + self.weights["logits_bias"] if self.settings["logits_bias"] else logits
        logits = hidden @ self.weights["logits_projection/kernel"]
        if self.settings["logits_bias"] is False:
            return logits
        return logits + self.weights["logits_projection/bias"]

    def side(self, side, name):
        return self.settings.get(side, {}).get(name, self.settings[name])

    def embed(self, name, ids):
        side = {"source": "encoder", "target": "decoder"}[name]
        shared = self.settings["tied_embeddings"] in ("inputs", "all")
        table = self.weights[f"{'target' if shared else name}_embedding/embeddings"]
        d_model = self.side(side, "d_model")
        scale = math.sqrt(d_model) if self.settings["scaled_embeddings"] else 1
        vectors = table[ids] * scale
        if side == "decoder":
            begin = {"own": vectors[ids == 2], "zero": 0, "end": table[3] * scale}
            vectors[ids == 2] = begin[self.settings["begin_embedding"]]
        kind = self.settings["positions"]
        for row, token in np.ndindex(ids.shape):
            position = self.position(name, ids[row], token)
            if kind == "learned":
                vectors[row, token] += self.weights[f"{name}_positions/vectors"][position]
            elif kind != "none":
                place = position + self.settings["first_position"]
                vectors[row, token] += sinusoid(kind, place, d_model)
        if self.settings["embedding_norm"]:
            vectors = self.norm(side, f"{name}_embedding_norm", vectors)
        return vectors

    def position(self, name, ids, token):
        """The position of a token in the order of the original of the model."""
        tags, order = self.settings["language_tags"], list(range(len(ids)))
        if name == "source" and tags == "both_in_source":
            order = [1, 0, *order[2:]]
        if name == "source" and tags == "end_and_begin":  # the tag behind the end
            number = np.count_nonzero(ids)
            order = [*order[1:number], 0, *order[max(number, 1) :]]
        if name == "target" and tags == "end_and_begin":  # whose begin id is no token
            return order[1:].index(token) if token else 0
        return order.index(token)

    def stack(self, side, hidden, mask, memory=None, memory_mask=None):
        pre = self.side(side, "norm_position") == "pre"
        outputs = [hidden]  # y_0 ... y_l
        for number in range(self.settings[f"num_{side}_layers"]):
            hidden = self.layer(side, number, hidden, mask, memory, memory_mask)
            outputs.append(hidden)
            if self.side(side, "layer_history"):
                mix = self.weights[f"{side}/history/mix_{number}"]

                def norm(k, x):
                    return self.norm(side, f"{side}/history/norm_{k}", x)

                if pre:
                    hidden = mix[0] * outputs[0]
                    for k in range(1, number + 2):
                        hidden = hidden + mix[k] * norm(k - 1, outputs[k])
                else:
                    mixed = sum(mix[k] * outputs[k] for k in range(number + 2))
                    hidden = norm(number, mixed)
        final_norm = self.side(side, "final_norm")
        if pre if final_norm is None else final_norm:
            hidden = self.norm(side, f"{side}/final_norm", hidden)
        return hidden

    def layer(self, side, number, hidden, mask, memory, memory_mask):
        def sublayer(name, function, inputs):
            place = f"{side}/layer_{number}/{name}_residual/norm"
            if self.side(side, "norm_position") == "pre":
                return inputs + function(self.norm(side, place, inputs))
            return self.norm(side, place, inputs + function(inputs))

        where = f"{side}/layer_{number}"
        if side == "decoder" and self.settings["decoder_autoregression"] == "ssru":
            hidden = sublayer("ssru", lambda x: self.ssru(where, x), hidden)
        else:
            hidden = sublayer(
                "self_attention", lambda x: self.self_attention(side, where, x, mask), hidden
            )
        if memory is not None:
            hidden = sublayer(
                "cross_attention",
                lambda x: self.cross_attention(side, where, x, memory, memory_mask),
                hidden,
            )
        return sublayer("feed_forward", lambda x: self.feed_forward(where, x), hidden)

    def self_attention(self, side, where, x, mask):
        where += "/self_attention"
        query, key, value = np.split(self.linear(f"{where}/query_key_value", x), 3, axis=-1)
        relative = self.settings["relative_positions"]
        keys = values = None
        if relative.startswith("keys"):
            keys = self.weights[f"{where}/relative_keys/vectors"]
        if relative == "keys_values":
            values = self.weights[f"{where}/relative_values/vectors"]
        heads = self.side(side, "num_heads")
        bias = self.bucket_bias(side) if relative == "buckets" else None
        joined = self.attend(heads, query, key, value, mask, keys, values, bias)
        return self.linear(f"{where}/output_projection", joined)

    def bucket_bias(self, side):
        """The bias of a head for a key at some distance from the query; Raffel et al., 2020."""
        biases = self.weights[f"{side}/relative_bias/biases"]
        number, limit = self.settings["relative_buckets"], self.settings["max_relative_distance"]

        def bias(head, distance):
            first, size, count = 0, -distance, number
            if side == "encoder":
                count //= 2
                first = count if distance > 0 else 0
                size = abs(distance)
            if size < count // 2:
                return biases[first + max(size, 0), head]
            share = math.log(size / (count // 2)) / math.log(limit / (count // 2))
            place = count // 2 + int(share * (count - count // 2))
            return biases[first + min(place, count - 1), head]

        return bias

    def ssru(self, where, x):
        """One position at a time; Kim et al., 2019."""
        kernel = self.weights[f"{where}/ssru/value_gate/kernel"]
        weight, forget_weight = np.split(kernel, 2, axis=1)
        state, outputs = np.zeros_like(x[:, 0]), []
        for position in range(x.shape[1]):
            gate = x[:, position] @ forget_weight + self.weights[f"{where}/ssru/gate_bias"]
            forget = ACTIVATIONS["sigmoid"](gate)
            state = forget * state + (1 - forget) * (x[:, position] @ weight)
            outputs.append(np.maximum(state, 0))
        return np.stack(outputs, axis=1)

    def cross_attention(self, side, where, x, memory, mask):
        where += "/cross_attention"
        query = self.linear(f"{where}/query", x)
        key, value = np.split(self.linear(f"{where}/key_value", memory), 2, axis=-1)
        heads = self.side(side, "cross_num_heads") or self.side(side, "num_heads")
        return self.linear(
            f"{where}/output_projection", self.attend(heads, query, key, value, mask)
        )

    def attend(
        self, heads, query, key, value, mask, relative_keys=None, relative_values=None, bias=None
    ):
        """One query, key and head at a time; relative vectors as in Shaw et al., 2018."""
        batch, length, width = query.shape
        size, limit = width // heads, self.settings["max_relative_distance"]
        outputs = np.zeros_like(query)
        for b, i, h in np.ndindex(batch, length, heads):
            part = slice(h * size, (h + 1) * size)
            allowed = [
                j
                for j in range(key.shape[1])
                if np.broadcast_to(mask, (batch, length, key.shape[1]))[b, i, j]
            ]
            if not allowed:  # a query of padding, which nobody reads
                continue
            places = [min(max(j - i, -limit), limit) + limit for j in allowed]
            scores = []
            for j, place in zip(allowed, places, strict=True):
                vector = key[b, j, part]
                if relative_keys is not None:
                    vector = vector + relative_keys[place]
                score = query[b, i, part] @ vector / math.sqrt(size)
                scores.append(score + bias(h, j - i) if bias else score)
            powers = np.exp(np.array(scores) - max(scores))
            for weight, j, place in zip(powers / powers.sum(), allowed, places, strict=True):
                vector = value[b, j, part]
                if relative_values is not None:
                    vector = vector + relative_values[place]
                outputs[b, i, part] += weight * vector
        return outputs

    def feed_forward(self, where, x):
        inner = self.linear(f"{where}/feed_forward/inner", x)
        activation = self.settings["activation"]
        kinds = {"glu": "sigmoid", "reglu": "relu", "geglu": "gelu", "swiglu": "swish"}
        kinds["geglu_tanh"] = "gelu_tanh"
        if activation in kinds:
            gate, value = np.split(inner, 2, axis=-1)
            inner = ACTIVATIONS[kinds[activation]](gate) * value
        else:
            inner = ACTIVATIONS[activation](inner)
        return self.linear(f"{where}/feed_forward/outer", inner)

    def linear(self, where, x):
        product = x @ self.weights[f"{where}/kernel"]
        return product + self.weights[f"{where}/bias"] if self.settings["dense_bias"] else product

    def norm(self, side, where, x):
        kind = self.side(side, "norm_type")
        if kind == "rms":
            root = np.sqrt((x**2).mean(axis=-1, keepdims=True) + EPSILON)
            return x / root * self.weights[f"{where}/scale"]
        centred = x - x.mean(axis=-1, keepdims=True)
        spread = {
            "layer": lambda: np.sqrt((centred**2).mean(axis=-1, keepdims=True) + EPSILON),
            "sample_std": lambda: x.std(axis=-1, ddof=1, keepdims=True) + EPSILON,
            "l1": lambda: np.abs(centred).mean(axis=-1, keepdims=True) + EPSILON,
        }[kind]()
        gamma, beta = (self.weights[f"{where}/{name}"] for name in ("gamma", "beta"))
        return centred / spread * gamma + beta


def _gelu(x):
    return x * 0.5 * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0)))


ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0.0),
    "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "swish": lambda x: x / (1.0 + np.exp(-x)),
    "gelu": _gelu,
    "gelu_tanh": lambda x: x / 2 * (1 + np.tanh((2 / math.pi) ** 0.5 * (x + 0.044715 * x**3))),
}


def sinusoid(kind, position, width):
    """The encoding of one position in one of the layouts."""
    vector = np.zeros(width)
    for i in range(width // 2):
        divisor = max(width - 2, 1) if kind == "concatenated" else width
        angle = position / 10000.0 ** (2 * i / divisor)
        places = (2 * i, 2 * i + 1) if kind == "interleaved" else (i, width // 2 + i)
        vector[places[0]], vector[places[1]] = math.sin(angle), math.cos(angle)
    return vector

"""The two functions of a model in the format litert: `encode`, and `decode_step` for one token.

LiteRT runs them with its built-in operations only. Every state between steps is an argument and a
result, and the lengths are those of the arguments, so that the program that calls them decides how
much memory a sentence takes.
"""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import tensorflow as tf

from tf_transformer.config import TransformerConfig
from tf_transformer.layers.masks import padding_attention_mask
from tf_transformer.models.transformer import Transformer
from tf_transformer.storage.saved_model import write_saved_model

# Names of the axes whose lengths the caller chooses.
_SOURCE_LENGTH, _TARGET_LENGTH = "source_length", "target_length"


class Argument(NamedTuple):
    """An input of a function.

    Attributes:
        dtype: "int32", "bool" or "float32".
        shape: the length of each axis, or the name of an axis.
    """

    dtype: str
    shape: tuple[int | str, ...]

    def spec(self, name: str) -> tf.TensorSpec:
        """Returns TensorFlow's description of it."""
        shape = [None if isinstance(length, str) else length for length in self.shape]
        return tf.TensorSpec(shape, self.dtype, name)


Arguments = dict[str, Argument]


def encode_inputs() -> Arguments:
    """Returns the inputs of `encode`."""
    return {"source": Argument("int32", (1, _SOURCE_LENGTH))}


def encode_outputs(config: TransformerConfig) -> Arguments:
    """Returns the outputs of `encode`, which are inputs of `decode_step`."""
    side = config.side("decoder")
    head_dim = side.head_dim_of(side.cross_num_heads)
    projected = Argument("float32", (1, side.cross_num_heads, _SOURCE_LENGTH, head_dim))
    outputs = {"memory_mask": Argument("bool", (1, _SOURCE_LENGTH))}
    for index in range(config.num_decoder_layers):
        outputs |= {f"memory_key_{index}": projected, f"memory_value_{index}": projected}
    return outputs


def caches(config: TransformerConfig) -> Arguments:
    """Returns what `decode_step` takes from the step before: zeros in the first one."""
    side, layers = config.side("decoder"), range(config.num_decoder_layers)
    if config.decoder_autoregression == "ssru":
        return {f"state_{index}": Argument("float32", (1, 1, side.d_model)) for index in layers}
    head_dim = side.head_dim_of(side.num_heads)
    entries = Argument("float32", (1, side.num_heads, _TARGET_LENGTH, head_dim))
    return {f"{part}_{index}": entries for index in layers for part in ("key", "value")}


def step_inputs(config: TransformerConfig) -> Arguments:
    """Returns the inputs of `decode_step`."""
    newest = {"token": Argument("int32", (1,)), "position": Argument("int32", (1,))}
    return newest | encode_outputs(config) | caches(config)


def step_outputs(config: TransformerConfig) -> Arguments:
    """Returns the outputs of `decode_step`."""
    return {"logits": Argument("float32", (1, config.target_vocab_size))} | caches(config)


@dataclasses.dataclass(frozen=True, eq=False)
class _CacheStep:
    """A `CacheStep` of one hypothesis, whose entries are in the order of the positions.

    Attributes:
        attention_mask: `(1, 1, 1, target_length)` bool, True at positions up to the newest token's.
        is_newest: `(1, 1, target_length, 1)` float32, 1 at the newest token's position, else 0.
        distances: `(1, target_length)` int32, each position relative to the newest token's.
    """

    attention_mask: Any
    is_newest: Any
    distances: Any

    beam_size: ClassVar[int] = 1

    @classmethod
    def at(cls, position: Any, layer_cache: tuple[Any, Any]) -> "_CacheStep":
        """Returns the step of a position, `(1,)`."""
        positions = tf.range(tf.shape(layer_cache[0])[2])
        is_newest = tf.cast(tf.equal(positions, position), tf.float32)
        return cls(
            (positions <= position)[tf.newaxis, tf.newaxis, tf.newaxis],
            is_newest[tf.newaxis, tf.newaxis, :, tf.newaxis],
            (positions - position)[tf.newaxis],
        )

    def hide_begin(self, position: Any) -> "_CacheStep":
        """Returns the step without the first position, see `CacheStep.hide_begin`."""
        is_first = tf.equal(self.distances + position, 0) & (self.distances < 0)
        mask = self.attention_mask & ~is_first[:, tf.newaxis, tf.newaxis]
        return dataclasses.replace(self, attention_mask=mask)

    def write(self, layer_cache: tuple[Any, Any], entries: Any) -> tuple[Any, Any]:
        """Writes the newest token's key and value, `(2, 1, num_heads, 1, head_dim)`.

        By products, not by a selection, which LiteRT computes entry by entry.
        """
        former = 1.0 - self.is_newest
        keys, values = (
            cache * former + entry * self.is_newest
            for cache, entry in zip(layer_cache, tf.unstack(entries), strict=True)
        )
        return keys, values

    def read(self, layer_cache: tuple[Any, Any]) -> tuple[Any, Any]:
        """Returns the keys and the values."""
        return layer_cache


class _RecurrentStep:
    """A `RecurrentStep` of one hypothesis, which continues itself."""

    beam_size = 1

    def advance(self, layer_cache: Any, factors: Any, terms: Any) -> Any:
        """Computes the new state, `(1, 1, d_model)`, see `RecurrentStep.advance`."""
        return (factors * layer_cache[0] + terms)[tf.newaxis]


def _encode(model: Transformer, source: tf.Tensor) -> dict[str, tf.Tensor]:
    outputs = {"memory_mask": model.source_mask(source)}
    projected = model.decoder.project_memory(model.encode(source))
    for index, layer in enumerate(projected):
        outputs[f"memory_key_{index}"] = layer["key"]
        outputs[f"memory_value_{index}"] = layer["value"]
    return outputs


def _decode_step(model: Transformer, inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    layers, position = range(model.config.num_decoder_layers), inputs["position"]
    names = list(caches(model.config))
    step: _CacheStep | _RecurrentStep
    if model.config.decoder_autoregression == "ssru":
        layer_caches, step = [inputs[name] for name in names], _RecurrentStep()
    else:
        layer_caches = [(inputs[f"key_{index}"], inputs[f"value_{index}"]) for index in layers]
        step = _CacheStep.at(position, layer_caches[0])
    projected = [
        {part: inputs[f"memory_{part}_{index}"] for part in ("key", "value")} for index in layers
    ]
    mask = padding_attention_mask(inputs["memory_mask"])
    logits, new, _ = model.step(inputs["token"], position, layer_caches, step, projected, mask)
    return {"logits": logits} | dict(zip(names, tf.nest.flatten(new), strict=True))


def save(model: Transformer, folder: pathlib.Path) -> None:
    """Saves both functions as signatures of a SavedModel.

    Args:
        model: the model.
        folder: an existing folder.

    Raises:
        OSError: a file cannot be written.
    """
    module = tf.Module()
    module.values = [weight.value for weight in model.weights]
    functions = {
        "encode": (lambda source: _encode(model, source), encode_inputs()),
        "decode_step": (lambda **inputs: _decode_step(model, inputs), step_inputs(model.config)),
    }
    signatures = {
        name: tf.function(function, autograph=False).get_concrete_function(
            **{argument: described.spec(argument) for argument, described in inputs.items()}
        )
        for name, (function, inputs) in functions.items()
    }
    write_saved_model(module, folder, signatures)

"""One sentence with the logits of its model, which a file in the format litert must reproduce."""

import importlib.util
import pathlib
import warnings
from typing import Any, NamedTuple

import numpy as np

from tf_transformer.config import TransformerConfig
from tf_transformer.errors import InputError
from tf_transformer.formats.writers.litert_signatures import caches
from tf_transformer.models.transformer import Transformer
from tf_transformer.text.special_ids import BEGIN_ID, END_ID, PAD_ID

_LENGTH = 12
_NUM_PADDING = 3
# The largest difference of a logit, relative to the largest logit, by the dtype of the weights.
_TOLERANCES = {"float32": 1e-4, "float16": 1e-2, "int8": 0.1}


class Sample(NamedTuple):
    """A sentence of random tokens.

    Attributes:
        source: `(1, source_length)` int32, padded.
        target: `(target_length,)` int32, the begin id first.
        logits: `(target_length, target_vocab_size)`, those of the model.
    """

    source: np.ndarray
    target: np.ndarray
    logits: np.ndarray

    @classmethod
    def of(cls, model: Transformer) -> "Sample":
        """Returns a sentence with a model's logits."""
        config, random = model.config, np.random.default_rng(0)
        length = min(_LENGTH, config.max_length)
        source, target = (
            random.integers(min(END_ID + 1, size - 1), size, length - 1, "int32")
            for size in (model.source_embedding.vocab_size, config.target_vocab_size)
        )
        padding = [PAD_ID] * min(_NUM_PADDING, config.max_length - length)
        source = np.array([[*source, END_ID, *padding]], "int32")
        target = np.array([BEGIN_ID, *target], "int32")
        logits = model({"source": source, "target": target[np.newaxis]})
        return cls(source, target, np.asarray(logits)[0])

    def check(self, interpreter: Any, config: TransformerConfig, dtype: str) -> float:
        """Compares the logits of a file with those of the model.

        Args:
            interpreter: an interpreter of the file.
            config: settings of the model.
            dtype: dtype of the file's weights.

        Returns:
            The largest difference, relative to the largest logit.

        Raises:
            InputError: the difference is too large for the dtype, or a logit is not finite.
        """
        found = step_logits(interpreter, config, self.source, self.target)
        difference = np.abs(found - self.logits).max() / np.abs(self.logits).max()
        if not difference <= _TOLERANCES[dtype]:  # also if it is not a number
            raise InputError(
                f"the logits of the model in the format litert, with weights in {dtype}, differ by "
                f"{difference:.2g} of the largest, expected at most {_TOLERANCES[dtype]:g}"
            )
        return float(difference)


def open_interpreter(path: pathlib.Path) -> Any:
    """Returns LiteRT's interpreter of a file, or TensorFlow's if LiteRT is not installed."""
    if importlib.util.find_spec("ai_edge_litert") is not None:
        from ai_edge_litert.interpreter import Interpreter

        return Interpreter(str(path), num_threads=1)
    import tensorflow as tf

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TensorFlow will drop it one day, and says so
        return tf.lite.Interpreter(str(path), num_threads=1)


def first_caches(config: TransformerConfig, target_length: int) -> dict[str, np.ndarray]:
    """Returns the caches of the first step, for targets of at most `target_length` tokens."""
    return {
        name: np.zeros([target_length if isinstance(x, str) else x for x in cache.shape], "float32")
        for name, cache in caches(config).items()
    }


def step_logits(
    interpreter: Any, config: TransformerConfig, source: np.ndarray, target: np.ndarray
) -> np.ndarray:
    """Computes the logits of a target step by step.

    Args:
        interpreter: an interpreter of the file.
        config: settings of the model.
        source: `(1, source_length)` int32.
        target: `(target_length,)` int32, the begin id first.

    Returns:
        `(target_length, target_vocab_size)` float32.
    """
    encode, step = map(interpreter.get_signature_runner, ("encode", "decode_step"))
    memory, state, logits = encode(source=source), first_caches(config, len(target)), []
    for position in range(len(target)):
        now = dict(token=target[position : position + 1], position=np.array([position], "int32"))
        state = step(**now, **memory, **state)
        logits.append(state.pop("logits")[0])
    return np.stack(logits)

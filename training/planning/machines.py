"""Speeds of training that others have published, and what they mean for other sizes."""

import dataclasses
import math
from collections.abc import Mapping

from tf_transformer.config import TransformerConfig
from training.planning.operations import training_operations

# The size of the vocabulary in Vaswani et al., 2017, and the mean length of WMT's English-German
# sentences, in pieces.
_VOCAB_SIZE = 37_000
_LENGTH = 27


@dataclasses.dataclass(frozen=True)
class Machine:
    """A device whose speed in training has been published.

    Args:
        tokens_per_second: for a preset, target tokens per second and device.
        dtype: the precision.
        source: where this is published.
    """

    tokens_per_second: Mapping[str, float]
    dtype: str
    source: str

    def operations_per_second(self, config: TransformerConfig) -> float:
        """Returns operations of matrix products per second, see `training_operations`.

        Small models reach less of a device's speed than large ones, so of several presets, the one
        with the most similar number of operations per token counts.
        """
        wanted = _operations_per_token(config)
        speeds = {}
        for preset, speed in self.tokens_per_second.items():
            sizes = {"source_vocab_size": _VOCAB_SIZE, "target_vocab_size": _VOCAB_SIZE}
            operations = _operations_per_token(TransformerConfig.preset(preset, **sizes))
            speeds[abs(math.log(operations / wanted))] = operations * speed
        return speeds[min(speeds)]


def _operations_per_token(config: TransformerConfig) -> float:
    return training_operations(config).of_pair(_LENGTH, _LENGTH) / _LENGTH


MACHINES = {
    "p100": Machine(
        {"base": 25_000 / 0.4 / 8, "big": 25_000 / 1.0 / 8},
        "float32",
        "Vaswani et al., 2017, section 5.2: 0.4 s and 1.0 s for 25,000 target tokens, 8 devices",
    ),
    "v100": Machine({"big": 17_300}, "float16", "OpenNMT-tf, documentation: one device"),
    "a100": Machine(
        {"big": 82_000},
        "float16",
        "NVIDIA, DeepLearningExamples, Transformer for PyTorch: one device",
    ),
}

"""What the models of an ensemble have in common."""

import dataclasses
import math
from collections.abc import Sequence

from tf_transformer.config import TransformerConfig
from tf_transformer.errors import InputError
from tf_transformer.printable import shown

# What a search does before and after the models.
_SAME = ("source_vocab_size", "target_vocab_size", "language_tags", "source_end")


def common_config(configs: Sequence[TransformerConfig]) -> TransformerConfig:
    """Returns the settings of an ensemble, as far as a search needs them.

    Args:
        configs: the settings of each model.

    Returns:
        The settings of the first model, with the smallest `max_length`.

    Raises:
        InputError: there is no model, one is a language model, or the models differ in their
            vocabularies' sizes or in how sources are written.
    """
    if not configs:
        raise InputError("an ensemble needs at least one model")
    if any(config.source_vocab_size is None for config in configs):
        raise InputError("a language model has no source to translate; expected translation models")
    for name in _SAME:
        values = [getattr(config, name) for config in configs]
        if any(value != values[0] for value in values):
            raise InputError(
                f"the models of an ensemble must have the same {name}. "
                f"Received: {', '.join(map(str, values))}"
            )
    return dataclasses.replace(configs[0], max_length=min(c.max_length for c in configs))


def normalized_weights(weights: Sequence[float] | None, number: int) -> list[float]:
    """Returns the weights of an ensemble's members, divided by their sum.

    Args:
        weights: positive numbers; None means equal weights.
        number: number of members.

    Raises:
        InputError: there is another number of weights, or one is not positive or not finite.
    """
    given = [1.0] * number if weights is None else list(weights)
    if len(given) != number:
        raise InputError(f"expected a weight for each of {number} models, got {len(given)}")
    for weight in given:
        if not (math.isfinite(weight) and weight > 0):
            raise InputError(f"a model's weight: expected a positive number, got {shown(weight)}")
    largest = max(given)  # whose sum with others may be infinite
    total = sum(weight / largest for weight in given)
    return [weight / largest / total for weight in given]

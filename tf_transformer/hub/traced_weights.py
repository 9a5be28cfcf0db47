"""The variables of a traced graph, which LoRA and quantization add to and replace."""

from typing import Any

import keras


class TracedWeights:
    """Tells whether a model has other variables than when a graph of it was traced.

    The graph reads the variables that existed then.
    """

    def __init__(self) -> None:
        self._weights: dict[str, list[Any]] = {}

    def changed(self, graph: str, model: keras.Model) -> bool:
        """Returns whether the variables differ from those at the last call for this graph."""
        former, weights = self._weights.get(graph, []), model.weights
        self._weights[graph] = weights
        return [id(weight) for weight in weights] != [id(weight) for weight in former]

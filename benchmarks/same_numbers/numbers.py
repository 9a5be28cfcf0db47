"""What a version computes, in a file: arrays by what they are, the case, and their name."""

import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

NAME = "numbers.npz"


class Numbers:
    """Collects arrays; all of one case are compared relative to the largest of them."""

    def __init__(self):
        self._arrays: dict[str, np.ndarray] = {}

    def add(self, what: str, case: str, arrays: Mapping[str, Any]) -> None:
        """Adds numbers or texts by their names, such as the gradients of one model.

        Raises:
            ValueError: there are such already.
        """
        for name, value in arrays.items():
            key = "|".join((what, case, name))
            if key in self._arrays:
                raise ValueError(f"Expected {key!r} once")
            self._arrays[key] = _plain(value)

    def save(self, directory: pathlib.Path) -> None:
        directory.mkdir(exist_ok=True)
        np.savez(directory / NAME, **self._arrays)


def texts(values: Iterable[str | bytes]) -> np.ndarray:
    """Texts as an array that needs no pickle."""
    return np.array([text.encode() if isinstance(text, str) else text for text in values], "S")


def _plain(value):
    value = np.asarray(value)
    if value.dtype.kind == "O":  # strings of TensorFlow
        return texts(value.ravel()).reshape(value.shape)
    if value.dtype.kind == "V":  # bfloat16
        return value.astype("float32")
    return value


def read_numbers(directory: pathlib.Path) -> dict[tuple[str, str, str], np.ndarray]:
    """Arrays by what they are, case, and name."""
    with np.load(directory / NAME) as arrays:
        return {tuple(key.split("|", 2)): arrays[key] for key in arrays}

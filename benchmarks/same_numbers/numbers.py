"""Stores what a version computes in a file: arrays by kind, case and name."""

import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

NAME = "numbers.npz"


class Numbers:
    """A collection of arrays; those of one case are compared relative to their largest value."""

    def __init__(self):
        self._arrays: dict[str, np.ndarray] = {}

    def add(self, what: str, case: str, arrays: Mapping[str, Any]) -> None:
        """Adds arrays of numbers or texts, such as the gradients of one model.

        Args:
            what: kind of numbers, such as "gradients".
            case: what they were computed for, such as a configuration.
            arrays: the arrays by name.

        Raises:
            ValueError: an array of this kind, case and name exists already.
        """
        for name, value in arrays.items():
            key = "|".join((what, case, name))
            if key in self._arrays:
                raise ValueError(f"Expected {key!r} only once")
            self._arrays[key] = _plain(value)

    def save(self, directory: pathlib.Path) -> None:
        directory.mkdir(exist_ok=True)
        np.savez(directory / NAME, **self._arrays)


def texts(values: Iterable[str | bytes]) -> np.ndarray:
    """Returns texts as an array that can be saved without pickle."""
    return np.array([text.encode() if isinstance(text, str) else text for text in values], "S")


def _plain(value):
    value = np.asarray(value)
    if value.dtype.kind == "O":  # TensorFlow's strings
        return texts(value.ravel()).reshape(value.shape)
    if value.dtype.kind == "V":  # bfloat16
        return value.astype("float32")
    return value


def read_numbers(directory: pathlib.Path) -> dict[tuple[str, str, str], np.ndarray]:
    """Returns the saved arrays by kind, case and name."""
    with np.load(directory / NAME) as arrays:
        return {tuple(key.split("|", 2)): arrays[key] for key in arrays}

"""Reads the batches that `train.py` saves; needs only NumPy, for OpenNMT-tf's environment."""

import pathlib

import numpy as np


def read_batches(directory: pathlib.Path) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Returns source, target and labels of every batch, `(batch, length)` ids each."""
    arrays = np.load(directory / "batches.npz")
    return [
        tuple(arrays[f"{name}{index}"] for name in ("source", "target", "labels"))
        for index in range(len(arrays.files) // 3)
    ]

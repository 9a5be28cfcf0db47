"""The batches that `train.py` saves; NumPy alone, as OpenNMT-tf's environment has no more."""

import pathlib

import numpy as np


def read_batches(directory: pathlib.Path) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Source, target and labels of every batch, `(batch, length)` ids."""
    arrays = np.load(directory / "batches.npz")
    return [
        tuple(arrays[f"{name}{number}"] for name in ("source", "target", "labels"))
        for number in range(len(arrays.files) // 3)
    ]

"""Calibration of probabilities: Platt scaling, and the expected calibration error.

A model's probability p of a word is mapped to

    confidence = sigmoid(scale * log(p / (1 - p)) + offset)

so that of the words with confidence 0.8, 80 % are right. scale is the inverse of a temperature (Guo
et al., 2017, "On Calibration of Modern Neural Networks"), here of the log odds of one event instead
of all logits, and the offset is that of Platt, 1999. This module does not import TensorFlow.
"""

import pathlib
from typing import Any, NamedTuple

import numpy as np

from tf_transformer.argument_types import is_number
from tf_transformer.errors import InputError
from tf_transformer.storage.files import replacing
from tf_transformer.storage.json_files import read_json, write_json

_FORMAT_VERSION = 1
_NUM_BINS = 15
# Limits of log odds, so that no probability is 0 or 1.
LARGEST_LOG_ODDS = 20.0
_LARGEST = 1e3


class Calibration(NamedTuple):
    """How log odds of words become confidences.

    Attributes:
        scale: factor of the log odds, the inverse of a temperature; positive.
        offset: added to the scaled log odds.
        weights_digest: digest of the model that it belongs to.
    """

    scale: float
    offset: float
    weights_digest: str


def fit(log_odds: np.ndarray, is_right: np.ndarray, num_steps: int = 50) -> tuple[float, float]:
    """Finds scale and offset that maximize the likelihood of the outcomes, by Newton's method.

    Args:
        log_odds: `(words,)`, log odds of the model's probabilities.
        is_right: `(words,)`, 1 if the word is right, else 0.
        num_steps: maximum number of steps.

    Returns:
        scale and offset.

    Raises:
        InputError: all words are right, or all are wrong, or confidence would not grow with the
            probability.
    """
    if is_right.size == 0 or is_right.min() == is_right.max():
        raise InputError(
            f"expected right and wrong words to calibrate with. Received: {is_right.size:,} words, "
            f"{int(is_right.sum()):,} of them right"
        )
    inputs = np.stack([log_odds, np.ones_like(log_odds)], axis=1).astype(np.float64)
    parameters = np.array([1.0, 0.0])
    for _ in range(num_steps):
        found = confidences(log_odds, *parameters)
        gradient = inputs.T @ (found - is_right)
        curvature = (inputs * (found * (1 - found))[:, np.newaxis]).T @ inputs
        step = np.linalg.solve(curvature + 1e-6 * np.eye(2), gradient)
        parameters -= np.clip(step, -1.0, 1.0)
        if np.abs(step).max() < 1e-9:
            break
    scale, offset = map(float, parameters)
    if not (0 < scale < _LARGEST and abs(offset) < _LARGEST):
        raise InputError(
            "the model's probabilities say nothing about which words are right: expected a "
            f"positive scale. Received: scale {scale:.3g}, offset {offset:.3g}"
        )
    return scale, offset


def confidences(log_odds: np.ndarray, scale: float, offset: float) -> np.ndarray:
    """Returns sigmoid(scale * log_odds + offset)."""
    return 1.0 / (1.0 + np.exp(-(scale * log_odds + offset)))


def expected_calibration_error(
    confidence: np.ndarray, outcome: np.ndarray, num_bins: int = _NUM_BINS
) -> float:
    """Computes the mean, over all items, of |mean confidence - mean outcome| of the item's bin.

    Bins of equal width (Guo et al., 2017, equation 3).

    Args:
        confidence: `(items,)`, from 0 to 1.
        outcome: `(items,)`, from 0 to 1.
        num_bins: number of bins.
    """
    bins = np.minimum((confidence * num_bins).astype(int), num_bins - 1)
    gaps = np.bincount(bins, confidence - outcome, minlength=num_bins)
    return float(np.abs(gaps).sum() / confidence.size)


def write_calibration(path: pathlib.Path, calibration: Calibration, facts: dict) -> None:
    """Writes a calibration as JSON.

    Args:
        path: the file.
        calibration: the calibration.
        facts: further entries, such as the errors before and after.
    """
    with replacing(path) as temporary:
        content = {"format_version": _FORMAT_VERSION, **calibration._asdict(), "facts": facts}
        write_json(temporary, content)


def read_calibration(path: pathlib.Path, weights_digest: str) -> Calibration:
    """Reads a calibration.

    Args:
        path: the file.
        weights_digest: digest of the model that it is for.

    Raises:
        InputError: the file is no calibration, or belongs to another model.
        FileNotFoundError: the file does not exist.
    """
    content = read_json(path)
    fields: list[Any] = [content.get(field) for field in Calibration._fields]
    scale, offset, digest = fields
    is_valid = content.get("format_version") == _FORMAT_VERSION and isinstance(digest, str)
    is_valid = is_valid and is_number(scale) and is_number(offset)
    if not is_valid or not (0 < scale < _LARGEST and abs(offset) < _LARGEST):
        raise InputError(f"{path}: expected a file that `train-confidence` has written")
    if digest != weights_digest:
        raise InputError(
            f"{path}: belongs to the model with the weights digest {digest[:64]!r}; this one "
            f"has {weights_digest!r}"
        )
    return Calibration(float(scale), float(offset), digest)

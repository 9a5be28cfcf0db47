"""The file with the scores of all validations of a run, and decisions based on them."""

import math
import pathlib
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.storage.json_files import read_json, write_json
from tf_transformer.storage.own_files import replacing_own

SCORES_NAME = "validation_scores.json"
# About a hundred thousand validations.
_MAX_BYTES = 2**26
_NUMBERS = ("loss", "perplexity", "accuracy", "bleu", "chrf")


class ValidationScores:
    """Validation scores by step, in a file that is replaced atomically after each validation.

    The best checkpoint and early stopping depend on this file alone, so a resumed run decides like
    an uninterrupted one. Scores of other sentences or another search are kept, but not compared.

    Args:
        model_dir: directory of the file.
        best_by: "bleu" (higher is better) or "loss" (lower is better).
        made_by: plain values that describe how scores are made; only scores with equal values are
            compared. None takes those of the newest scores.

    Raises:
        InputError: the file is damaged.
    """

    def __init__(
        self, model_dir: pathlib.Path, best_by: str, made_by: dict[str, Any] | None = None
    ):
        self._path = model_dir / SCORES_NAME
        self.best_by = best_by
        self._records = _read(self._path)
        if made_by is None:
            made_by = self._records[-1]["made_by"] if self._records else {}
        self._made_by = made_by

    def add(self, step: int, scores: dict[str, Any]) -> None:
        """Writes the scores after `step` updates; replaces comparable ones of the same step.

        Raises:
            OSError: the file cannot be written; it is unchanged.
        """
        record = {"step": step, **scores, "made_by": self._made_by}
        others = [
            other
            for other in self._records
            if (other["step"], other["made_by"]) != (step, self._made_by)
        ]
        # A stable sort keeps the newest scores of a step last.
        records = sorted([*others, record], key=lambda record: record["step"])
        with replacing_own(self._path) as temporary:
            plain = [_without_nan(record) for record in records]
            write_json(temporary, {"best_by": self.best_by, "scores": plain}, indent=1)
        self._records = records

    def find(self, step: int) -> dict[str, Any] | None:
        """Returns the comparable scores after `step` updates, or None."""
        return next((record for record in self._comparable() if record["step"] == step), None)

    def until(self, step: int) -> list[dict[str, Any]]:
        """Returns the comparable scores up to a step, in the order of steps."""
        return self._comparable(step)

    def ranked(self, until: int | None = None) -> list[int]:
        """Returns the steps up to `until`, best first; of equal scores, the earlier step first."""
        records = [
            (-quality, record["step"])
            for record in self._comparable(until)
            if (quality := self._quality(record)) is not None
        ]
        return [step for _, step in sorted(records)]

    def num_without_improvement(self, until: int) -> int:
        """Returns the number of scores after the best one, up to the step `until`."""
        ranked = self.ranked(until)
        return sum(step > ranked[0] for step in ranked) if ranked else 0

    def describe_best(self, until: int) -> str:
        """Returns the best score up to the step `until` and its step, as text."""
        step = self.ranked(until)[0]
        name = {"bleu": "BLEU", "loss": "loss"}[self.best_by]
        scores = self.find(step) or {}
        return f"{name} {scores[self.best_by]:.4g} at step {step}"

    def _comparable(self, until=None):
        return [
            record
            for record in self._records
            if record["made_by"] == self._made_by and (until is None or record["step"] <= until)
        ]

    def _quality(self, record):
        """Returns a number that is higher for better scores; None without a score of `best_by`."""
        value = record.get(self.best_by)
        if value is None:
            return None
        if math.isnan(value):
            return -math.inf
        return value if self.best_by == "bleu" else -value


def _without_nan(record):
    """Replaces NaN and infinity, which JSON does not have, by None."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in record.items()
    }


def _read(path):
    try:
        records = read_json(path, _MAX_BYTES)["scores"]
        for record in records:
            _check(record)
            record["loss"] = math.nan if record["loss"] is None else record["loss"]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"{path}: damaged; expected the scores of validations ({error!r})"
        ) from error
    return records


def _check(record):
    if type(record["step"]) is not int or record["step"] < 0:
        raise InputError(f"expected a step, at least 0, got {record['step']!r}")
    for name in _NUMBERS:
        if name in record and type(record[name]) not in (int, float, type(None)):
            raise InputError(f"expected a number for {name}, got {record[name]!r}")
    record["made_by"], record["loss"]  # a missing key raises KeyError


def read_validation_scores(model_dir: pathlib.Path) -> list[dict[str, Any]]:
    """Returns the scores of the run in `model_dir` in the order of steps.

    The list is empty before the first validation.

    Raises:
        InputError: the file of scores is damaged.
    """
    return _read(model_dir / SCORES_NAME)


def read_best_by(model_dir: pathlib.Path) -> str:
    """Returns the score that the run in `model_dir` chooses its best checkpoints by.

    Raises:
        InputError: the run has no scores, or the file of scores is damaged.
    """
    path = model_dir / SCORES_NAME
    try:
        best_by = read_json(path, _MAX_BYTES)["best_by"]
    except FileNotFoundError as error:
        raise InputError(
            f"{model_dir} has no {SCORES_NAME}: no checkpoint has been validated yet"
        ) from error
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path}: damaged ({error!r})") from error
    if best_by not in ("bleu", "loss"):
        raise InputError(f"{path}: expected best_by bleu or loss, got {best_by!r}")
    return best_by

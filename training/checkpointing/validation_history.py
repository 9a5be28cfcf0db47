"""The scores of every validation of a run, on disk, and what follows from them."""

import math
import pathlib
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.storage.json_files import read_json, write_json
from tf_transformer.storage.own_files import replacing_own

SCORES_NAME = "validation_scores.json"
# A hundred thousand validations.
_MAX_BYTES = 2**26
_NUMBERS = ("loss", "perplexity", "accuracy", "bleu", "chrf")


class ValidationScores:
    """Scores by step, in one file that is replaced as a whole after each validation.

    Which checkpoint is best, and whether training should end, follow from this file alone, so a run
    that was stopped and goes on decides as if it had not been. Scores that were made in another
    way, on other sentences or by another search, are kept but not compared with.

    Args:
        model_dir: where the file lies.
        best_by: "bleu", the highest, or "loss", the lowest.
        made_by: whatever scores must have in common to be compared, as plain values; None takes
            that of the newest scores.

    Raises:
        ValueError: the file is damaged.
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
        """Writes the scores after `step` updates, in place of former ones made in the same way.

        Raises:
            OSError: they cannot be written; the file is as it was.
        """
        record = {"step": step, **scores, "made_by": self._made_by}
        others = [
            other
            for other in self._records
            if (other["step"], other["made_by"]) != (step, self._made_by)
        ]
        # Stable: of one step's scores, the newest are last.
        records = sorted([*others, record], key=lambda record: record["step"])
        with replacing_own(self._path) as temporary:
            plain = [_without_nan(record) for record in records]
            write_json(temporary, {"best_by": self.best_by, "scores": plain}, indent=1)
        self._records = records

    def find(self, step: int) -> dict[str, Any] | None:
        """The scores after `step` updates, if there are any made in this way."""
        return next((record for record in self._comparable() if record["step"] == step), None)

    def ranked(self, until: int | None = None) -> list[int]:
        """Steps from best to worst, of equals the earlier first; those after `until` left out."""
        records = [
            (-quality, record["step"])
            for record in self._comparable(until)
            if (quality := self._quality(record)) is not None
        ]
        return [step for _, step in sorted(records)]

    def stale(self, until: int) -> int:
        """How many of the scores up to the step `until` came since the best of them."""
        ranked = self.ranked(until)
        return sum(step > ranked[0] for step in ranked) if ranked else 0

    def describe_best(self, until: int) -> str:
        """The best score up to the step `until`, in words."""
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
        """The higher, the better; None where the step was not judged by this."""
        value = record.get(self.best_by)
        if value is None:
            return None
        if math.isnan(value):
            return -math.inf
        return value if self.best_by == "bleu" else -value


def _without_nan(record):
    """JSON has neither NaN nor infinity: None stands for them."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in record.items()
    }


def _read(path):
    try:
        records = read_json(path, _MAX_BYTES)["scores"]
        # What is compared with must be there.
        for record in records:
            _check(record)
            record["loss"] = math.nan if record["loss"] is None else record["loss"]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"{path}: damaged; it should hold the scores of validations ({error!r})"
        ) from error
    return records


def _check(record):
    if type(record["step"]) is not int or record["step"] < 0:
        raise InputError(f"expected the number of a step, got {record['step']!r}")
    for name in _NUMBERS:
        if name in record and type(record[name]) not in (int, float, type(None)):
            raise InputError(f"expected a number for {name}, got {record[name]!r}")
    record["made_by"], record["loss"]


def read_validation_scores(model_dir: pathlib.Path) -> list[dict[str, Any]]:
    """The scores of the run in `model_dir`, by step; none before the first validation.

    Raises:
        ValueError: their file is damaged.
    """
    return _read(model_dir / SCORES_NAME)


def read_best_by(model_dir: pathlib.Path) -> str:
    """By what the run in `model_dir` judges its checkpoints.

    Raises:
        ValueError: it has no scores, or their file is damaged.
    """
    path = model_dir / SCORES_NAME
    try:
        best_by = read_json(path, _MAX_BYTES)["best_by"]
    except FileNotFoundError as error:
        raise InputError(f"{model_dir} has no {SCORES_NAME}: no checkpoint was judged") from error
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path}: damaged ({error!r})") from error
    if best_by not in ("bleu", "loss"):
        raise InputError(f"{path}: expected best_by bleu or loss, got {best_by!r}")
    return best_by

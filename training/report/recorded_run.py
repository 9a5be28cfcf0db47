"""What a model directory records of its training, for a report."""

import dataclasses
import math
import re
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.printable import printable
from training.checkpointing.run_files import LOGS_NAME
from training.checkpointing.validation_history import read_validation_scores
from training.evaluation.runs import Run
from training.recorded_config import read_training_config
from training.report.recorded_samples import Picture, Sample, read_samples
from training.settings import config_to_dict, flatten

Points = list[tuple[int, float]]

_VALIDATION = ("loss", "perplexity", "accuracy", "bleu", "chrf")
# Tags of TensorBoard's scalars, by the names of curves.
_TRAINING = {"loss": "loss", "learning rate": "optimizer/learning_rate"}
_MAX_POINTS = 300


@dataclasses.dataclass(frozen=True)
class RecordedRun:
    """A model directory and what it records of its training.

    Args:
        run: what `runs` tabulates.
        settings: the settings by their dotted names; empty if none are recorded.
        validation: points of step and value by the name of the score.
        training: points of step and value by the name of the curve.
        samples: translations of the same sentences over time.
        attention: the last attention maps.
        fault: what of this cannot be read, in one line, or None.
    """

    run: Run
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    validation: dict[str, Points] = dataclasses.field(default_factory=dict)
    training: dict[str, Points] = dataclasses.field(default_factory=dict)
    samples: list[Sample] = dataclasses.field(default_factory=list)
    attention: list[Picture] = dataclasses.field(default_factory=list)
    fault: str | None = None


def read_recorded_run(run: Run) -> RecordedRun:
    """Reads more of a model directory; reports what is damaged in `fault` and reads all else."""
    values: dict[str, Any] = {}
    faults = []
    for read in (_read_settings, _read_validation, _read_logs, _check_logs):
        try:
            values |= read(run.path)
        except Exception as error:  # TensorBoard's of a damaged file are of any class
            faults.append(printable(str(error)))
    new = [fault for fault in faults if fault not in (run.fault or "")]
    return RecordedRun(run, **values, fault="; ".join(filter(None, [run.fault, *new])) or None)


def _read_settings(path):
    config = read_training_config(path)
    return {"settings": flatten(config_to_dict(config)) if config else {}}


def _read_validation(path):
    records = read_validation_scores(path)
    curves = {}
    for name in _VALIDATION:
        # Of a step that was validated twice, the newest is last.
        values = {record["step"]: record.get(name) for record in records}
        if points := _points(values):
            curves[name] = points
    return {"validation": curves}


def _read_logs(path):
    logs = path / LOGS_NAME
    if not logs.is_dir():
        return {}
    from training.plots.training_curves import read_scalars

    scalars = read_scalars(logs / "training")
    curves = {name: _points(scalars.get(tag, {})) for name, tag in _TRAINING.items()}
    samples, attention = read_samples(logs / "validation")
    return {
        "training": {name: points for name, points in curves.items() if points},
        "samples": samples,
        "attention": attention,
    }


def _check_logs(path):
    """Finds damaged records, which TensorBoard leaves out silently with all that follow.

    An incomplete last one is normal: the training is writing it, or was killed.
    """
    from tensorflow import data, errors

    for file in sorted((path / LOGS_NAME).glob("*/*tfevents*")):
        if not file.is_file():
            continue  # `_read_logs` reports it
        try:
            for _ in data.TFRecordDataset(str(file)):
                pass
        except errors.DataLossError as error:
            if found := re.search(r"corrupted record at (\d+)", str(error)):
                raise InputError(
                    f"{file}: damaged at byte {found[1]}; what follows is not shown"
                ) from error
    return {}


def _points(values):
    """Returns points in the order of steps without those that are not finite, not too many."""
    points = sorted(
        (step, value)
        for step, value in values.items()
        if value is not None and math.isfinite(value)
    )
    every = -(-len(points) // _MAX_POINTS)
    return points if every <= 1 else [*points[:-1:every], points[-1]]

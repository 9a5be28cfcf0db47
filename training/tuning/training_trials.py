"""Trials of training settings: each trains a model in a model directory of its own."""

import dataclasses
import math
import pathlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tf_transformer.errors import InputError
from tf_transformer.printable import printable
from training.callbacks.monitoring import DivergedError
from training.callbacks.user_callbacks import ScoreCallback
from training.checkpointing.best_checkpoints import best_checkpoint_paths
from training.checkpointing.checkpoint_files import checkpoint_directory, checkpoint_paths
from training.checkpointing.validation_history import ValidationScores
from training.checkpointing.written_weights import write_average
from training.config import TrainingConfig
from training.loop import TrainingResult
from training.run import TrainingRun
from training.trainer import train_run
from training.tuning.memory import free_trained_models
from training.tuning.space import Value
from training.tuning.study import Result, StudyInterrupted

if TYPE_CHECKING:  # an optional package
    import optuna

FOLDER_NAME = "trials"
MakeConfig = Callable[[dict[str, Value]], TrainingConfig]


class PruneTrial(ScoreCallback):
    """Reports validation scores to a trial of Optuna, and stops training if it is to be pruned.

    Args:
        trial: the trial.
        best_by: the score to report, "bleu" or "loss".
        last_step: the last step of the training, after which nothing is pruned.

    Attributes:
        is_pruned: whether the trial has been pruned.
    """

    def __init__(self, trial: "optuna.Trial", best_by: str, last_step: int):
        super().__init__()
        self._trial, self._best_by, self._last_step = trial, best_by, last_step
        self.is_pruned = False

    def on_scores(self, scores: Sequence[dict[str, Any]]) -> str | None:
        reported = self._trial.study.trials[self._trial.number].intermediate_values
        for record in scores:
            value = record.get(self._best_by)
            if value is not None and record["step"] not in reported:
                self._trial.report(float(value), record["step"])
        if not scores or scores[-1]["step"] >= self._last_step or not self._trial.should_prune():
            return None
        self.is_pruned = True
        return "other trials were better at this step"


class TrainingTrials:
    """The objective of a study of training settings.

    The score of a trial is that of its best checkpoint, by `TrainingConfig.best_by`, whose weights
    then become those of the trial's model directory.

    Args:
        folder: folder of the tuning; the model directories are in its folder `trials`.
        make_config: returns the settings of a trial from its values.
        run: the run that all trials have in common, with other settings and model directories.
    """

    def __init__(self, folder: pathlib.Path, make_config: MakeConfig, run: TrainingRun):
        self._folder, self._make_config, self._run = folder, make_config, run

    def model_dir(self, number: int) -> pathlib.Path:
        """Returns the model directory of a trial."""
        return self._folder / FOLDER_NAME / f"{number:04}"

    def __call__(self, trial: "optuna.Trial", params: dict[str, Value]) -> Result:
        """Trains a model, or resumes its training.

        Settings that contradict each other or do not fit the corpus, a training that diverges, and
        too little memory make a trial fail, and the study continues.

        Raises:
            StudyInterrupted: a signal has stopped the training.
            InputError: the texts or the model directory is faulty.
        """
        model_dir = self.model_dir(trial.number)
        try:
            config = self._make_config(params)
        except InputError as error:
            return _failed(error)
        prune = PruneTrial(trial, config.best_by, config.optimization.steps)
        try:
            run = dataclasses.replace(self._run, config=config, model_dir=model_dir)
            result = train_run(run.check(), [prune])
        except (DivergedError, tf.errors.ResourceExhaustedError) as error:
            return _failed(error)
        except InputError as error:
            if checkpoint_paths(checkpoint_directory(model_dir)):
                raise  # not the settings' fault, such as a text that has changed
            return _failed(error)
        finally:
            free_trained_models()
        if result.stopped_by is not None:
            raise StudyInterrupted(result.stopped_by)
        return self._result(model_dir, config, result, prune.is_pruned)

    def _result(
        self,
        model_dir: pathlib.Path,
        config: TrainingConfig,
        result: TrainingResult,
        is_pruned: bool,
    ) -> Result:
        history = ValidationScores(model_dir, config.best_by)
        ranked = history.ranked()
        best = history.find(ranked[0]) if ranked else None
        value = float(best[config.best_by]) if best else math.nan
        if best is None or not math.isfinite(value):
            return _failed(InputError("no checkpoint has a finite score"))
        # Relative to the folder of the tuning, which may be moved.
        name = f"{FOLDER_NAME}/{model_dir.name}"
        facts = {"best_step": best["step"], "steps": result.step, "model_dir": name}
        scores = {name: best.get(name) for name in ("bleu", "chrf", "loss")}
        facts |= {name: x for name, x in scores.items() if x is not None and math.isfinite(x)}
        if is_pruned and result.early_stop is not None:
            return Result(value, "pruned", facts)
        write_average(model_dir, best_checkpoint_paths(model_dir, 1))
        return Result(value, "complete", facts)


def _failed(error: Exception) -> Result:
    return Result(math.nan, "failed", {"failure": printable(str(error), 300)})

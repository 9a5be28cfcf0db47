"""A study: trials of one search space, in a database from which an interrupted study resumes."""

import dataclasses
import logging
import pathlib
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tf_transformer.errors import InputError
from tf_transformer.printable import printable
from training.tuning.space import Domain, Value, grid

if TYPE_CHECKING:  # an optional package
    import optuna

DATABASE_NAME = "study.db"

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Result:
    """How a trial ended.

    Args:
        value: its score; NaN if it failed.
        state: "complete", "pruned" or "failed".
        facts: other values for the table, such as the step of the score, as JSON values.
    """

    value: float
    state: str
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class TrialRecord(Result):
    """A finished trial.

    Args:
        number: its number, from 0.
        params: the values that were tried.
    """

    number: int = 0
    params: dict[str, Value] = dataclasses.field(default_factory=dict)


class StudyInterrupted(Exception):
    """A signal has stopped a trial, which the next call resumes.

    Args:
        signum: the signal.
    """

    def __init__(self, signum: signal.Signals):
        super().__init__(signum)
        self.signum = signum


# Runs a trial with its values.
Objective = Callable[["optuna.Trial", dict[str, Value]], Result]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Study:
    """Trials of one search space.

    Args:
        folder: an existing folder, for the database; several studies can share it.
        name: name of the study.
        domains: the search space.
        maximize: whether a higher score is better.
        sampler: how values are chosen, of `names.SAMPLERS`.
        seed: seed of the sampler.
        num_trials: number of trials; None for all of a grid.
        pruner: which trials to stop early, of `names.PRUNERS`.
        pruner_steps: the steps of the first and the last score of a trial, for "hyperband".

    Raises:
        InputError: Optuna is not installed, or the space has no grid.
    """

    folder: pathlib.Path
    name: str
    domains: Mapping[str, Domain]
    maximize: bool
    sampler: str = "grid"
    seed: int = 0
    num_trials: int | None = None
    pruner: str = "none"
    pruner_steps: tuple[int, int] = (1, 1)

    def run(
        self, objective: Objective, after_trial: Callable[[list[TrialRecord]], None]
    ) -> list[TrialRecord]:
        """Runs all trials that are not finished yet, an interrupted one first.

        A trial depends on the seed, its number and the trials before it, not on interruptions.

        Args:
            objective: runs one trial. If it raises an error, the trial counts as interrupted.
            after_trial: called with all finished trials after each trial, and in the end, since
                an interruption may have prevented it.

        Returns:
            The finished trials, in the order of their numbers.

        Raises:
            InputError: the database belongs to another program, or is damaged.
        """
        optuna = import_optuna()
        study = self._open(optuna)
        combinations = list(grid(self.domains)) if self.sampler == "grid" else []
        for params in combinations:
            study.enqueue_trial(params, skip_if_exists=True)
        num_trials = self.num_trials
        if combinations:
            num_trials = min(len(combinations), num_trials or len(combinations))
        while (trial := self._next_trial(optuna, study, num_trials or 0)) is not None:
            params = {name: _suggest(trial, name, domain) for name, domain in self.domains.items()}
            _log.info("%s %d of %d: %s", self.name, trial.number + 1, num_trials, described(params))
            result = objective(trial, params)
            trial.set_user_attr("facts", result.facts)
            states = optuna.trial.TrialState
            state = {"complete": states.COMPLETE, "pruned": states.PRUNED, "failed": states.FAIL}
            # A pruned trial's value is the last one that it has reported.
            value = result.value if result.state == "complete" else None
            trial.set_user_attr("value", repr(result.value))
            study.tell(trial, value, state[result.state])
            after_trial(_records(study))
        records = _records(study)
        after_trial(records)
        return records

    def _open(self, optuna) -> "optuna.Study":
        import sqlalchemy

        path = self.folder / DATABASE_NAME
        url = sqlalchemy.URL.create("sqlite", database=str(path.absolute()))
        try:
            return optuna.create_study(
                storage=optuna.storages.RDBStorage(url.render_as_string()),
                study_name=self.name,
                direction="maximize" if self.maximize else "minimize",
                pruner=self._make_pruner(optuna),
                load_if_exists=True,
            )
        except (sqlalchemy.exc.SQLAlchemyError, RuntimeError) as error:
            reason = printable(str(error).partition("\n")[0], 200)
            raise InputError(
                f"{path}: not a database of Optuna {optuna.__version__} ({reason}); give another "
                "folder"
            ) from error

    def _make_pruner(self, optuna):
        if self.pruner == "hyperband":
            first, last = self.pruner_steps
            return optuna.pruners.HyperbandPruner(min_resource=first, max_resource=max(first, last))
        if self.pruner == "median":
            return optuna.pruners.MedianPruner(n_startup_trials=3)
        return optuna.pruners.NopPruner()

    def _make_sampler(self, optuna, number):
        """Returns the sampler of a trial, whose draws do not depend on interruptions."""
        seed = (self.seed + number) % 2**32
        if self.sampler == "tpe":
            return optuna.samplers.TPESampler(seed=seed, n_startup_trials=5)
        return optuna.samplers.RandomSampler(seed=seed)

    def _next_trial(self, optuna, study, num_trials) -> "optuna.Trial | None":
        """Returns the interrupted trial if there is one, else a new one, or None."""
        states = optuna.trial.TrialState
        for trial in study.get_trials(states=(states.RUNNING,)):
            study.sampler = self._make_sampler(optuna, trial.number)
            return optuna.Trial(study, trial._trial_id)  # no public name for it
        finished = study.get_trials(states=(states.COMPLETE, states.PRUNED, states.FAIL))
        if len(finished) >= num_trials:
            return None
        study.sampler = self._make_sampler(optuna, len(finished))
        return study.ask()


def import_optuna() -> Any:
    """Imports Optuna, and lets it report warnings only.

    Raises:
        InputError: it is not installed.
    """
    try:
        import optuna
    except ImportError as error:
        raise InputError(
            f"Optuna is not installed ({printable(str(error), 200)}); "
            "pip install 'tf-transformer[tune]'"
        ) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def described(params: Mapping[str, Value]) -> str:
    """Returns values as text, such as `model.dropout_rate=0.1`."""
    return ", ".join(f"{name}={value}" for name, value in params.items())


def best_first(records: Sequence[TrialRecord], maximize: bool) -> list[TrialRecord]:
    """Returns trials in the order of their scores; unfinished and failed ones last.

    Args:
        records: the trials.
        maximize: whether a higher score is better.
    """

    def key(record: TrialRecord) -> tuple[bool, float, int]:
        value = -record.value if maximize else record.value
        return record.state != "complete", value if value == value else float("inf"), record.number

    return sorted(records, key=key)


def _suggest(trial: "optuna.Trial", name: str, domain: Domain) -> Value:
    """Returns the value of a trial; the one that it has already if it was interrupted."""
    if domain.choices:
        return trial.suggest_categorical(name, domain.choices)
    if domain.is_integer:
        low, high, step = int(domain.low), int(domain.high), int(domain.step or 1)
        return trial.suggest_int(name, low, high, step=step, log=domain.log)
    return trial.suggest_float(name, domain.low, domain.high, step=domain.step, log=domain.log)


def _records(study: "optuna.Study") -> list[TrialRecord]:
    names = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}
    return [
        TrialRecord(
            value=float(trial.user_attrs["value"]),
            state=names[trial.state.name],
            facts=trial.user_attrs["facts"],
            number=trial.number,
            params=trial.params,
        )
        for trial in study.get_trials()
        if trial.state.name in names
    ]

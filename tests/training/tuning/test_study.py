"""Studies with an objective that trains nothing."""

import csv
import json
import math

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from training.tuning.results import Results
from training.tuning.space import Domain
from training.tuning.study import Result, Study, best_first
from training.tuning.training_trials import PruneTrial

pytest.importorskip("optuna")
pytestmark = pytest.mark.slow  # every value goes through a database on disk

DOMAINS = {
    "x": Domain(low=0.0, high=1.0),
    "n": Domain(low=1, high=8, log=True),
    "kind": Domain(choices=("a", None, True)),
}
GRID = {"x": Domain(low=0.0, high=0.2, step=0.1), "kind": Domain(choices=("a", "b"))}


def study(folder, **given):
    arguments = {"name": "s", "domains": DOMAINS, "maximize": True, "sampler": "random"}
    return Study(folder=folder, **(arguments | {"num_trials": 8} | given))


def score(trial, params):
    return Result(params["x"] * (params.get("n") or 1), "complete", {"bleu": params["x"]})


def run(own, objective=score):
    return own.run(objective, lambda records: None)


@pytest.mark.representatives("tpe")  # which begins with random values
@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_an_interrupted_study_tries_the_same(tmp_path, sampler):
    """Errors and signals in the midst of trials change neither values nor numbers."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    expected = run(study(whole, sampler=sampler))
    assert [record.number for record in expected] == list(range(8))
    assert len({record.params["x"] for record in expected}) == 8
    calls = []

    def fail_twice(trial, params):
        calls.append(trial.number)
        if len(calls) in (2, 6):
            raise KeyboardInterrupt
        return score(trial, params)

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            run(study(parts, sampler=sampler), fail_twice)
    assert run(study(parts, sampler=sampler), fail_twice) == expected
    assert calls == [0, 1, 1, 2, 3, 4, 4, 5, 6, 7]
    assert run(study(parts, sampler=sampler), fail_twice) == expected
    assert len(calls) == 10


def test_another_seed_and_more_trials(tmp_path):
    first = run(study(tmp_path, num_trials=3))
    more = run(study(tmp_path, num_trials=5))
    assert more[:3] == first and len(more) == 5
    other = run(study(tmp_path, name="t", seed=100, num_trials=3))
    assert [record.params for record in other] != [record.params for record in first]


def test_values_are_within_their_domains(tmp_path):
    records = run(study(tmp_path, num_trials=12))
    assert all(0 <= record.params["x"] <= 1 for record in records)
    assert {record.params["n"] for record in records} <= set(range(1, 9))
    assert {record.params["kind"] for record in records} == {"a", None, True}


@pytest.mark.exhaustive  # of Optuna's algorithm
def test_tpe_finds_more_than_chance(tmp_path):
    """After the first trials, values near the best ones are more likely."""
    domains = {"x": Domain(low=0.0, high=1.0)}
    found = {}
    for sampler in ("random", "tpe"):
        own = study(tmp_path, name=sampler, sampler=sampler, num_trials=20, domains=domains)
        found[sampler] = [record.value for record in run(own)][10:]
    assert sum(found["tpe"]) > sum(found["random"]) + 1


def test_grid(tmp_path):
    own = study(tmp_path, domains=GRID, sampler="grid", num_trials=None)
    params = [record.params for record in run(own)]
    assert params == [{"x": x, "kind": kind} for x in (0.0, 0.1, 0.2) for kind in "ab"]
    few = study(tmp_path, name="few", domains=GRID, sampler="grid", num_trials=2)
    assert len(run(few)) == 2


@pytest.mark.parametrize("maximize", [True, False])
def test_failures_and_the_order_of_the_table(tmp_path, maximize):
    def objective(trial, params):
        if trial.number == 1:
            return Result(math.nan, "failed", {"failure": "a|b"})
        if trial.number == 2:
            trial.report(100.0, 1)
            return Result(100.0, "pruned", {"bleu": 100.0})
        return score(trial, params)

    own = study(tmp_path, domains=GRID, sampler="grid", num_trials=None, maximize=maximize)
    results = Results(tmp_path, "s", maximize, list(GRID))
    records = best_first(own.run(objective, results.write), maximize)
    assert [record.state for record in records] == ["complete"] * 4 + ["pruned", "failed"]
    # Of equal values, the earlier trial comes first.
    assert [record.number for record in records][:4] == ([4, 5, 3, 0] if maximize else [0, 3, 4, 5])
    head, _, *rows = results.table(records).splitlines()
    cells = [cell.strip() for cell in head.split("|")[1:-1]]
    assert cells == ["trial", "x", "kind", "bleu", "failure", "state"]
    assert "a\\|b" in rows[-1] and rows[0].split("|")[1].strip() == str(records[0].number)
    rows = json.loads((tmp_path / "s.json").read_text())
    assert [row["trial"] for row in rows] == [record.number for record in records]
    with open(tmp_path / "s.csv", newline="") as file:
        columns = list(csv.DictReader(file))
    assert [float(row["x"]) for row in columns] == [record.params["x"] for record in records]
    assert columns[-1]["failure"] == "a|b"


def test_tensorboard(tmp_path):
    """HParams has the values of each trial and their score."""
    results = Results(tmp_path, "s", True, list(GRID))
    own = study(tmp_path, domains=GRID, sampler="grid", num_trials=None)
    records = own.run(score, results.write)
    results.write(records)  # as a resumed study
    for record in records:
        events = EventAccumulator(str(tmp_path / "logs" / "s" / f"{record.number:04}"))
        events.Reload()
        assert [x.step for x in events.Tensors("tuning/bleu")] == [0]
        (content,) = events.PluginTagToContent("hparams").values()
        assert str(record.params["kind"]).encode() in content


@pytest.mark.parametrize(("pruner", "num_trials"), [("median", 12), ("hyperband", 8), ("none", 4)])
def test_bad_trials_are_pruned(tmp_path, pruner, num_trials):
    """Scores of each checkpoint are reported once, and the worst trainings stop early."""
    stopped = {}

    def objective(trial, params):
        prune = PruneTrial(trial, "bleu", last_step=9)
        quality = 10.0 * (trial.number % 4)
        scores = []
        for step in range(1, 10):
            scores.append({"step": step, "bleu": quality + step, "loss": 1.0})
            if prune.on_scores(scores):
                assert prune.is_pruned
                stopped[trial.number] = step
                return Result(scores[-1]["bleu"], "pruned")
        reported = trial.study.trials[trial.number].intermediate_values
        assert reported == {step: quality + step for step in range(1, 10)}
        return Result(scores[-1]["bleu"], "complete")

    own = study(tmp_path, pruner=pruner, pruner_steps=(1, 9), num_trials=num_trials)
    records = run(own, objective)
    assert {record.number for record in records if record.state == "pruned"} == set(stopped)
    assert bool(stopped) == (pruner != "none")
    assert 9 not in stopped.values()
    if pruner == "median":
        assert {4, 8} <= set(stopped) and not {3, 7, 11} & set(stopped)


def test_a_database_of_something_else(tmp_path):
    (tmp_path / "study.db").write_text("no database " * 100)
    with pytest.raises(ValueError, match=r"study.db: not a database of Optuna"):
        run(study(tmp_path))

"""The studies of `tune`, and what is printed of them."""

import pathlib
from collections.abc import Mapping
from typing import Any

from tf_transformer.storage.trained_models import TrainedModels
from tf_transformer.text.text_file import TextFile
from training.config import ValidationConfig
from training.run import TrainingRun
from training.tuning.results import Results
from training.tuning.search_trials import SearchTrials
from training.tuning.space import Domain
from training.tuning.study import Study, TrialRecord, best_first
from training.tuning.training_trials import MakeConfig, TrainingTrials

SETTINGS_NAME = "settings"
SEARCH_NAME = "search"


def tune_settings(
    folder: pathlib.Path,
    domains: Mapping[str, Domain],
    run: TrainingRun,
    make_config: MakeConfig,
    *,
    sampler: str,
    pruner: str,
    num_trials: int | None,
) -> list[TrialRecord]:
    """Trains a model for each trial, and prints the results.

    Args:
        folder: folder of the results; the models are in its folder `trials`.
        domains: the settings to try.
        run: see `TrainingTrials`; its settings name the score to compare trials by.
        make_config: see `TrainingTrials`.
        sampler: see `Study`.
        pruner: see `Study`.
        num_trials: see `Study`.

    Returns:
        The trials, best first.

    Raises:
        StudyInterrupted: a signal has stopped a training.
        InputError: a text or a file is faulty.
    """
    maximize = run.config.best_by == "bleu"
    optimization = run.config.optimization
    study = Study(
        folder=folder,
        name=SETTINGS_NAME,
        domains=domains,
        maximize=maximize,
        sampler=sampler,
        seed=optimization.seed,
        num_trials=num_trials,
        pruner=pruner,
        pruner_steps=(optimization.checkpoint_every, optimization.steps),
    )
    results = Results(folder, SETTINGS_NAME, maximize, list(domains))
    trials = TrainingTrials(folder, make_config, run)
    records = best_first(study.run(trials, results.write), maximize)
    print(f"{results.table(records)}\n")
    best = records[0]
    if best.state == "complete":
        given = " ".join(f"{name}={value}" for name, value in best.params.items())
        name = "BLEU" if maximize else "loss"
        model_dir = folder / best.facts["model_dir"]
        print(f"best: {model_dir} ({name} {best.value:.4g}): --set {given}\n")
    return records


def tune_search(
    folder: pathlib.Path,
    name: str,
    domains: Mapping[str, Domain],
    models: TrainedModels,
    source: TextFile,
    reference: TextFile,
    validation: ValidationConfig,
) -> list[TrialRecord]:
    """Tries all combinations of search options, and prints the results.

    Args:
        folder: folder of the results.
        name: name of the study.
        domains: the search options to try.
        models: the model, or the models of an ensemble.
        source: source sentences of the validation set.
        reference: their reference translations.
        validation: number of sentences to translate, and the tokenizer for BLEU.

    Returns:
        The trials, best first.

    Raises:
        InputError: a text or a model directory is faulty.
    """
    study = Study(folder=folder, name=name, domains=domains, maximize=True)
    results = Results(folder, name, True, list(domains))
    trials = SearchTrials(
        models,
        source,
        reference,
        sentences=validation.sentences,
        bleu_tokenizer=validation.bleu_tokenizer,
    )
    records = best_first(study.run(trials, results.write), maximize=True)
    print(f"{results.table(records)}\n")
    best = records[0]
    given = " ".join(f"--{key.replace('_', '-')} {x}" for key, x in best.params.items())
    signature: Any = best.facts["bleu_signature"]
    print(f"best: {given} (BLEU {best.value:.2f}, {signature})")
    return records

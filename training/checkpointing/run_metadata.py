"""The fingerprint of a run in its model directory, which keeps runs from being mixed up."""

import dataclasses
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.storage.files import remove_leftovers
from tf_transformer.storage.json_files import read_json, write_json
from tf_transformer.storage.model_dir import CONFIG_NAME, WEIGHTS_NAME
from tf_transformer.storage.own_files import replacing_own
from training.checkpointing.checkpoint_files import checkpoint_directory, checkpoint_paths, step_of
from training.checkpointing.validation_history import SCORES_NAME
from training.config import TrainingConfig, ValidationConfig, VocabularyConfig
from training.prepared.prepared_folder import SentencePieceModels, digests_of
from training.recorded_config import TRAINING_NAME
from training.settings import config_to_dict, flatten, make_config

# Settings that may change when a run is resumed: none of them affects the result of a step.
_CHANGEABLE_SETTINGS = frozenset(
    {
        "optimization.steps",
        "optimization.checkpoint_every",
        "optimization.keep_checkpoints",
        *(f"validation.{field.name}" for field in dataclasses.fields(ValidationConfig)),
    }
)
# Options that set a setting without its name, for messages.
_OPTIONS = {
    "model.alignment_head": "--alignments",
    "model.draft_heads": "--draft-heads",
    "lora.alpha": "--lora",
    "lora.rank": "--lora",
}


def run_fingerprint(
    config: TrainingConfig,
    corpus_digest: str,
    init_from: pathlib.Path | None,
    vocabulary: SentencePieceModels | None = None,
    added_pieces: Sequence[str] = (),
) -> dict:
    """Returns the plain values that identify a run.

    Two calls of `train` are the same run if these are equal, except for changeable settings.

    Args:
        config: settings of the run.
        corpus_digest: digest of the training corpus.
        init_from: the model directory that the run is initialized from, if any.
        vocabulary: the existing vocabulary that the run was given, if any.
        added_pieces: the pieces that were added to the vocabulary of `init_from`, if any.
    """
    run: dict[str, Any] = {"settings": config_to_dict(config), "corpus": corpus_digest}
    if vocabulary:
        run["vocabulary"] = digests_of(vocabulary)
    if added_pieces:
        run["added_pieces"] = list(added_pieces)
    return run | ({"init_from": str(init_from.resolve())} if init_from else {})


def was_initialized_from(model_dir: pathlib.Path, init_from: pathlib.Path) -> bool:
    """Returns whether the run in a folder has been initialized from that model."""
    try:
        run = read_json(model_dir / TRAINING_NAME)
        is_same = run.get("init_from") == str(init_from.resolve())
    except (OSError, ValueError):
        return False
    return is_same and (model_dir / CONFIG_NAME).exists()


def start_or_resume(model_dir: pathlib.Path, run: dict, start: Callable[[], None]) -> None:
    """Writes the fingerprint of a new run, or checks that the recorded run is the same.

    A run has started once the model's configuration is written; before that, the files of an
    interrupted call are overwritten. Before there is a checkpoint or a model, another run replaces
    it.

    Args:
        model_dir: directory of the run.
        run: the result of `run_fingerprint`.
        start: function that writes the model's configuration into `model_dir`; called for a new
            run.

    Raises:
        InputError: the directory holds another run, a model without a run, or more steps than
            `optimization.steps`.
    """
    has_started = (model_dir / CONFIG_NAME).exists()
    if has_started:
        _check_trained_here(model_dir)
        try:
            check_same_run(model_dir, run)
        except ValueError:
            if _has_trained(model_dir):
                raise
            (model_dir / CONFIG_NAME).unlink()
            has_started = False
        else:
            _check_steps(model_dir, run["settings"]["optimization"]["steps"])
    model_dir.mkdir(parents=True, exist_ok=True)
    remove_leftovers(model_dir)
    with replacing_own(model_dir / TRAINING_NAME) as temporary:
        write_json(temporary, run)
    if not has_started:
        start()


def _check_trained_here(model_dir):
    if not (model_dir / TRAINING_NAME).exists():
        raise InputError(
            f"{model_dir} holds a model that this command did not train; give another --model-dir"
        )


def _check_steps(model_dir, steps):
    done = max(map(step_of, checkpoint_paths(checkpoint_directory(model_dir))), default=0)
    if done > steps:
        raise InputError(
            f"{model_dir} has been trained for {done} steps; received optimization.steps={steps}. "
            "Give as many or more, or another --model-dir"
        )


def _has_trained(model_dir):
    return any((model_dir / name).exists() for name in (WEIGHTS_NAME, SCORES_NAME)) or any(
        checkpoint_directory(model_dir).glob("*step-*")
    )


def check_resumable(
    model_dir: pathlib.Path, config: TrainingConfig, init_from: pathlib.Path | None
) -> None:
    """Checks what `start_or_resume` checks, except for corpus and vocabulary.

    Call it before the corpus is read.

    Args:
        model_dir: directory of the run, which may be new.
        config: settings of the run; those of the vocabulary are not compared.
        init_from: the model directory that the run is initialized from, if any.

    Raises:
        InputError: as `start_or_resume`.
    """
    if not (model_dir / CONFIG_NAME).exists():
        return
    _check_trained_here(model_dir)
    if not _has_trained(model_dir):
        return
    former = _read_run(model_dir / TRAINING_NAME)
    run = run_fingerprint(config, former["corpus"], init_from)
    names = (f"vocabulary.{field.name}" for field in dataclasses.fields(VocabularyConfig))
    _check_same_settings(former, run, _CHANGEABLE_SETTINGS | set(names), model_dir)
    _check_steps(model_dir, config.optimization.steps)


def check_same_run(
    model_dir: pathlib.Path, run: dict, changeable: frozenset[str] = _CHANGEABLE_SETTINGS
) -> None:
    """Compares a run with the one that `model_dir` records.

    Args:
        model_dir: directory of the run.
        run: the result of `run_fingerprint`.
        changeable: names of the settings that may differ.

    Raises:
        InputError: the runs differ, or the record is damaged.
    """
    former = _read_run(model_dir / TRAINING_NAME)
    _check_same(former, run, changeable, str(model_dir), "--model-dir")


def check_no_other_run(model_dir: pathlib.Path, run: dict) -> None:
    """Checks that a folder does not hold the checkpoints or the model of another run.

    Args:
        model_dir: directory of the run, which may be new.
        run: the result of `run_fingerprint`.

    Raises:
        InputError: it does, or its record is damaged.
    """
    if (model_dir / CONFIG_NAME).exists() and _has_trained(model_dir):
        check_same_run(model_dir, run)


def check_recorded_run(record: pathlib.Path, run: dict, where: str, option: str) -> None:
    """Compares a run with one that was recorded elsewhere than in the model directory.

    Args:
        record: copy of that run's `training.json`.
        run: the result of `run_fingerprint`.
        where: the place that the record is from, for messages.
        option: the option that names this place, for messages.

    Raises:
        InputError: the runs differ, or the record is damaged.
    """
    former = _read_run(record, f"{where}/{TRAINING_NAME}")
    _check_same(former, run, _CHANGEABLE_SETTINGS, where, option)


def _read_run(path, where=None):
    try:
        run = read_json(path)
        # `make_config` adds defaults of settings that did not exist when the file was written.
        return run | {
            "settings": config_to_dict(make_config(run["settings"])),
            "corpus": run["corpus"],
        }
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"{where or path}: damaged; expected the settings and corpus of a run "
            f"({repr(error)[:400]})"
        ) from error


def _check_same(former, run, changeable, where, option):
    if former["corpus"] != run["corpus"]:
        raise InputError(
            f"{where} was trained on another corpus; give the same files, alignments included, or "
            f"another {option}"
        )
    if former.get("vocabulary") != run.get("vocabulary"):
        raise InputError(
            f"{where} was trained with another vocabulary; give the same --vocabulary (none "
            f"if it was trained without), or another {option}"
        )
    if former.get("added_pieces") != run.get("added_pieces"):
        raise InputError(
            f"{where} was trained with other pieces added to the vocabulary; give the same "
            f"--add-pieces (none if it was trained without), or another {option}"
        )
    _check_same_settings(former, run, changeable, where, option)


def _check_same_settings(former, run, changeable, where, option="--model-dir"):
    if former.get("init_from") != run.get("init_from"):
        raise InputError(
            f"{where} was trained with init_from={former.get('init_from')!r}; received "
            f"{run.get('init_from')!r}. Give the same or another {option}"
        )
    before = flatten(former["settings"])
    now = flatten(run["settings"])
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name) and name not in changeable:
            origin = f" ({_OPTIONS[name]})" if name in _OPTIONS else ""
            raise InputError(
                f"{where} was trained with {name}={before.get(name)!r}{origin}; "
                f"received {now.get(name)!r}. Give the same settings or another {option}"
            )

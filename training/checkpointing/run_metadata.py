"""What a model directory says of the run that trains it, so that two runs are never mixed up."""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.storage.files import remove_leftovers
from tf_transformer.storage.json_files import read_json, write_json
from tf_transformer.storage.model_dir import CONFIG_NAME, WEIGHTS_NAME
from tf_transformer.storage.own_files import replacing_own
from training.checkpointing.checkpoint_files import checkpoint_directory, checkpoint_paths, step_of
from training.checkpointing.validation_history import SCORES_NAME
from training.config import TrainingConfig, ValidationConfig, VocabularyConfig
from training.prepared.prepared_folder import SentencePieceModels, digest_of
from training.recorded_config import TRAINING_NAME
from training.settings import config_to_dict, flatten, make_config

# What may change between two calls that train one model: none of it bears on a step's result.
_FREE_SETTINGS = frozenset(
    {
        "optimization.steps",
        "optimization.checkpoint_every",
        "optimization.keep_checkpoints",
        *(f"validation.{field.name}" for field in dataclasses.fields(ValidationConfig)),
    }
)


def describe_training(
    config: TrainingConfig,
    corpus_digest: str,
    init_from: pathlib.Path | None,
    vocabulary: SentencePieceModels | None = None,
) -> dict:
    """What makes a run the run it is; `vocabulary` is one that is given."""
    run: dict[str, Any] = {"settings": config_to_dict(config), "corpus": corpus_digest}
    if vocabulary:
        run["vocabulary"] = [model and digest_of(model) for model in vocabulary]
    return run | ({"init_from": str(init_from.resolve())} if init_from else {})


def has_begun_from(model_dir: pathlib.Path, init_from: pathlib.Path) -> bool:
    """Whether a run that starts from that model has begun in a folder."""
    try:
        run = read_json(model_dir / TRAINING_NAME)
        is_same = run.get("init_from") == str(init_from.resolve())
    except (OSError, ValueError):
        return False
    return is_same and (model_dir / CONFIG_NAME).exists()


def begin_or_continue(model_dir: pathlib.Path, run: dict, begin: Callable[[], None]) -> None:
    """Describes the run in `model_dir`, or checks that it is the run described there.

    The run has begun once the model's description is there: until then, whatever an interrupted or
    refused call has left is written anew. Until there is a checkpoint or a model, another run may
    take its place.

    Args:
        model_dir: of the run.
        run: of `describe_training`.
        begin: writes the model's description into `model_dir`; called where there is none.

    Raises:
        ValueError: the folder belongs to another run, to none, or has been trained for longer.
    """
    has_begun = (model_dir / CONFIG_NAME).exists()
    if has_begun:
        _check_trained_here(model_dir)
        try:
            check_same_run(model_dir, run)
        except ValueError:
            if _has_trained(model_dir):
                raise
            (model_dir / CONFIG_NAME).unlink()
            has_begun = False
        else:
            _check_steps(model_dir, run["settings"]["optimization"]["steps"])
    model_dir.mkdir(parents=True, exist_ok=True)
    remove_leftovers(model_dir)
    with replacing_own(model_dir / TRAINING_NAME) as temporary:
        write_json(temporary, run)
    if not has_begun:
        begin()


def _check_trained_here(model_dir):
    if not (model_dir / TRAINING_NAME).exists():
        raise InputError(f"{model_dir} holds a model that this command did not train")


def _check_steps(model_dir, steps):
    done = max(map(step_of, checkpoint_paths(checkpoint_directory(model_dir))), default=0)
    if done > steps:
        raise InputError(
            f"{model_dir} has been trained for {done} steps; received optimization.steps={steps}. "
            "Give as many or more, or another --model-dir"
        )


def _has_trained(model_dir):
    traces = (WEIGHTS_NAME, SCORES_NAME)
    return any((model_dir / name).exists() for name in traces) or any(
        (model_dir / "checkpoints").glob("*step-*")
    )


def check_continuation(
    model_dir: pathlib.Path, config: TrainingConfig, init_from: pathlib.Path | None
) -> None:
    """Refuses what `begin_or_continue` would refuse with any corpus, before that is read.

    Args:
        model_dir: of the run, whether it has begun or not.
        config, init_from: of the run, see `describe_training`. Whether the vocabulary is another is
            seen later, where one is given or was.

    Raises:
        ValueError: as `begin_or_continue`.
    """
    if not (model_dir / CONFIG_NAME).exists():
        return
    _check_trained_here(model_dir)
    if not _has_trained(model_dir):
        return
    former = _read_run(model_dir)
    run = describe_training(config, former["corpus"], init_from)
    names = (f"vocabulary.{field.name}" for field in dataclasses.fields(VocabularyConfig))
    _check_same_settings(model_dir, former, run, _FREE_SETTINGS | set(names))
    _check_steps(model_dir, config.optimization.steps)


def check_same_run(
    model_dir: pathlib.Path, run: dict, free: frozenset[str] = _FREE_SETTINGS
) -> None:
    """Compares with the run that `model_dir` describes.

    Args:
        model_dir: of the run.
        run: of `describe_training`.
        free: settings that may differ.

    Raises:
        ValueError: it is another, or its description is damaged.
    """
    former = _read_run(model_dir)
    if former["corpus"] != run["corpus"]:
        raise InputError(
            f"{model_dir} was trained on another corpus; give the same files or another --model-dir"
        )
    if former.get("vocabulary") != run.get("vocabulary"):
        raise InputError(
            f"{model_dir} was trained with another vocabulary; give the same --vocabulary, or none "
            "where it had none, or another --model-dir"
        )
    _check_same_settings(model_dir, former, run, free)


def _read_run(model_dir):
    path = model_dir / TRAINING_NAME
    try:
        run = read_json(path)
        # Through the configuration, so that settings which are new since then take their defaults.
        return run | {
            "settings": config_to_dict(make_config(run["settings"])),
            "corpus": run["corpus"],
        }
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"{path}: damaged; it should say what this model is trained on ({repr(error)[:400]})"
        ) from error


def _check_same_settings(model_dir, former, run, free):
    if former.get("init_from") != run.get("init_from"):
        raise InputError(
            f"{model_dir} was trained with init_from={former.get('init_from')!r}; received "
            f"{run.get('init_from')!r}. Give the same or another --model-dir"
        )
    before = flatten(former["settings"])
    now = flatten(run["settings"])
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name) and name not in free:
            raise InputError(
                f"{model_dir} was trained with {name}={before.get(name)!r}; "
                f"received {now.get(name)!r}. Give the same settings or another --model-dir"
            )

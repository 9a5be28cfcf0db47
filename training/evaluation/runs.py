"""Reading model directories for a table: sizes, progress, last validation, stored scores."""

import dataclasses
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.printable import printable
from tf_transformer.storage.model_dir import (
    WEIGHTS_NAME,
    check_weights,
    read_config,
    read_vocabularies,
    weights_digest,
)
from tf_transformer.storage.score_log import SCORES_NAME, read_scores
from training.checkpointing.checkpoint_files import checkpoint_directory, checkpoint_paths, step_of
from training.checkpointing.validation_history import read_validation_scores
from training.evaluation.metrics import METRICS
from training.prepared.prepared_folder import DESCRIPTION_NAME, WORK_NAME
from training.recorded_config import read_training_config

# A folder with one of these files is a model directory.
_MARKERS = {"target.spm", WEIGHTS_NAME, SCORES_NAME}
_VALIDATION = ("loss", "perplexity", "accuracy")
# Fields of a score that are shown.
_METRICS = (*METRICS, "perplexity")
_NUMBERS = (*_METRICS, "beam_size", "length_penalty")
_TEXTS = ("date", "dtype", "bleu_signature")


@dataclasses.dataclass(frozen=True)
class Run:
    """The content of a model directory.

    Args:
        path: the model directory.
        preset: preset of the training settings; None if the directory records no training.
        layers: numbers of encoder and decoder layers, such as "6+6"; "6" for a language model.
        d_model: `d_model` of the decoder.
        d_ff: `d_ff` of the decoder.
        vocab_size: size of the target vocabulary.
        num_weights: number of parameters; None before the first checkpoint.
        step: number of updates done.
        steps: number of updates that the settings request.
        validation: loss, perplexity and accuracy of the last validation, and its step.
        scores: scores stored by `evaluate`, oldest first; `current` tells whether the scored
            weights are still in the directory.
        fault: what is damaged, in one line, or None. Values that cannot be read are None.
    """

    path: pathlib.Path
    preset: str | None = None
    layers: str | None = None
    d_model: int | None = None
    d_ff: int | None = None
    vocab_size: int | None = None
    num_weights: int | None = None
    step: int | None = None
    steps: int | None = None
    validation: dict[str, float] = dataclasses.field(default_factory=dict)
    scores: list[dict] = dataclasses.field(default_factory=list)
    fault: str | None = None

    def as_dict(self) -> dict:
        """Returns all values for JSON."""
        return dataclasses.asdict(self) | {"path": str(self.path)}


def find_model_dirs(roots: Sequence[pathlib.Path]) -> Iterator[pathlib.Path]:
    """Yields all model directories in and below folders, each once, sorted by name.

    Raises:
        InputError: a root is not a folder.
    """
    seen = set()
    for root in roots:
        if not root.is_dir():
            raise InputError(f"{root}: no such folder")
        for folder, subfolders, files in os.walk(root):
            subfolders.sort()
            path = pathlib.Path(folder)
            if DESCRIPTION_NAME in files or WORK_NAME in subfolders:
                subfolders.clear()  # a prepared folder
            elif _MARKERS & set(files):
                subfolders.clear()  # skips checkpoints and logs
                if path.resolve() not in seen:
                    seen.add(path.resolve())
                    yield path


def read_run(path: pathlib.Path) -> Run:
    """Reads a model directory; reports damaged files in `fault` and reads all others."""
    values: dict[str, Any] = {}
    faults = []
    for read in (_read_sizes, _read_weights, _read_training, _read_validation, _read_scores):
        try:
            values |= read(path)
        except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
            faults.append(printable(str(error)))
    return Run(path, **values, fault="; ".join(faults) or None)


def _read_sizes(path):
    config = read_config(path)
    read_vocabularies(path)
    decoder = config.side("decoder")
    sides = [] if config.decoder_only else [config.num_encoder_layers]
    return {
        "layers": "+".join(map(str, [*sides, config.num_decoder_layers])),
        "d_model": decoder.d_model,
        "d_ff": decoder.d_ff,
        "vocab_size": config.target_vocab_size,
    }


def _read_weights(path):
    if not (path / WEIGHTS_NAME).exists():
        return {}
    try:
        config = read_config(path)
    except ValueError:  # reported by `_read_sizes`
        return {}
    return {"num_weights": check_weights(path, config)}


def _read_training(path):
    values = {}
    checkpoints = checkpoint_paths(checkpoint_directory(path))
    if checkpoints:
        values["step"] = step_of(checkpoints[-1])
    config = read_training_config(path)
    if config is None:
        return values
    return values | {"preset": config.preset, "steps": config.optimization.steps}


def _read_validation(path):
    scores = read_validation_scores(path)
    if not scores:
        return {}
    last = {name: scores[-1][name] for name in ("step", *_VALIDATION)}
    # NaN becomes None, as it is for the other values.
    return {"validation": {name: None if value != value else value for name, value in last.items()}}


def _read_scores(path):
    scores = read_scores(path)
    if not scores:
        return {}
    for number, score in enumerate(scores, 1):
        _check_score(f"{path / SCORES_NAME}:{number}", score)
    try:
        digest = weights_digest(path)
    except ValueError:  # reported by `_read_weights`
        digest = None
    is_current = [digest is not None and s.get("weights_digest_blake2b") == digest for s in scores]
    return {"scores": [s | {"current": c} for s, c in zip(scores, is_current, strict=True)]}


def test_set_of(score: dict[str, Any]) -> Any:
    """Returns what a score was computed on: the name of a test set, or the file of the reference.

    Args:
        score: the score, of which nothing has been checked.
    """
    test_set, reference = score.get("test_set"), score.get("reference")
    if isinstance(test_set, dict):
        values = (test_set.get(name) for name in ("name", "language_pair", "subset"))
        return printable(" ".join(str(value) for value in values if value is not None))
    file = reference.get("file") if isinstance(reference, dict) else None
    references = score.get("references")
    if isinstance(references, list) and isinstance(file, str):
        return f"{file} +{len(references) - 1}"
    return file


def _check_score(where, score):
    """Checks that values can be shown in a table and do not control the terminal."""
    for name in _NUMBERS:
        if type(score.get(name)) not in (int, float, type(None)):
            raise InputError(f"{where}: expected a number for {name}, got {score[name]!r}")
    if type(score.get("choice")) not in (dict, type(None)):
        raise InputError(f"{where}: expected an object for choice, got {score['choice']!r}")
    texts = {name: score.get(name) for name in _TEXTS}
    texts["test_set"] = test_set_of(score)
    for name, text in texts.items():
        if text is not None and not (isinstance(text, str) and text.isprintable()):
            raise InputError(f"{where}: expected printable text for {name}, got {text!r}")

"""Entries of the model card, `model.json`, that do not come from the model itself."""

import pathlib
import re
from collections.abc import Sequence
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.storage.checkpoint_names import CHECKPOINTS_NAME, checkpoint_steps
from tf_transformer.storage.json_files import read_json
from tf_transformer.storage.score_log import read_scores


def training_facts(model_dirs: Sequence[pathlib.Path], languages: str | None) -> dict[str, Any]:
    """Returns the languages and the steps of the newest checkpoints, as far as they are known.

    Raises:
        InputError: `languages` does not have the form `en-de`.
    """
    facts: dict[str, Any] = {}
    if languages:
        if not re.fullmatch(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)+", languages):
            raise InputError(f"--languages {languages}: expected FROM-TO, such as en-de")
        facts["languages"] = languages
    steps = [checkpoint_steps(model_dir / CHECKPOINTS_NAME)[-1:] for model_dir in model_dirs]
    if all(steps):
        newest = [found[0] for found in steps]
        facts["training_steps"] = newest if len(newest) > 1 else newest[0]
    return facts


def read_evaluation(path: pathlib.Path) -> dict[str, Any]:
    """Returns the scores in a file that `evaluate --json F` wrote.

    Raises:
        InputError: the file holds something else.
    """
    scores = read_json(path)
    if "bleu" not in scores:
        raise InputError(
            f'{path}: expected a file that `evaluate --json F` wrote, with an entry "bleu"'
        )
    return scores


def stored_scores(model_dir: pathlib.Path) -> list[dict[str, Any]]:
    """Returns the scores that `evaluate` stored in the model directory, oldest first."""
    return [score for score in read_scores(model_dir) if "bleu" in score]


def last_matching(scores: list[dict[str, Any]], **entries: Any) -> dict[str, Any] | None:
    """Returns the last scores that have all of these entries, or None."""
    matching = [s for s in scores if all(s.get(name) == value for name, value in entries.items())]
    return matching[-1] if matching else None

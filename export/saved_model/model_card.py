"""What the model card, `model.json`, says beside what the model itself knows."""

import pathlib
import re
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.storage.checkpoint_names import CHECKPOINTS_NAME, checkpoint_steps
from tf_transformer.storage.json_files import read_json
from tf_transformer.storage.score_log import read_scores


def training_facts(model_dir: pathlib.Path, languages: str | None) -> dict[str, Any]:
    """The languages, and the step of the newest checkpoint, where they are known.

    Raises:
        ValueError: `languages` is not such as en-de.
    """
    facts: dict[str, Any] = {}
    if languages:
        if not re.fullmatch(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)+", languages):
            raise InputError(f"--languages {languages}: expected FROM-TO, such as en-de")
        facts["languages"] = languages
    if steps := checkpoint_steps(model_dir / CHECKPOINTS_NAME):
        facts["training_steps"] = steps[-1]
    return facts


def read_evaluation(path: pathlib.Path) -> dict[str, Any]:
    """What `evaluate --json F` wrote.

    Raises:
        ValueError: it is something else.
    """
    scores = read_json(path)
    if "bleu" not in scores:
        raise InputError(f"{path}: not what `evaluate --json F` writes")
    return scores


def stored_scores(model_dir: pathlib.Path) -> list[dict[str, Any]]:
    """What `evaluate` stored with the model, the last at the end."""
    return [score for score in read_scores(model_dir) if "bleu" in score]


def last_of(scores: list[dict[str, Any]], **way: Any) -> dict[str, Any] | None:
    """The last scores of these weights and options, if any."""
    fitting = [s for s in scores if all(s.get(name) == value for name, value in way.items())]
    return fitting[-1] if fitting else None

"""Small trained models beside those of `tests.conftest`, each built once for the files that use it.

They are trained as a user trains them, by the command.
"""

import pathlib

import pytest

from tests.conftest import SMALL_SETTINGS, Corpus, build_once
from tf_transformer.__main__ import main


def reverse_model(corpus: Corpus, factory: pytest.TempPathFactory) -> pathlib.Path:
    """A model directory of the reverse direction, German to English."""
    return _train(factory, "reverse", corpus, {"source": "de", "target": "en"})


def language_model(corpus: Corpus, factory: pytest.TempPathFactory) -> pathlib.Path:
    """A model directory of a language model of the target language, with two checkpoints."""
    changes = {"optimization.steps": 60, "optimization.checkpoint_every": 30}
    return _train(factory, "language", corpus, {"target": "de"}, **changes)


def _train(factory, name, corpus, sides, **changes):
    settings = [f"{key}={value}" for key, value in (SMALL_SETTINGS | changes).items()]
    files = [
        word
        for side, language in sides.items()
        for part, option in (("train", side), ("validation", f"validation-{side}"))
        for word in (f"--{option}", corpus.path(f"{part}.{language}"))
    ]

    def build(model_dir):
        assert main(["train", *files, "--model-dir", str(model_dir), "--set", *settings]) == 0

    return build_once(factory, name, build)

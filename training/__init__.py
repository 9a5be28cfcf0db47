"""Parallel text in, a trained model directory out."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # for editors; `__getattr__` imports them when they are used
    from training.config import (
        DataConfig,
        OptimizationConfig,
        TrainingConfig,
        ValidationConfig,
        VocabularyConfig,
    )
    from training.data.corpus import TextFile
    from training.fine_tuning import config_like
    from training.loop import TrainingResult
    from training.prepared.prepared import PreparedText
    from training.prepared.prepared_folder import PreparedFolder
    from training.settings import make_config, read_settings
    from training.trainer import train

_MODULES = {
    "DataConfig": "config",
    "OptimizationConfig": "config",
    "PreparedFolder": "prepared.prepared_folder",
    "PreparedText": "prepared.prepared",
    "TextFile": "data.corpus",
    "TrainingConfig": "config",
    "TrainingResult": "loop",
    "ValidationConfig": "config",
    "VocabularyConfig": "config",
    "config_like": "fine_tuning",
    "make_config": "settings",
    "read_settings": "settings",
    "train": "trainer",
}

__all__ = [
    "DataConfig",
    "OptimizationConfig",
    "PreparedFolder",
    "PreparedText",
    "TextFile",
    "TrainingConfig",
    "TrainingResult",
    "ValidationConfig",
    "VocabularyConfig",
    "config_like",
    "make_config",
    "read_settings",
    "train",
]


def __getattr__(name: str):
    """Imports TensorFlow only once something needs it."""
    if name not in _MODULES:
        raise AttributeError(f"module 'training' has no attribute {name!r}")
    return getattr(importlib.import_module(f"training.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

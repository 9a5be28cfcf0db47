"""The Transformer of "Attention Is All You Need" as Keras layers."""

import importlib

_PUBLIC = {
    "Transformer": "model",
    "LanguageModel": "language_model",
    "TransformerConfig": "config",
    "SideConfig": "config",
    "HeadMasks": "heads",
    "prune_heads": "heads",
    "LabelSmoothedCrossEntropy": "loss",
    "NoamSchedule": "schedule",
    "TokenAccuracy": "metrics",
    "Perplexity": "metrics",
    "SmoothedLoss": "metrics",
    "Tokenizer": "tokenizer",
    "Translator": "translator",
}

# Their classes are registered with Keras when they are imported: any public name brings them all,
# so that a saved model with its loss, metrics and schedule can be loaded.
_REGISTERING = ("model", "language_model", "loss", "metrics", "schedule")

__all__ = list(_PUBLIC)
__version__ = "0.1.0"


def __getattr__(name: str):
    """Imports TensorFlow only once something needs it, so that `--help` answers at once."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'tf_transformer' has no attribute {name!r}")
    for module in _REGISTERING:
        importlib.import_module(f"tf_transformer.{module}")
    return getattr(importlib.import_module(f"tf_transformer.{_PUBLIC[name]}"), name)

"""The Transformer of "Attention Is All You Need" as Keras layers."""

import importlib
from typing import TYPE_CHECKING

from tf_transformer.registration import register, register_with_keras

if TYPE_CHECKING:  # for what reads the source: editors and type checkers
    from tf_transformer.config import SideConfig as SideConfig
    from tf_transformer.config import TransformerConfig as TransformerConfig
    from tf_transformer.inference.completer import Completer as Completer
    from tf_transformer.inference.translator import Translator as Translator
    from tf_transformer.losses.label_smoothing import (
        LabelSmoothedCrossEntropy as LabelSmoothedCrossEntropy,
    )
    from tf_transformer.losses.metrics import Perplexity as Perplexity
    from tf_transformer.losses.metrics import SmoothedLoss as SmoothedLoss
    from tf_transformer.losses.metrics import TokenAccuracy as TokenAccuracy
    from tf_transformer.losses.schedule import NoamSchedule as NoamSchedule
    from tf_transformer.models.head_pruning import HeadMasks as HeadMasks
    from tf_transformer.models.head_pruning import masked_heads as masked_heads
    from tf_transformer.models.head_pruning import prune_heads as prune_heads
    from tf_transformer.models.language_model import LanguageModel as LanguageModel
    from tf_transformer.models.transformer import Transformer as Transformer
    from tf_transformer.storage.model_dir import load_model as load_model
    from tf_transformer.text.tokenizer import Tokenizer as Tokenizer

# The module of each public name.
_PUBLIC = {
    "Transformer": "models.transformer",
    "LanguageModel": "models.language_model",
    "TransformerConfig": "config",
    "SideConfig": "config",
    "HeadMasks": "models.head_pruning",
    "masked_heads": "models.head_pruning",
    "prune_heads": "models.head_pruning",
    "LabelSmoothedCrossEntropy": "losses.label_smoothing",
    "NoamSchedule": "losses.schedule",
    "TokenAccuracy": "losses.metrics",
    "Perplexity": "losses.metrics",
    "SmoothedLoss": "losses.metrics",
    "Tokenizer": "text.tokenizer",
    "Translator": "inference.translator",
    "Completer": "inference.completer",
    "load_model": "storage.model_dir",
}

__all__ = list(_PUBLIC)
__version__ = "0.1.0"


def __getattr__(name: str):
    """Imports TensorFlow only once something needs it, so that `--help` answers at once."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'tf_transformer' has no attribute {name!r}")
    register()
    return getattr(importlib.import_module(f"tf_transformer.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


register_with_keras()

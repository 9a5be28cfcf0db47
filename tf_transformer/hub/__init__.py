"""KerasHub: the model as a backbone and a task, with presets, LoRA and `generate`."""

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from tf_transformer.known_names import missing_attribute
from tf_transformer.registration import register_hub

if importlib.util.find_spec("keras_hub") is None:
    raise ImportError("tf_transformer.hub needs KerasHub: pip install 'tf-transformer[hub]'")

if TYPE_CHECKING:
    from tf_transformer.hub.backbone import TransformerBackbone
    from tf_transformer.hub.preprocessor import TransformerSeq2SeqLMPreprocessor
    from tf_transformer.hub.seq_2_seq_lm import TransformerSeq2SeqLM
    from tf_transformer.hub.tokenizer import TransformerTokenizer
else:  # hidden from type checkers, for which every name would exist in this package

    def __getattr__(name: str) -> Any:
        """Imports a public name, and with it KerasHub, on first use."""
        if name not in _MODULES:
            raise missing_attribute(__name__, name, __all__)
        register_hub()
        return getattr(importlib.import_module(f"tf_transformer.hub.{_MODULES[name]}"), name)


_MODULES = {
    "TransformerBackbone": "backbone",
    "TransformerSeq2SeqLM": "seq_2_seq_lm",
    "TransformerSeq2SeqLMPreprocessor": "preprocessor",
    "TransformerTokenizer": "tokenizer",
}

__all__ = [
    "TransformerBackbone",
    "TransformerSeq2SeqLM",
    "TransformerSeq2SeqLMPreprocessor",
    "TransformerTokenizer",
]


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})

"""The Transformer of "Attention Is All You Need" as Keras layers."""

import importlib
import pathlib
from typing import TYPE_CHECKING, Any

from tf_transformer.known_names import missing_attribute
from tf_transformer.model_names import register_prefix
from tf_transformer.registration import register, register_with_keras
from tf_transformer.tensorflow_messages import hide_messages

if TYPE_CHECKING:
    from tf_transformer.config import SideConfig, TransformerConfig
    from tf_transformer.decoding.beam_search import beam_search
    from tf_transformer.decoding.search_interface import Hypotheses, SearchOptions, StepModel
    from tf_transformer.inference.translator import Translation, Translations, Translator
    from tf_transformer.layers.attention import (
        CrossAttention,
        SelfAttention,
        scaled_dot_product_attention,
    )
    from tf_transformer.layers.decoder import Decoder, DecoderLayer
    from tf_transformer.layers.embedding import TokenEmbedding
    from tf_transformer.layers.encoder import Encoder, EncoderLayer
    from tf_transformer.layers.feed_forward import FeedForward
    from tf_transformer.layers.masks import (
        causal_attention_mask,
        causal_mask,
        padding_attention_mask,
        padding_mask,
    )
    from tf_transformer.layers.positions import PositionalEncoding, RelativePositions
    from tf_transformer.layers.residual import Residual
    from tf_transformer.layers.ssru import SSRU
    from tf_transformer.losses.label_smoothing import (
        LabelSmoothedCrossEntropy,
        smoothed_cross_entropy,
    )
    from tf_transformer.losses.metrics import Perplexity, SmoothedLoss, TokenAccuracy
    from tf_transformer.losses.schedule import NoamSchedule
    from tf_transformer.models.head_pruning import HeadMasks, masked_heads, prune_heads
    from tf_transformer.models.language_model import LanguageModel
    from tf_transformer.models.transformer import Transformer
    from tf_transformer.predictors.completer import Completer
    from tf_transformer.storage.model_dir import load_model, save_model
    from tf_transformer.text.tokenizer import Tokenizer
else:  # hidden from type checkers, for which every name would exist in this package

    def __getattr__(name: str) -> Any:
        """Imports a public name on first use, so that `--help` need not import TensorFlow."""
        if name not in _MODULES:
            raise missing_attribute(__name__, name, __all__)
        register()
        return getattr(importlib.import_module(f"tf_transformer.{_MODULES[name]}"), name)


_MODULES = {
    "SSRU": "layers.ssru",
    "Completer": "predictors.completer",
    "CrossAttention": "layers.attention",
    "Decoder": "layers.decoder",
    "DecoderLayer": "layers.decoder",
    "Encoder": "layers.encoder",
    "EncoderLayer": "layers.encoder",
    "FeedForward": "layers.feed_forward",
    "HeadMasks": "models.head_pruning",
    "Hypotheses": "decoding.search_interface",
    "LabelSmoothedCrossEntropy": "losses.label_smoothing",
    "LanguageModel": "models.language_model",
    "NoamSchedule": "losses.schedule",
    "Perplexity": "losses.metrics",
    "PositionalEncoding": "layers.positions",
    "RelativePositions": "layers.positions",
    "Residual": "layers.residual",
    "SearchOptions": "decoding.search_interface",
    "SelfAttention": "layers.attention",
    "SideConfig": "config",
    "SmoothedLoss": "losses.metrics",
    "StepModel": "decoding.search_interface",
    "TokenAccuracy": "losses.metrics",
    "TokenEmbedding": "layers.embedding",
    "Tokenizer": "text.tokenizer",
    "Transformer": "models.transformer",
    "TransformerConfig": "config",
    "Translation": "inference.translator",
    "Translations": "inference.translator",
    "Translator": "inference.translator",
    "beam_search": "decoding.beam_search",
    "causal_attention_mask": "layers.masks",
    "causal_mask": "layers.masks",
    "load_model": "storage.model_dir",
    "masked_heads": "models.head_pruning",
    "padding_attention_mask": "layers.masks",
    "padding_mask": "layers.masks",
    "prune_heads": "models.head_pruning",
    "save_model": "storage.model_dir",
    "scaled_dot_product_attention": "layers.attention",
    "smoothed_cross_entropy": "losses.label_smoothing",
}

__all__ = [
    "SSRU",
    "Completer",
    "CrossAttention",
    "Decoder",
    "DecoderLayer",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "HeadMasks",
    "Hypotheses",
    "LabelSmoothedCrossEntropy",
    "LanguageModel",
    "NoamSchedule",
    "Perplexity",
    "PositionalEncoding",
    "RelativePositions",
    "Residual",
    "SearchOptions",
    "SelfAttention",
    "SideConfig",
    "SmoothedLoss",
    "StepModel",
    "TokenAccuracy",
    "TokenEmbedding",
    "Tokenizer",
    "Transformer",
    "TransformerConfig",
    "Translation",
    "Translations",
    "Translator",
    "beam_search",
    "causal_attention_mask",
    "causal_mask",
    "load_model",
    "masked_heads",
    "padding_attention_mask",
    "padding_mask",
    "prune_heads",
    "save_model",
    "scaled_dot_product_attention",
    "smoothed_cross_entropy",
]

__version__ = "0.1.0"


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def _import_by_name(name: str) -> pathlib.Path:
    from tf_transformer.formats.import_cache import imported_model_dir

    return imported_model_dir(name)


hide_messages()
register_with_keras()
register_prefix("hf:", _import_by_name)

"""Translation that compiles its search with XLA where that pays."""

import functools
from typing import Any

import tensorflow as tf

from tf_transformer.decoding.compiled.compilation_rule import CompilationRule
from tf_transformer.inference.translator import Translations, Translator
from tf_transformer.models.base import DecoderModel
from tf_transformer.models.ensemble import Ensemble
from tf_transformer.quantization.int8 import is_quantized
from tf_transformer.text.tokenizer import Tokenizer


class CompilingTranslator(Translator):
    """A `Translator` whose `translate` may compile its search with XLA, see `CompilationRule`.

    "on" compiles for single sentences and for batches of at least `chunk_size`, each with a
    `Translator` of its own; "auto" for single sentences only, after 1,000 of them. The first
    batches then take seconds longer.

    Args:
        model: see `Translator`.
        source_tokenizer: see `Translator`.
        target_tokenizer: see `Translator`.
        xla: "auto", "on" or "off".
        **options: the other arguments of `Translator`, except `compiled_shapes`.

    Raises:
        InputError: an argument is out of range, or `xla` is "on" and the model is in int8.
    """

    def __init__(
        self,
        model: DecoderModel | Ensemble,
        source_tokenizer: Tokenizer | None,
        target_tokenizer: Tokenizer,
        *,
        xla: str = "auto",
        **options: Any,
    ):
        loaded = (model, source_tokenizer, target_tokenizer)
        super().__init__(*loaded, **options)
        self._rule = CompilationRule(xla, is_quantized(model))
        self._make_translator = functools.partial(Translator, *loaded, **options)
        self._compiled: dict[int, Translator] = {}

    def translate(self, text: tf.Tensor) -> Translations:
        """Translates sentences, `(batch,)` strings, see `Translator.translate`."""
        rows = self._rule.compiled_rows(text.shape[0], self.chunk_size, self.rows_before_compiling)
        if not rows:
            return super().translate(text)
        if rows not in self._compiled:
            self._compiled[rows] = self._make_translator(compiled_shapes=self.default_shapes(rows))
        return self._compiled[rows].translate(text)

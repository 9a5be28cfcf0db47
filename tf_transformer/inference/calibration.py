"""Calibration of int8: a text whose translation shows the ranges of the activations."""

import dataclasses
import hashlib
from typing import TYPE_CHECKING, Any

from tf_transformer.errors import InputError
from tf_transformer.text.language_tags import check_tag
from tf_transformer.text.text_file import TextFile

if TYPE_CHECKING:  # a text is read and checked before TensorFlow is imported
    import keras

    from tf_transformer.models.transformer import Transformer
    from tf_transformer.text.tokenizer import Tokenizer

DEFAULT_PERCENTILE = 99.99


@dataclasses.dataclass(frozen=True)
class Calibration:
    """A text in the language of the source, and how ranges follow from it.

    Args:
        sentences: the sentences, none of them blank.
        percentile: percentage of the magnitudes within a range, see `MagnitudeCounts.percentile`;
            100 means the largest.
    """

    sentences: tuple[str, ...]
    percentile: float = DEFAULT_PERCENTILE

    @classmethod
    def read(
        cls, file: TextFile, percentile: float, languages: list[str], num_tags: int = 1
    ) -> "Calibration":
        """Reads a text, and checks that it can be translated.

        Args:
            file: the text; blank lines are skipped.
            percentile: see `Calibration`.
            languages: the languages of the vocabulary, whose tags the sentences then need.
            num_tags: number of tags that the model needs.

        Raises:
            InputError: a line is not text or lacks a tag, or the text has no sentence.
        """
        sentences = []
        for number, line in enumerate(file.lines(), 1):
            check_tag(line, languages, f"{file}:{number}", num_tags)
            if line.strip():
                sentences.append(line)
        if not sentences:
            raise InputError(
                f"{file}: expected sentences to calibrate with, a few hundred lines; every line is "
                "blank"
            )
        return cls(tuple(sentences), percentile)

    @property
    def facts(self) -> dict[str, Any]:
        """Number and digest of the sentences, and the percentile, as plain values."""
        text = "\n".join(self.sentences).encode()
        return {
            "sentences": len(self.sentences),
            "digest_blake2b": hashlib.blake2b(text, digest_size=16).hexdigest(),
            "percentile": self.percentile,
        }

    def input_ranges(
        self,
        model: "Transformer",
        source_tokenizer: "Tokenizer | None",
        target_tokenizer: "Tokenizer",
        **search_arguments: Any,
    ) -> "dict[keras.layers.Layer, float]":
        """Translates the text, with a progress bar, and returns the ranges of all products.

        Args:
            model: a float32 model without tiled or quantized weights.
            source_tokenizer: tokenizer of the source language.
            target_tokenizer: tokenizer of the target language.
            **search_arguments: those of `TranslationSearch`, such as `beam_size`: the decoder's
                activations are those of a search.

        Returns:
            The argument `input_ranges` of `quantize`.

        Raises:
            InputError: TensorFlow lacks the int8 kernels, or activations are not finite.
        """
        from tf_transformer.inference.translator import Translator
        from tf_transformer.quantization.activation_ranges import observed_inputs
        from tf_transformer.quantization.int8 import check_kernels

        check_kernels()  # before the work
        translator = Translator(model, source_tokenizer, target_tokenizer, **search_arguments)
        with observed_inputs(model) as counts:
            for _ in translator.translate_lines(self.sentences, description="calibrating"):
                pass
        return {layer: count.percentile(self.percentile) for layer, count in counts.items()}

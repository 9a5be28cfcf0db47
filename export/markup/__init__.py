"""Markup: HTML and XML documents translated, with their tags put back by word alignments."""

from export.markup.aligned_translation import (
    AlignedTranslation,
    TranslateTexts,
    translate_by_predictor,
)
from export.markup.markup_translator import MarkupTranslator

__all__ = ["AlignedTranslation", "MarkupTranslator", "TranslateTexts", "translate_by_predictor"]

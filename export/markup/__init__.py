"""Markup: HTML and XML documents translated, with their tags put back by word alignments."""

from export.markup.aligned_translation import AlignedTranslation, TranslateTexts
from export.markup.markup_translator import MarkupTranslator
from export.markup.server_translation import translate_by_server

__all__ = ["AlignedTranslation", "MarkupTranslator", "TranslateTexts", "translate_by_server"]

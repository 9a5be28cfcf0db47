"""What tasks are computed with: a model in use, and what is made of it when a task needs it."""

import functools
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from tf_transformer.confidence.calibration import Calibration
from tf_transformer.decoding.translation_options import TranslationOptions
from tf_transformer.documents.abbreviations import LANGUAGES
from tf_transformer.documents.document_translator import DocumentTranslator
from tf_transformer.inference.aligner import Aligner
from tf_transformer.inference.continuer import Continuer
from tf_transformer.inference.term_translator import TermTranslator
from tf_transformer.inference.translator import Translator
from tf_transformer.language_id.identifier import LanguageIdentifier
from tf_transformer.models.row_adapters import row_choice


class Parts:
    """The parts of a model in use; tracing a task makes those it needs, outside of its graph.

    Args:
        engine: the translator, or the continuer of a language model; the task `nbest` returns as
            many translations as the beam size of the translator.
        calibration: that of the model's confidences, for the task `confidence`, if any.
        identifier: identifies languages, for the task `language`, if any.
        document_languages: those of the documents, see `DocumentTranslator`.
    """

    def __init__(
        self,
        engine: Translator | Continuer,
        *,
        calibration: Calibration | None = None,
        identifier: LanguageIdentifier | None = None,
        document_languages: Iterable[str] = LANGUAGES,
    ):
        self.engine = engine
        # Only tasks that need them read these and `adapters`.
        self.translator: Any = engine if isinstance(engine, Translator) else None
        self.continuer: Any = engine if isinstance(engine, Continuer) else None
        self.calibration: Any = calibration
        self.identifier: Any = identifier
        self._document_languages = tuple(document_languages)

    @functools.cached_property
    def adapters(self) -> Any:
        """The `RowChoice` of the adapter of each row; None if the model has none."""
        return row_choice(self.engine.model)

    @functools.cached_property
    def aligner(self) -> Aligner:
        """Aligns translations with their sources."""
        with tf.init_scope():
            return Aligner(self.translator)

    @functools.cached_property
    def constrained(self) -> TermTranslator:
        """Translates sentences with terms."""
        with tf.init_scope():
            return TermTranslator(self.translator)

    @functools.cached_property
    def documents(self) -> DocumentTranslator:
        """Translates documents."""
        with tf.init_scope():
            return DocumentTranslator(self.translator, self._document_languages)

    @functools.cached_property
    def constrained_documents(self) -> DocumentTranslator:
        """Translates documents with terms."""
        with tf.init_scope():
            return DocumentTranslator(self.constrained, self._document_languages)

    def search_options(self, values: Mapping[str, tf.Tensor]) -> TranslationOptions | None:
        """Returns the search options of rows; None stands for those of the translator."""
        return TranslationOptions(**values) if values else None

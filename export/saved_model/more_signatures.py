"""The signatures that only some exports have: documents, terms, adapters, confidence, language.

Each function takes what it needs, then the inputs by name, and returns the outputs by name. Inputs
and outputs have one value per row.
"""

from collections.abc import Mapping

import tensorflow as tf

from tf_transformer.confidence.calibration import Calibration
from tf_transformer.confidence.word_confidences import translate_with_confidence
from tf_transformer.decoding.translation_options import TranslationOptions
from tf_transformer.documents.document_translator import DocumentTranslator
from tf_transformer.documents.source_sentences import Phrases
from tf_transformer.inference.term_translator import TermTranslator
from tf_transformer.inference.translator import Translator
from tf_transformer.language_id.identifier import LanguageIdentifier
from tf_transformer.models.row_adapters import RowChoice

Outputs = dict[str, tf.Tensor]


def given_options(values: Mapping[str, tf.Tensor]) -> TranslationOptions | None:
    """Returns the search options of a signature, None if it has none."""
    return TranslationOptions(**values) if values else None


def translate_adapted(
    translator: Translator,
    choice: RowChoice,
    text: tf.Tensor,
    adapter: tf.Tensor,
    **options: tf.Tensor,
) -> Outputs:
    """Translates with each row's adapter, and returns its name; "" is none, as unknown ones."""
    indices = choice.find(adapter)
    found = translator.translate_in_graph(text, given_options(options), adapters=indices)
    return {
        "translation": found.text[:, 0],
        "score": found.scores[:, 0],
        "truncated": found.truncated,
        "adapter": tf.gather(tf.constant(["", *choice.names]), indices),
    }


def translate_with_terms(
    translator: TermTranslator,
    text: tf.Tensor,
    terms: tf.Tensor,
    protect: tf.Tensor,
    **options: tf.Tensor,
) -> Outputs:
    """Translates with each row's terms, and returns which of them the translation contains."""
    found = translator.translate_in_graph(text, terms, protect, TranslationOptions(**options))
    return {
        "translation": found.text,
        "score": found.scores,
        "truncated": found.truncated,
        "terms_met": found.met,
        "terms_unmet": found.unmet,
        "terms_ignored": found.num_ignored,
    }


def translate_documents(
    documents: DocumentTranslator,
    text: tf.Tensor,
    keep_capitals: tf.Tensor | None = None,
    **options: tf.Tensor,
) -> Outputs:
    """Translates documents, and returns the spans and the scores of their sentences."""
    found = documents.translate_in_graph(text, given_options(options), keep_capitals)
    return _of_documents(found)


def translate_documents_with_terms(
    documents: DocumentTranslator,
    text: tf.Tensor,
    terms: tf.Tensor,
    protect: tf.Tensor,
    keep_capitals: tf.Tensor,
    **options: tf.Tensor,
) -> Outputs:
    """Translates documents with each row's terms, and returns those that translations lack."""
    phrases = Phrases(terms, protect)
    found = documents.translate_in_graph(text, given_options(options), keep_capitals, phrases)
    return _of_documents(found) | {
        "terms_unmet": found.unmet,
        "terms_ignored": found.num_ignored,
    }


def _of_documents(found):
    return {
        "translation": found.text,
        "score": found.scores,
        "source_spans": found.source_spans,
        "target_spans": found.target_spans,
        "sentence_scores": found.sentence_scores,
        "truncated": found.truncated,
    }


def translate_confidently(
    translator: Translator, calibration: Calibration, text: tf.Tensor, **options: tf.Tensor
) -> Outputs:
    """Translates, and returns the confidence of each word, and their mean."""
    found = translate_with_confidence(translator, calibration, text, given_options(options))
    return {
        "translation": found.text,
        "score": found.scores,
        "words": found.words,
        "word_confidences": found.word_confidences,
        "confidence": found.confidences,
        "truncated": found.truncated,
    }


def identify_language(identifier: LanguageIdentifier, text: tf.Tensor) -> Outputs:
    """Returns the most probable language, or `und`, and its probability."""
    found = identifier.identify(text)
    return {"language": found.languages, "probability": found.probabilities}

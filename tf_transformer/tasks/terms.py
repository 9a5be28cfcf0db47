"""Translations with terms and protected spans, of sentences and of documents."""

from typing import TYPE_CHECKING, Any

from tf_transformer.tasks import document
from tf_transformer.tasks.task import (
    DOCUMENT,
    KEEP_CAPITALS,
    SCORE,
    TEXT,
    TRANSLATION,
    TRUNCATED,
    Input,
    Output,
    Task,
)

if TYPE_CHECKING:
    from tf_transformer.tasks.parts import Parts


def translate_with_terms(
    parts: "Parts", text: Any, terms: Any, protect: Any, **options: Any
) -> dict[str, Any]:
    """Translates with each row's terms, and returns which of them the translation contains."""
    found = parts.constrained.translate_in_graph(
        text, terms, protect, parts.search_options(options)
    )
    return {
        "translation": found.text,
        "score": found.scores,
        "truncated": found.truncated,
        "terms_met": found.met,
        "terms_unmet": found.unmet,
        "terms_ignored": found.num_ignored,
    }


def translate_document_with_terms(
    parts: "Parts", text: Any, terms: Any, protect: Any, keep_capitals: Any, **options: Any
) -> dict[str, Any]:
    """Translates documents with each row's terms, and returns those that translations lack."""
    from tf_transformer.documents.source_sentences import Phrases

    found = parts.constrained_documents.translate_in_graph(
        text, parts.search_options(options), keep_capitals, Phrases(terms, protect)
    )
    return document.outputs_of(found) | {
        "terms_unmet": found.unmet,
        "terms_ignored": found.num_ignored,
    }


PHRASES = (
    Input("terms", "string", "lines of a source phrase, a tab and its translation"),
    Input("protect", "int32", "sum of the kinds of spans to copy"),
)
UNMET = Output("terms_unmet", "string", "the phrases that it lacks, one a line")
IGNORED = Output("terms_ignored", "int32", "number of phrases that exceeded a limit")

TRANSLATE_WITH_TERMS = Task(
    "terms",
    "the best translation that contains given phrases",
    (TEXT, *PHRASES),
    (
        TRANSLATION,
        SCORE,
        TRUNCATED,
        Output("terms_met", "string", "the phrases that it contains, one a line"),
        UNMET,
        IGNORED,
    ),
    translate_with_terms,
    with_options="terms",
    is_optional=True,
)
TRANSLATE_DOCUMENT_WITH_TERMS = Task(
    "document_terms",
    "the translation of a text of several sentences that contains given phrases",
    (DOCUMENT, *PHRASES),
    (*document.OUTPUTS, UNMET, IGNORED),
    translate_document_with_terms,
    with_options="document_terms",
    flags=(KEEP_CAPITALS,),
    is_optional=True,
)

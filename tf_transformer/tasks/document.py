"""The translation of a text of several sentences."""

from typing import TYPE_CHECKING, Any

from tf_transformer.tasks.task import (
    DOCUMENT,
    KEEP_CAPITALS,
    SCORE,
    TRANSLATION,
    TRUNCATED,
    Output,
    Task,
)

if TYPE_CHECKING:
    from tf_transformer.tasks.parts import Parts


def translate_document(
    parts: "Parts", text: Any, keep_capitals: Any = None, **options: Any
) -> dict[str, Any]:
    """Translates documents, and returns the spans and the scores of their sentences."""
    found = parts.documents.translate_in_graph(text, parts.search_options(options), keep_capitals)
    return outputs_of(found)


def outputs_of(found: Any) -> dict[str, Any]:
    """Returns `Documents` by the names of the outputs."""
    return {
        "translation": found.text,
        "score": found.scores,
        "source_spans": found.source_spans,
        "target_spans": found.target_spans,
        "sentence_scores": found.sentence_scores,
        "truncated": found.truncated,
    }


OUTPUTS = (
    TRANSLATION._replace(description="the translation, in the same layout"),
    SCORE._replace(description="the mean of the scores of the sentences that are translated"),
    Output("source_spans", "string", "start-end of each sentence of the source"),
    Output("target_spans", "string", "start-end of the translation of each sentence"),
    Output("sentence_scores", "string", "the score of each sentence", is_numbers=True),
    TRUNCATED._replace(description="whether a part exceeded a limit"),
)

TRANSLATE_DOCUMENT = Task(
    "document",
    "the translation of a text of several sentences",
    (DOCUMENT,),
    OUTPUTS,
    translate_document,
    "document",
    "document_options",
    flags=(KEEP_CAPITALS,),
    is_optional=True,
)

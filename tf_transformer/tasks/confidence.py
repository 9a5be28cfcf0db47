"""A translation with the confidence of each word."""

from typing import TYPE_CHECKING, Any

from tf_transformer.tasks.task import SCORE, TEXT, TRANSLATION, TRUNCATED, Output, Task

if TYPE_CHECKING:
    from tf_transformer.tasks.parts import Parts


def translate_with_confidence(parts: "Parts", text: Any, **options: Any) -> dict[str, Any]:
    """Translates, and returns the confidence of each word, and their mean."""
    from tf_transformer.confidence import word_confidences

    found = word_confidences.translate_with_confidence(
        parts.translator, parts.calibration, text, parts.search_options(options)
    )
    return {
        "translation": found.text,
        "score": found.scores,
        "words": found.words,
        "word_confidences": found.word_confidences,
        "confidence": found.confidences,
        "truncated": found.truncated,
    }


CONFIDENCE = Task(
    "confidence",
    "the best translation, and how probable it is that each word is right",
    (TEXT,),
    (
        TRANSLATION,
        SCORE,
        Output("words", "string", "the words of the translation, separated by spaces"),
        Output("word_confidences", "string", "the confidence of each", is_numbers=True),
        Output("confidence", "float32", "their mean"),
        TRUNCATED,
    ),
    translate_with_confidence,
    with_options="confidence",
    needs="calibration",
    needed_option="--confidence F, a file of `train-confidence`",
)

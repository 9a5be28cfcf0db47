"""The best translation of a sentence."""

from typing import TYPE_CHECKING, Any

from tf_transformer.tasks.task import SCORE, TEXT, TRANSLATION, TRUNCATED, Task

if TYPE_CHECKING:
    from tf_transformer.tasks.parts import Parts


def translate(parts: "Parts", text: Any, **options: Any) -> dict[str, Any]:
    """Returns the best translation and its score, and whether the source was truncated."""
    return best_of(parts.translator.translate_in_graph(text, parts.search_options(options)))


def best_of(found: Any) -> dict[str, Any]:
    """Returns the best of `Translations`."""
    return {
        "translation": found.text[:, 0],
        "score": found.scores[:, 0],
        "truncated": found.truncated,
    }


TRANSLATE = Task(
    "translate",
    "the best translation of a sentence",
    (TEXT,),
    (TRANSLATION, SCORE, TRUNCATED),
    translate,
    "serving_default",
    "translate_options",
)

"""A translation that begins with a given text."""

from typing import TYPE_CHECKING, Any

from tf_transformer.tasks.task import SCORE, TEXT, TRANSLATION, TRUNCATED, Input, Task
from tf_transformer.tasks.translate import best_of

if TYPE_CHECKING:
    from tf_transformer.tasks.parts import Parts


def complete(parts: "Parts", text: Any, prefix: Any, **options: Any) -> dict[str, Any]:
    """Returns the best translation that begins with the prefix, and the score of what follows."""
    found = parts.translator.translate_in_graph(text, parts.search_options(options), prefix)
    return best_of(found)


COMPLETE = Task(
    "complete",
    "the best translation that begins with a prefix; its score is that of what follows",
    (TEXT, Input("prefix", "string", "beginning of the translation")),
    (TRANSLATION, SCORE, TRUNCATED),
    complete,
    "complete",
    "complete_options",
)

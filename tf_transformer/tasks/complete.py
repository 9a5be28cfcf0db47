"""A translation that begins with a given text, and text that a language model continues."""

from typing import TYPE_CHECKING, Any

from tf_transformer.decoding.search_options import CONTINUATION_OPTIONS
from tf_transformer.tasks.task import SCORE, TEXT, TRANSLATION, TRUNCATED, Input, Output, Task
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


def continue_text(parts: "Parts", text: Any, **options: Any) -> dict[str, Any]:
    """Returns the fields of `Continuations`."""
    from tf_transformer.inference.continuer import ContinuationOptions

    found = parts.continuer.continue_in_graph(text, ContinuationOptions(**options))
    return {
        "completion": found.text,
        "score": found.scores,
        "num_tokens": found.num_tokens,
        "truncated": found.truncated,
    }


CONTINUATION = Task(
    "continuation",
    "a text as a language model continues it; its score is that of what follows",
    (TEXT._replace(description="the beginning of a text"),),
    (
        Output("completion", "string", "the text with its continuation"),
        SCORE,
        Output("num_tokens", "int32", "number of tokens of the text"),
        TRUNCATED._replace(description="whether the text exceeded the model's limit"),
    ),
    continue_text,
    with_options="continuation",
    options=CONTINUATION_OPTIONS,
    needs="continuer",
    needed_option="a language model as --model-dir",
)

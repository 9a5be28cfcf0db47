"""The language of a text."""

from typing import TYPE_CHECKING, Any

from tf_transformer.tasks.task import Input, Output, Task

if TYPE_CHECKING:
    from tf_transformer.tasks.parts import Parts


def identify_language(parts: "Parts", text: Any) -> dict[str, Any]:
    """Returns the most probable language, or `und`, and its probability."""
    found = parts.identifier.identify(text)
    return {"language": found.languages, "probability": found.probabilities}


LANGUAGE = Task(
    "language",
    "the language of a text",
    (Input("text", "string", "any text"),),
    (
        Output("language", "string", "its name, or und"),
        Output("probability", "float32", "the probability that it is right"),
    ),
    identify_language,
    "language",
    options=(),
    needs="identifier",
    needed_option="--language-id F, a file of `train-language-id`",
)

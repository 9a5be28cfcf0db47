"""Which words of a sentence and of its given translation belong together."""

from typing import TYPE_CHECKING, Any

from tf_transformer.tasks.score import SOURCE, TARGET
from tf_transformer.tasks.task import Output, Task

if TYPE_CHECKING:
    from tf_transformer.tasks.parts import Parts


def link_words(parts: "Parts", source: Any, target: Any) -> dict[str, Any]:
    """Returns the fields of `WordLinks` for each pair of a source and a target."""
    from tf_transformer.inference import word_links

    found = word_links.link_words(parts.translator, source, target)
    return {"links": found.links, "score": found.scores, "aligned": found.is_aligned}


WORD_LINKS = Task(
    "word_links",
    "which words of a sentence and of its given translation belong together",
    (SOURCE, TARGET),
    (
        Output("links", "string", "pairs i-j of a source word and a target word"),
        Output("score", "float32", "the share of the attention that goes to these source words"),
        Output("aligned", "bool", "whether the sides are short enough, of words as in their text"),
    ),
    link_words,
    "word_links",
    options=(),
    is_optional=True,
)

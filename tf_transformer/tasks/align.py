"""The alignment of a sentence with its translation: that of the model, or a given one."""

from typing import TYPE_CHECKING, Any

from tf_transformer.tasks.score import SOURCE, TARGET
from tf_transformer.tasks.task import SCORE, TEXT, TRANSLATION, TRUNCATED, Output, Task

if TYPE_CHECKING:
    from tf_transformer.tasks.parts import Parts


def align(parts: "Parts", text: Any, **options: Any) -> dict[str, Any]:
    """Returns the fields of `Alignments`: translation, pieces, hard and soft alignment."""
    found = parts.aligner.align(text, parts.search_options(options))
    return {
        "translation": found.text,
        "score": found.scores,
        "source_pieces": found.source_pieces,
        "target_pieces": found.target_pieces,
        "hard_alignment": found.hard,
        "soft_alignment": found.soft,
        "truncated": found.truncated,
    }


PIECES = (
    Output("source_pieces", "string", "the pieces of the source, separated by spaces"),
    Output("target_pieces", "string", "the pieces of the translation, separated by spaces"),
    Output("hard_alignment", "string", "pairs i-j of a source piece and a target piece"),
)
ALIGN = Task(
    "align",
    "the best translation, and which pieces of both sides belong together",
    (TEXT,),
    (
        TRANSLATION,
        SCORE,
        *PIECES,
        Output("soft_alignment", "string", "all weights, in Marian's format", is_numbers=True),
        TRUNCATED,
    ),
    align,
    "align",
    "align_options",
)


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

"""A translation with the pieces and the alignment of both sides."""

from typing import TYPE_CHECKING, Any

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

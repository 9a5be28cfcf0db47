"""The best translations of a sentence."""

from typing import TYPE_CHECKING, Any

from tf_transformer.tasks.task import TEXT, TRUNCATED, Output, Task

if TYPE_CHECKING:
    from tf_transformer.tasks.parts import Parts

NO_SCORE = -1e9
"""Score of an empty entry, exact in float32; -infinity cannot be written in JSON."""


def find_best(parts: "Parts", text: Any, **options: Any) -> dict[str, Any]:
    """Returns `(batch, beam_size)` translations, best first; empty entries score `NO_SCORE`."""
    import tensorflow as tf

    translator = parts.translator
    found = translator.translate_in_graph(
        text, parts.search_options(options), num_best=translator.search.beam_size
    )
    return {
        "translations": found.text,
        "scores": tf.maximum(found.scores, NO_SCORE),
        "num_tokens": found.lengths,
        "truncated": found.truncated,
    }


NBEST = Task(
    "nbest",
    "the translations of the beam, best first",
    (TEXT,),
    (
        Output("translations", "string", "the translations", rank=2),
        Output("scores", "float32", "their scores, -1e9 of an empty entry", rank=2),
        Output("num_tokens", "int32", "their numbers of tokens", rank=2),
        TRUNCATED,
    ),
    find_best,
    "nbest",
    "nbest_options",
)

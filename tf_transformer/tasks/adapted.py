"""The best translation by a model with one of several adapters."""

from typing import TYPE_CHECKING, Any

from tf_transformer.tasks.task import SCORE, TEXT, TRANSLATION, TRUNCATED, Input, Output, Task
from tf_transformer.tasks.translate import best_of

if TYPE_CHECKING:
    from tf_transformer.tasks.parts import Parts


def translate_adapted(parts: "Parts", text: Any, adapter: Any, **options: Any) -> dict[str, Any]:
    """Translates with each row's adapter, and returns its name; "" is none, as unknown ones."""
    import tensorflow as tf

    indices = parts.adapters.find(adapter)
    found = parts.translator.translate_in_graph(
        text, parts.search_options(options), adapters=indices
    )
    names = tf.constant(["", *parts.adapters.names])
    return best_of(found) | {"adapter": tf.gather(names, indices)}


ADAPTED = Task(
    "adapted",
    "the best translation by the model with a named adapter",
    (TEXT, Input("adapter", "string", "name of the adapter; any other is the model itself")),
    (TRANSLATION, SCORE, TRUNCATED, Output("adapter", "string", "the adapter that was used")),
    translate_adapted,
    with_options="adapted",
    needs="adapters",
    needed_option="--adapters NAME=F, files of `train --lora`",
)

"""Translation of token ids, without text."""

from typing import TYPE_CHECKING, Any

from tf_transformer.tasks.task import SCORE, Input, Output, Task
from tf_transformer.text.special_ids import PAD_ID, UNKNOWN_ID

if TYPE_CHECKING:
    from tf_transformer.tasks.parts import Parts


def translate_tokens(parts: "Parts", ids: Any, **options: Any) -> dict[str, Any]:
    """Translates token ids.

    Args:
        parts: the model.
        ids: `(batch, source_limit)` source ids without special ids; 0 is padding. The width of
            inputs and outputs is fixed, so that it does not depend on the batch.
        **options: search options of each row by name.

    Returns:
        Target ids `(batch, source_limit)`, 0 = padding, their number and their score.
    """
    import tensorflow as tf

    translator = parts.translator
    search = translator.search
    is_real = tf.math.cumprod(tf.cast(ids != PAD_ID, tf.int32), axis=1)
    lengths = tf.reduce_sum(is_real, axis=1)
    is_known = (ids >= 0) & (ids < search.model.config.source_vocab_size)
    source = tf.RaggedTensor.from_tensor(tf.where(is_known, ids, UNKNOWN_ID), lengths)
    found = search.run_chunks(source, parts.search_options(options), translator.chunk_size)
    return {"ids": found.ids, "num_tokens": found.lengths, "score": found.scores}


TOKENS = Task(
    "tokens",
    "the best translation of token ids; its signatures alone need no tensorflow-text",
    (Input("ids", "int32", "source ids, padded with 0", has_source_width=True),),
    (
        Output("ids", "int32", "target ids, padded with 0", rank=2),
        Output("num_tokens", "int32", "their number"),
        SCORE,
    ),
    translate_tokens,
    "tokens",
    "tokens_options",
)

"""What the tokens of a given translation attend to in its source."""

import tensorflow as tf

from tf_transformer.models.transformer import Transformer
from tf_transformer.text.framing import prepend_begin


def forced_attention(
    model: Transformer, tags: tf.Tensor, source: tf.Tensor, target: tf.Tensor
) -> tf.Tensor:
    """Returns the weights that each target token was predicted with.

    The decoder reads the begin id, the tags and the target; the weights that predict a token are
    those of the position before its own, see `Transformer.alignment`.

    Args:
        model: the model.
        tags: `(rows, num_target_tags)` ids before those of the target.
        source: `(rows, source_length)` ids with the end id, padded with 0.
        target: `(rows, target_length)` ids without the end id, padded with 0.

    Returns:
        `(rows, target_length, source_length)` float32.
    """
    ids = prepend_begin(tf.concat([tags, target], axis=1))
    weights = tf.cast(model.alignment({"source": source, "target": ids}), tf.float32)
    return weights[:, tf.shape(tags)[1] : -1]

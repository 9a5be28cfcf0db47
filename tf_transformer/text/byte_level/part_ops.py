"""The parts of a text that byte-level BPE segments one by one, as TensorFlow ops."""

import tensorflow as tf
import tensorflow_text as tf_text

from tf_transformer.text.byte_level.parts import CHUNK, LONG_SPACE, PART


def split_texts(texts: tf.Tensor) -> tf.RaggedTensor:
    """Returns the parts of texts, see `parts`.

    Args:
        texts: `(batch,)` strings. Invalid UTF-8 is replaced by U+FFFD.

    Returns:
        Strings, ragged `(batch, (parts))`.
    """
    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")
    chunks = tf_text.regex_split(texts, CHUNK, CHUNK)
    values = chunks.flat_values
    is_long = tf.strings.regex_full_match(values, LONG_SPACE)
    space, rest = (
        tf.strings.regex_replace(values, f"^(?:{LONG_SPACE})$", rf"\{group}") for group in (1, 2)
    )
    space = tf.where(is_long, space, "")[:, tf.newaxis]
    parts = tf_text.regex_split(rest, PART, PART)
    parts = tf.concat([tf.RaggedTensor.from_tensor(space), parts], axis=1)
    parts = tf.ragged.boolean_mask(parts, parts != "")
    return chunks.with_values(parts).merge_dims(1, 2)

"""The parts of a text that byte-level BPE segments one by one, as TensorFlow ops."""

import tensorflow as tf

from tf_transformer.text.byte_level.parts import CUT, PART

# Stands between parts: a byte that UTF-8 does not have, and that no pattern matches.
_BORDER = b"\xff"


def split_texts(texts: tf.Tensor) -> tf.RaggedTensor:
    """Returns the parts of texts, see `parts`.

    Args:
        texts: `(batch,)` strings. Invalid UTF-8 is replaced by U+FFFD.

    Returns:
        Strings, ragged `(batch, (parts))`.
    """
    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")
    texts = tf.strings.regex_replace(texts, CUT, rb"\1" + _BORDER + rb"\2")
    texts = tf.strings.regex_replace(texts, PART, rb"\1" + _BORDER)
    parts = tf.strings.split(texts, _BORDER)
    return tf.ragged.boolean_mask(parts, parts != b"")

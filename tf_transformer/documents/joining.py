"""What belongs to the sentences of documents, joined to one value for each document."""

import tensorflow as tf

from tf_transformer.documents.sentence_boundaries import Sentences, row_offsets

# A translation after which Chinese and Japanese put no space.
_ENDS_WIDE = r"(?s).*[\x{3002}\x{FF01}\x{FF1F}\x{FF61}][\p{Pe}\p{Pf}]*"


def join_sentences(sentences: Sentences, texts: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Joins the translations of sentences to documents.

    Args:
        sentences: the sentences of the documents.
        texts: their translations, ragged `(batch, (sentences))`.

    Returns:
        The documents, `(batch,)` strings, and the character at which each translation starts.
    """
    space, text = sentences.space.flat_values, texts.flat_values
    rows = texts.value_rowids()
    is_last = tf.concat([rows[1:] != rows[:-1], tf.ones_like(rows[:1], tf.bool)], axis=0)
    is_wide = tf.strings.regex_full_match(text, _ENDS_WIDE)
    trailing = sentences.trailing.flat_values
    trailing = tf.where(is_wide & (trailing == " ") & ~is_last, "", trailing)
    is_glued = (trailing == "") & (text != "") & ~is_wide & ~is_last
    trailing = tf.where(is_glued, " ", trailing)
    parts = texts.with_flat_values(tf.strings.join([space, text, trailing]))
    lengths = tf.strings.length(parts.flat_values, unit="UTF8_CHAR")
    starts = row_offsets(parts.with_flat_values(lengths))
    starts += tf.strings.length(space, unit="UTF8_CHAR")
    return tf.strings.reduce_join(parts, axis=1), starts


def join_spans(starts: tf.Tensor, ends: tf.Tensor, is_chosen: tf.RaggedTensor) -> tf.Tensor:
    """Joins spans of the chosen sentences, written `start-end`, `(batch,)`."""
    parts = [tf.strings.as_string(starts), tf.strings.as_string(ends)]
    return join_chosen(tf.strings.join(parts, "-"), is_chosen)


def mean_of_chosen(values: tf.Tensor, is_chosen: tf.RaggedTensor) -> tf.Tensor:
    """Returns the mean of the values of the chosen sentences, `(batch,)`."""
    total = tf.reduce_sum(tf.where(is_chosen, is_chosen.with_flat_values(values), 0.0), axis=1)
    count = tf.reduce_sum(tf.cast(is_chosen, tf.float32), axis=1)
    return tf.math.divide_no_nan(total, count)


def join_chosen(values: tf.Tensor, is_chosen: tf.RaggedTensor, separator: str = " ") -> tf.Tensor:
    """Joins strings of the chosen sentences, `(batch,)`."""
    kept = tf.ragged.boolean_mask(is_chosen.with_flat_values(values), is_chosen)
    return tf.strings.reduce_join(kept, axis=1, separator=separator)

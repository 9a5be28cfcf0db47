"""Begin and end ids of the inputs of encoder and decoder, and of the labels.

For a pair of sentences s_1 ... s_m and t_1 ... t_n:

    source   s_1 ... s_m end            input of the encoder
    target   begin t_1 ... t_n          input of the decoder
    labels   t_1 ... t_n end            each predicted from the target up to its position

In a model with `language_tags="source_and_target"`, the target's tag t_0 stands before the source
in text and corpora; `split_tags` and `move_tags` make it the first token of the target.

`target` is thus the input of the decoder, not what Keras calls `y_true`; that is `labels`. Training
frames text in `training.data.pipeline`, and noisy text again in `training.data.augmentation`.
Prepared shards contain sources and labels, written without TensorFlow by
`training.preparation.shard_tasks`; `training.prepared.prepared_text` makes their targets.
"""

from collections.abc import Mapping

import tensorflow as tf

from tf_transformer.text.special_ids import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID


def end_and_pad(ids: tf.RaggedTensor) -> tf.Tensor:
    """Makes sources or labels: ragged ids `(batch, (length))` to padded `(batch, longest + 1)`."""
    # With far fewer operations than a concatenation of ragged tensors.
    padded = tf.pad(ids.to_tensor(PAD_ID), [[0, 0], [0, 1]], constant_values=PAD_ID)
    lengths = tf.cast(ids.row_lengths(), tf.int32)[:, tf.newaxis]
    is_end = tf.range(tf.shape(padded)[1]) == lengths
    return tf.where(is_end, tf.constant(END_ID, padded.dtype), padded)


def split_tags(ids: tf.RaggedTensor, num_tags: int) -> tuple[tf.Tensor, tf.RaggedTensor]:
    """Separates the tags of the targets from sources.

    Args:
        ids: ragged ids `(batch, (length))`.
        num_tags: number of tags, `TransformerConfig.num_target_tags`.

    Returns:
        The tags `(batch, num_tags)`, unknown ids where a source is too short, and the rest of the
        sources, ragged.
    """
    tags = ids[:, :num_tags].to_tensor(UNKNOWN_ID, shape=(None, num_tags))
    return tags, ids[:, num_tags:]


def move_tags(
    inputs: Mapping[str, tf.Tensor], labels: tf.Tensor, num_tags: int
) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Moves the tags of the targets from the sources of a batch to its targets.

    A tag is given, not predicted: its label is padding. (Deviation from M2M100, whose loss includes
    the tags, which cannot be inferred from the source.)

    Args:
        inputs: `source` and `target`, `(batch, length)` each; no source is shorter than the tags.
        labels: `(batch, length)`.
        num_tags: number of tags, `TransformerConfig.num_target_tags`.

    Returns:
        The new inputs and labels.
    """
    source, target = inputs["source"], inputs["target"]
    tags = source[:, :num_tags]
    target = tf.concat([target[:, :1], tags, target[:, 1:]], axis=1)
    labels = tf.pad(labels, [[0, 0], [num_tags, 0]], constant_values=PAD_ID)
    return {"source": source[:, num_tags:], "target": target}, labels


def append_end(ids: tf.Tensor) -> tf.Tensor:
    """Makes the source or the labels of one sentence: ids `(length,)` to `(length + 1,)`."""
    return tf.concat([ids, [END_ID]], axis=0)


def remove_end(ids: tf.Tensor) -> tf.RaggedTensor:
    """Removes end ids and padding: the inverse of `end_and_pad`."""
    return tf.RaggedTensor.from_tensor(ids, padding=PAD_ID)[:, :-1]


def prepend_begin(ids: tf.Tensor) -> tf.Tensor:
    """Makes targets: ids without an end id, `(batch, length)`, to `(batch, length + 1)`."""
    return tf.pad(ids, [[0, 0], [1, 0]], constant_values=BEGIN_ID)


def shift_right(labels: tf.Tensor) -> tf.Tensor:
    """Makes targets from labels, `(batch, length)` both: prepends begin ids, removes end ids."""
    shifted = prepend_begin(labels[:, :-1])
    return tf.where(shifted == END_ID, PAD_ID, shifted)

"""Begin and end ids of the inputs of encoder and decoder, and of the labels.

For a pair of sentences s_1 ... s_m and t_1 ... t_n:

    source   s_1 ... s_m end            input of the encoder
    target   begin t_1 ... t_n          input of the decoder
    labels   t_1 ... t_n end            each predicted from the target up to its position

`target` is thus the input of the decoder, not what Keras calls `y_true`; that is `labels`. Training
frames text in `training.data.pipeline`, and noisy text again in `training.data.augmentation`.
Prepared shards contain sources and labels, written without TensorFlow by
`training.prepared.shards`; `training.prepared.prepared_text` makes their targets.
"""

import tensorflow as tf

from tf_transformer.text.special_ids import BEGIN_ID, END_ID, PAD_ID


def end_and_pad(ids: tf.RaggedTensor) -> tf.Tensor:
    """Makes sources or labels: ragged ids `(batch, (length))` to padded `(batch, longest + 1)`."""
    ends = tf.fill(tf.stack([ids.nrows(), 1]), END_ID)
    return tf.concat([ids, ends], axis=1).to_tensor(PAD_ID)


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

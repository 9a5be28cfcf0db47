"""Begin and end ids around sentences: what encoder and decoder read, and what the labels are.

For a pair of sentences s_1 ... s_m and t_1 ... t_n:

    source   s_1 ... s_m end            read by the encoder
    target   begin t_1 ... t_n          read by the decoder
    labels   t_1 ... t_n end            predicted, each from the target up to its position
"""

import tensorflow as tf

from tf_transformer.text.special_ids import BEGIN_ID, END_ID, PAD_ID


def end_and_pad(ids: tf.RaggedTensor) -> tf.Tensor:
    """Sources or labels: ragged `(batch, (length))` to `(batch, longest + 1)`, padded."""
    ends = tf.fill(tf.stack([ids.nrows(), 1]), END_ID)
    return tf.concat([ids, ends], axis=1).to_tensor(PAD_ID)


def append_end(ids: tf.Tensor) -> tf.Tensor:
    """The source or the labels of one sentence: ids `(length,)` to `(length + 1,)`."""
    return tf.concat([ids, [END_ID]], axis=0)


def remove_end(ids: tf.Tensor) -> tf.RaggedTensor:
    """The inverse of `end_and_pad`."""
    return tf.RaggedTensor.from_tensor(ids, padding=PAD_ID)[:, :-1]


def prepend_begin(ids: tf.Tensor) -> tf.Tensor:
    """Targets: ids without an end, `(batch, length)`, to `(batch, length + 1)`."""
    return tf.pad(ids, [[0, 0], [1, 0]], constant_values=BEGIN_ID)


def shift_right(labels: tf.Tensor) -> tf.Tensor:
    """Targets of labels, `(batch, length)` both: begin id first, padding in place of the end."""
    shifted = prepend_begin(labels[:, :-1])
    return tf.where(shifted == END_ID, PAD_ID, shifted)

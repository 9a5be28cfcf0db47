"""Logits, loss and their gradient in one go, some tokens at a time: the logits are never all there.

TensorFlow alone; `label_smoothing.py` says what is computed, and is what this is tested against.
"""

from typing import Any

import tensorflow as tf

from tf_transformer.losses.label_smoothing import SMOOTHED_OVER, TokenLosses, num_smoothed
from tf_transformer.text.special_ids import PAD_ID

# Tokens whose logits are there at once: at least, and for each unit of the vectors' width. Fewer
# make the sum over chunks, as large as the table, cost more than they save.
_CHUNK, _CHUNK_PER_WIDTH = 512, 2


def projected_cross_entropy(
    hidden: Any,
    table: Any,
    bias: Any,
    labels: Any,
    divisor: Any,
    label_smoothing: float,
    smoothed_over: str = "all",
    chunk: int | None = None,
) -> tuple[Any, TokenLosses]:
    """Smoothed cross-entropy of `hidden table^T + bias`, summed over real tokens and divided.

    The gradient is computed along with the value, since all of it is at hand: with probabilities P
    of a chunk's tokens (rows), their vectors H, the distributions Q that the loss compares with
    (see `smoothed_cross_entropy`), table E and divisor c,

    dH = (P - Q) E / c        dE = (P - Q)^T H / c        db = (P - Q)^T 1 / c

    Q has one value at the labels, and one elsewhere: its products need no array as wide as the
    vocabulary. Memory is that of a chunk's logits and two tables, however large the batch.

    Args:
        hidden: `(tokens, d_model)`, of the real tokens, row after row; of any floating type,
            computed in float32.
        table: E, `(vocab, d_model)` float32.
        bias: `(vocab,)` float32, or None.
        labels: `(batch, length)` ids padded with 0.
        divisor: c, a number.
        label_smoothing, smoothed_over: see `smoothed_cross_entropy`.
        chunk: tokens whose logits are there at once; None chooses.

    Returns:
        The loss, a number, and the `TokenLosses` of the real tokens.
    """
    vocab_size, width = table.shape
    chunk = chunk or max(_CHUNK, _CHUNK_PER_WIDTH * width)
    share = label_smoothing / num_smoothed(vocab_size, smoothed_over)
    at_label = 1.0 - label_smoothing - (0.0 if smoothed_over == "all" else share)
    spares_padding = smoothed_over == SMOOTHED_OVER[2]
    spread = tf.fill([vocab_size], share)
    if spares_padding:
        spread *= tf.cast(tf.range(vocab_size) != PAD_ID, tf.float32)
    ids = tf.cast(tf.boolean_mask(labels, labels != PAD_ID), tf.int32)
    has_bias = bias is not None

    @tf.custom_gradient
    def loss_of(hidden, table, bias):
        rows = tf.cast(hidden, tf.float32)

        def read(part):
            """A chunk: what its logits say of the tokens, and its share of the gradient."""
            vectors, chosen = rows[part], ids[part]
            logits = tf.matmul(vectors, table, transpose_b=True)
            logits = logits + bias if has_bias else logits
            label_logits = tf.gather(logits, chosen, batch_dims=1)
            most = tf.reduce_max(logits, axis=-1)
            # In the logits' place, where nothing reads these any more.
            with tf.control_dependencies([label_logits, most]):
                probabilities = tf.nn.softmax(logits)
            surprisal = most - label_logits - tf.math.log(tf.reduce_max(probabilities, axis=-1))
            is_right = tf.cast(label_logits >= most, tf.float32)
            return (
                tf.stack([surprisal, label_logits, is_right], axis=1),
                tf.matmul(probabilities, table),
                tf.matmul(probabilities, vectors, transpose_a=True),
                tf.reduce_sum(probabilities, axis=0) if has_bias else bias,
            )

        told, towards_rows, for_table, for_bias = _sum_over_chunks(
            read, tf.size(ids), chunk, vocab_size, width
        )
        surprisal, label_logits, is_right = tf.unstack(told, 3, axis=1)
        smoothed = surprisal
        if label_smoothing:
            means = tf.linalg.matvec(rows, tf.reduce_mean(table, axis=0))
            means += tf.reduce_mean(bias)
            gaps = vocab_size * (label_logits - means)
            if spares_padding:
                padding = tf.linalg.matvec(rows, table[PAD_ID])
                gaps -= label_logits - padding - (bias[PAD_ID] if has_bias else 0.0)
            smoothed += share * gaps
        value = tf.reduce_sum(smoothed) / divisor

        def gradient(upstream, *_):
            scale = upstream / divisor
            spread_out = tf.linalg.matvec(table, spread, transpose_a=True)
            d_rows = towards_rows - spread_out - at_label * tf.gather(table, ids)
            d_table = for_table - spread[:, tf.newaxis] * tf.reduce_sum(rows, axis=0)
            d_table = tf.tensor_scatter_nd_sub(d_table, ids[:, tf.newaxis], at_label * rows)
            d_bias = for_bias - spread * tf.cast(tf.size(ids), tf.float32)
            d_bias -= at_label * tf.math.bincount(ids, minlength=vocab_size, dtype=tf.float32)
            return tf.cast(d_rows * scale, hidden.dtype), d_table * scale, d_bias * scale

        return (value, smoothed, surprisal, is_right), gradient

    bias = tf.zeros([vocab_size]) if bias is None else tf.convert_to_tensor(bias)
    value, *losses = loss_of(hidden, tf.convert_to_tensor(table), bias)
    return value, TokenLosses(*map(tf.stop_gradient, losses))


def _sum_over_chunks(read, count, chunk, vocab_size, width):
    """Runs `read` over all chunks: rows side by side, the table's and bias's share summed."""
    num_chunks = tf.maximum((count + chunk - 1) // chunk, 1)

    def add(number, told, towards, for_table, for_bias):
        part = slice(count * number // num_chunks, count * (number + 1) // num_chunks)
        new_told, new_towards, new_for_table, new_for_bias = read(part)
        told, towards = told.write(number, new_told), towards.write(number, new_towards)
        return number + 1, told, towards, for_table + new_for_table, for_bias + new_for_bias

    def rows(size):
        return tf.TensorArray(tf.float32, num_chunks, element_shape=[None, size], infer_shape=False)

    _, told, towards, for_table, for_bias = tf.while_loop(
        lambda number, *_: number < num_chunks,
        add,
        (0, rows(3), rows(width), tf.zeros([vocab_size, width]), tf.zeros([vocab_size])),
        parallel_iterations=1,  # together they would need the memory of all
    )
    return told.concat(), towards.concat(), for_table, for_bias

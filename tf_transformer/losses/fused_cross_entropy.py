"""Fused logits, loss and gradient, in chunks of tokens: the logits are never fully materialized.

Needs TensorFlow. `label_smoothing.py` has the definition of the loss, with which tests compare this
module.
"""

from typing import Any

import tensorflow as tf

from tf_transformer.losses.label_smoothing import SMOOTHED_OVER, TokenLosses, num_smoothed
from tf_transformer.losses.r_drop import divergence_of_pairs, pair_differences
from tf_transformer.text.special_ids import PAD_ID

# The default chunk size is proportional to the vectors' width, with a minimum. With smaller chunks,
# summing their gradients, each as large as the matrix, would cost more than it saves.
_MIN_CHUNK_SIZE, _CHUNK_SIZE_PER_WIDTH = 512, 2


def projected_cross_entropy(
    hidden: Any,
    matrix: Any,
    bias: Any,
    labels: Any,
    divisor: Any,
    label_smoothing: float,
    smoothed_over: str = "all",
    r_drop: float = 0.0,
    chunk_size: int | None = None,
    *,
    trains_matrix: bool = True,
) -> tuple[Any, TokenLosses]:
    """Computes the smoothed cross-entropy of `hidden matrix^T + bias`, summed and divided.

    The gradient is computed together with the value. With the probabilities P and vectors H of a
    chunk's tokens (rows), the distributions Q that the loss compares P with (see
    `smoothed_cross_entropy`), matrix E and divisor c,

    dH = (P - Q) E / c        dE = (P - Q)^T H / c        db = (P - Q)^T 1 / c

    A row of Q has one value at the label and another elsewhere, so products with Q need no array as
    wide as the vocabulary. The memory is that of a chunk's logits and two matrices of the shape of
    E, for any batch size.

    With R-Drop, half of alpha times the divergence D of its two passes is added to the loss of each
    token in each pass, and the gradient of alpha D to P.

    Args:
        hidden: `(tokens, d_model)`, the vectors of the real tokens of all rows in sequence; of any
            floating type, cast to float32. With R-Drop, `(2 * tokens, d_model)`, those of one pass
            after those of the other.
        matrix: E, `(vocab, d_model)` float32.
        bias: `(vocab,)` float32, or None.
        labels: `(batch, length)` ids padded with 0.
        divisor: c, a scalar.
        label_smoothing: probability e to spread over n tokens, see `smoothed_cross_entropy`.
        smoothed_over: the n tokens to spread it over, see `smoothed_cross_entropy`.
        r_drop: alpha, the weight of the divergence, see `r_drop.py`; 0 for a single pass.
        chunk_size: number of tokens per chunk; None chooses it.
        trains_matrix: False computes no gradient of the matrix, which saves a product.

    Returns:
        The loss, a scalar, and the `TokenLosses` of the real tokens, with R-Drop of both passes.
    """
    vocab_size, width = matrix.shape
    chunk_size = chunk_size or max(_MIN_CHUNK_SIZE, _CHUNK_SIZE_PER_WIDTH * width)
    # Q is `smoothing` for every token, plus `label_excess` at the label.
    smoothing = label_smoothing / num_smoothed(vocab_size, smoothed_over)
    label_excess = 1.0 - label_smoothing - (0.0 if smoothed_over == "all" else smoothing)
    excludes_padding = smoothed_over == SMOOTHED_OVER[2]
    smoothing_by_id = tf.fill([vocab_size], smoothing)
    if excludes_padding:
        smoothing_by_id *= tf.cast(tf.range(vocab_size) != PAD_ID, tf.float32)
    ids = tf.cast(tf.boolean_mask(labels, labels != PAD_ID), tf.int32)
    has_bias, num_passes = bias is not None, 2 if r_drop else 1
    if r_drop:  # the two passes of each token in adjacent rows
        ids = tf.repeat(ids, 2)
        hidden = tf.reshape(
            tf.transpose(tf.reshape(hidden, (2, -1, width)), (1, 0, 2)), (-1, width)
        )

    @tf.custom_gradient
    def loss_of(hidden, matrix, bias):
        rows = tf.cast(hidden, tf.float32)

        def compute_chunk(chunk):
            """Returns `(tokens, values)` for the losses, P E, P^T H and P^T 1."""
            vectors, chunk_labels = rows[chunk], ids[chunk]
            logits = tf.matmul(vectors, matrix, transpose_b=True)
            logits = logits + bias if has_bias else logits
            label_logits = tf.gather(logits, chunk_labels, batch_dims=1)
            max_logits = tf.reduce_max(logits, axis=-1)
            differences = pair_differences(logits) if r_drop else max_logits
            # Nothing reads the logits afterwards, so TensorFlow computes the softmax in place.
            with tf.control_dependencies([label_logits, max_logits, differences]):
                probabilities = tf.nn.softmax(logits)
            max_probabilities = tf.reduce_max(probabilities, axis=-1)
            surprisal = max_logits - label_logits - tf.math.log(max_probabilities)
            is_right = tf.cast(label_logits >= max_logits, tf.float32)
            losses = [surprisal, label_logits, is_right]
            if r_drop:
                normalizers = max_logits - tf.math.log(max_probabilities)
                divergence, change = divergence_of_pairs(differences, probabilities, normalizers)
                losses.append(divergence)
                probabilities += r_drop * change
            return (
                tf.stack(losses, axis=1),
                tf.matmul(probabilities, matrix),
                tf.matmul(probabilities, vectors, transpose_a=True)
                if trains_matrix
                else tf.zeros([0, width]),
                tf.reduce_sum(probabilities, axis=0) if has_bias else bias,
            )

        values, rows_gradient, matrix_gradient, bias_gradient = _sum_over_chunks(
            compute_chunk,
            tf.size(ids),
            chunk_size,
            matrix.shape if trains_matrix else (0, width),
            vocab_size,
            num_passes,
        )
        surprisal, label_logits, is_right, *divergence = tf.unstack(values, 2 + num_passes, axis=1)
        smoothed = surprisal + 0.5 * r_drop * divergence[0] if r_drop else surprisal
        if label_smoothing:
            mean_logits = tf.linalg.matvec(rows, tf.reduce_mean(matrix, axis=0))
            mean_logits += tf.reduce_mean(bias)
            gaps = vocab_size * (label_logits - mean_logits)
            if excludes_padding:
                padding_logits = tf.linalg.matvec(rows, matrix[PAD_ID])
                gaps -= label_logits - padding_logits - (bias[PAD_ID] if has_bias else 0.0)
            smoothed += smoothing * gaps
        loss = tf.reduce_sum(smoothed) / divisor

        def gradient(upstream, *_):
            # Subtracts the products with Q.
            scale = upstream / divisor
            smoothing_row = tf.linalg.matvec(matrix, smoothing_by_id, transpose_a=True)
            d_rows = rows_gradient - smoothing_row - label_excess * tf.gather(matrix, ids)
            d_bias = bias_gradient - smoothing_by_id * tf.cast(tf.size(ids), tf.float32)
            # `tf.math.bincount` has no deterministic kernel for GPUs.
            counts = tf.math.unsorted_segment_sum(tf.ones_like(ids, tf.float32), ids, vocab_size)
            d_bias -= label_excess * counts
            d_rows, d_bias = tf.cast(d_rows * scale, hidden.dtype), d_bias * scale
            if not trains_matrix:
                return d_rows, None, d_bias
            d_matrix = matrix_gradient - smoothing_by_id[:, tf.newaxis] * tf.reduce_sum(
                rows, axis=0
            )
            d_matrix = tf.tensor_scatter_nd_sub(d_matrix, ids[:, tf.newaxis], label_excess * rows)
            return d_rows, d_matrix * scale, d_bias

        return (loss, smoothed, surprisal, is_right), gradient

    bias = tf.zeros([vocab_size]) if bias is None else tf.convert_to_tensor(bias)
    loss, *losses = loss_of(hidden, tf.convert_to_tensor(matrix), bias)
    return loss, TokenLosses(*map(tf.stop_gradient, losses))


def _sum_over_chunks(compute_chunk, num_rows, chunk_size, matrix_shape, vocab_size, num_passes):
    """Runs `compute_chunk` on all chunks: concatenates its first two results, sums the others.

    The passes of a token are in the same chunk.
    """
    num_chunks = tf.maximum((num_rows + chunk_size - 1) // chunk_size, 1)
    num_tokens = num_rows // num_passes
    width = matrix_shape[1]

    def add_chunk(index, values, rows_gradient, matrix_gradient, bias_gradient):
        start, end = (num_tokens * i // num_chunks * num_passes for i in (index, index + 1))
        chunk_values, d_rows, d_matrix, d_bias = compute_chunk(slice(start, end))
        return (
            index + 1,
            values.write(index, chunk_values),
            rows_gradient.write(index, d_rows),
            matrix_gradient + d_matrix,
            bias_gradient + d_bias,
        )

    def row_array(size):
        return tf.TensorArray(tf.float32, num_chunks, element_shape=[None, size], infer_shape=False)

    _, values, rows_gradient, matrix_gradient, bias_gradient = tf.while_loop(
        lambda index, *_: index < num_chunks,
        add_chunk,
        (
            0,
            row_array(2 + num_passes),  # with two passes, the divergence as well
            row_array(width),
            tf.zeros(matrix_shape),
            tf.zeros([vocab_size]),
        ),
        parallel_iterations=1,  # one chunk at a time, to limit the memory
    )
    return values.concat(), rows_gradient.concat(), matrix_gradient, bias_gradient

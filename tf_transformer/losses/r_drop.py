"""R-Drop: two passes of each batch with different dropout, whose distributions should agree.

Liang et al., 2021, equations 1 to 4: with the distributions p and q of a token in the two passes,

L = -log p(label) - log q(label) + alpha D,    D = 1/2 [KL(p || q) + KL(q || p)]

Deviations: the cross-entropy may be smoothed, as in training without R-Drop, and L is halved, so
that it is as large as the loss of one pass. (Adam does not see this factor.)
"""

from typing import Any

import tensorflow as tf
from keras import ops


def symmetric_divergence(first_logits: Any, second_logits: Any) -> Any:
    """Computes D = 1/2 sum_k (p_k - q_k) (log p_k - log q_k) of two arrays of logits.

    Args:
        first_logits: `(..., vocab)`, the logits of p.
        second_logits: `(..., vocab)`, the logits of q.

    Returns:
        `(...)`, in nats.
    """
    log_p, log_q = (ops.log_softmax(logits) for logits in (first_logits, second_logits))
    return 0.5 * ops.sum((ops.exp(log_p) - ops.exp(log_q)) * (log_p - log_q), axis=-1)


def pair_differences(logits: tf.Tensor) -> tf.Tensor:
    """Returns what `divergence_of_pairs` needs of the logits.

    Args:
        logits: `(2 * tokens, vocab)`, with the two passes of each token in adjacent rows.

    Returns:
        `(tokens, vocab)`, the differences of the two rows of each token.
    """
    pairs = tf.reshape(logits, (-1, 2, logits.shape[1]))
    return pairs[:, 0] - pairs[:, 1]


def divergence_of_pairs(
    differences: tf.Tensor, probabilities: tf.Tensor, normalizers: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes `symmetric_divergence` of each token's passes, and its gradient.

    With d = log p - log q, the gradients with respect to the logits of p and of q are

    1/2 [p (d - sum_k p_k d_k) + p - q]    and    -1/2 [q (d - sum_k q_k d_k) + p - q]

    Args:
        differences: `(tokens, vocab)`, the result of `pair_differences`.
        probabilities: `(2 * tokens, vocab)`, the softmax of the logits.
        normalizers: `(2 * tokens,)`, log sum exp of the logits.

    Returns:
        The divergence for both rows of each token, `(2 * tokens,)`, and the gradient with respect
        to the logits, `(2 * tokens, vocab)`.
    """
    vocab_size = probabilities.shape[1]
    pairs = tf.reshape(probabilities, (-1, 2, vocab_size))
    normalizers = tf.reshape(normalizers, (-1, 2))
    log_ratios = differences - (normalizers[:, :1] - normalizers[:, 1:])  # d
    gaps = pairs[:, 0] - pairs[:, 1]
    divergence = 0.5 * tf.reduce_sum(gaps * log_ratios, axis=1)
    means = tf.einsum("tpv,tv->tp", pairs, log_ratios)[:, :, tf.newaxis]
    gradient = pairs * (log_ratios[:, tf.newaxis] - means) + gaps[:, tf.newaxis]
    gradient *= tf.constant([0.5, -0.5])[:, tf.newaxis]
    return tf.repeat(divergence, 2), tf.reshape(gradient, (-1, vocab_size))

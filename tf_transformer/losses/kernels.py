"""The loss from logits with a hand-written gradient; label_smoothing.py has its plain version.

Keras' `fit` and validation use it. `training.train` has no logits of all tokens at once: its loss
and gradient are computed in fused_cross_entropy.py.
"""

from typing import Any

import keras
from keras import ops

from tf_transformer.text.special_ids import PAD_ID


def label_logits(labels: Any, logits: Any) -> Any:
    """Returns the logit of each token's label.

    Args:
        labels: ids, `(batch, length)`.
        logits: `(batch, length, vocab)`.

    Returns:
        `(batch, length)`.

    Raises:
        tf.errors.InvalidArgumentError: a label is out of range; on the CPU, without XLA.
    """
    labels = ops.cast(labels, "int32")  # Keras converts integers to floats
    if keras.backend.backend() != "tensorflow":
        return ops.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    import tensorflow as tf

    # `ops.take_along_axis` would count negative labels from the end of the vocabulary.
    return tf.gather(logits, labels, batch_dims=len(labels.shape))


def surprisal(labels: Any, logits: Any, probabilities: Any) -> Any:
    """Computes -log p(label) = (z_max - z_label) - log p_max, without underflow.

    p(label) may underflow to 0; p_max is at least 1 / V.

    Args:
        labels: ids, `(batch, length)`.
        logits: z, `(batch, length, vocab)`.
        probabilities: softmax(z), `(batch, length, vocab)`.

    Returns:
        `(batch, length)`, in nats.
    """
    gaps = ops.max(logits, axis=-1) - label_logits(labels, logits)
    return gaps - ops.log(ops.max(probabilities, axis=-1))


def smoothed_cross_entropy(
    labels: Any, logits: Any, share: float, label_mass: float, *, excludes_padding: bool
) -> Any:
    """Computes `plain_smoothed_cross_entropy` with a hand-written gradient.

    d/dz_k = p(k) - q(k)

    The gradient reuses the softmax and reads the vocabulary-wide array twice. The gradient of
    automatic differentiation takes most of a small model's training step.

    Args:
        labels: ids, `(batch, length)`.
        logits: z, `(batch, length, vocab)` float32.
        share: s, the mass of each entry that the smoothing is spread over.
        label_mass: q(label).
        excludes_padding: q is 0 at the padding id.

    Returns:
        `(batch, length)` float32, in nats.
    """
    vocab_size = logits.shape[-1]

    @ops.custom_gradient
    def losses(logits):
        probabilities = ops.softmax(logits, axis=-1)
        value = surprisal(labels, logits, probabilities)
        if share:
            # -log p(k) = -log p(y) + z_y - z_k, so their sum needs one logarithm only.
            at_label = label_logits(labels, logits)
            gaps = vocab_size * (at_label - ops.mean(logits, axis=-1))
            if excludes_padding:
                gaps = gaps - (at_label - logits[..., PAD_ID])
            value = value + share * gaps

        def gradient(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            at_labels = label_logits(labels, probabilities) - label_mass
            elsewhere = probabilities - share
            if excludes_padding:
                is_padding = ops.arange(vocab_size, dtype="int32") == PAD_ID
                elsewhere = elsewhere + ops.where(is_padding, share, 0.0)
            elsewhere = elsewhere * upstream[..., None]
            return _replace_at_labels(elsewhere, labels, at_labels * upstream)

        return value, gradient

    return losses(logits)


def _replace_at_labels(values, labels, replacements):
    """Returns `values` with the entry of each token's label replaced, `(batch, length, vocab)`."""
    shape = ops.shape(values)
    flat = ops.reshape(values, (-1, shape[-1]))
    labels = ops.reshape(ops.cast(labels, "int32"), (-1,))
    indices = ops.stack([ops.arange(ops.shape(labels)[0], dtype="int32"), labels], axis=-1)
    return ops.reshape(ops.scatter_update(flat, indices, ops.reshape(replacements, (-1,))), shape)

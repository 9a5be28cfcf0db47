"""Label-smoothed cross-entropy over the real tokens of the global batch."""

from typing import Any

import keras
from keras import ops

from tf_transformer.masks import padding_mask


def _label_logits(labels, logits):
    return ops.take_along_axis(logits, ops.cast(labels, "int32")[..., None], axis=-1)[..., 0]


def _surprisal(labels, logits, probabilities):
    """-log p(label) = (z_max - z_label) - log p_max.

    p_max, at least 1 / V, has a logarithm where p(label) may have underflowed.
    """
    gaps = ops.max(logits, axis=-1) - _label_logits(labels, logits)
    return gaps - ops.log(ops.max(probabilities, axis=-1))


def cross_entropy(labels, logits):
    """-log p(label) of every token, for reading; `smoothed_cross_entropy` is for training.

    Args:
        labels: `(batch, length)` ids.
        logits: `(batch, length, vocab)` float32.

    Returns:
        `(batch, length)` float32, in nats; values at padding must be masked out.
    """
    return _surprisal(labels, logits, ops.softmax(logits, axis=-1))


def smoothed_cross_entropy(labels, logits, label_smoothing: float):
    """Cross-entropy against a label distribution with some mass spread over the vocabulary.

    q(k) = (1 - e) [k = label] + e / V   (Szegedy et al., 2016, section 7), so for logits z

    -sum_k q(k) log p(k) = -log p(label) + e (z_label - mean_k z_k)
    d/dz_k               = p(k) - q(k)

    The gradient is written out: it reuses the softmax and touches the vocabulary-wide array twice,
    where the derived one takes most of a small model's training step. The Annotated Transformer
    spreads e over the V - 2 entries that are neither label nor padding, and reports the KL
    divergence, which is smaller by the entropy of q.

    Args:
        labels: `(batch, length)` ids.
        logits: `(batch, length, vocab)` float32.
        label_smoothing: e.

    Returns:
        `(batch, length)` float32, in nats; values at padding must be masked out.
    """
    uniform = label_smoothing / logits.shape[-1]

    @ops.custom_gradient
    def losses(logits):
        probabilities = ops.softmax(logits, axis=-1)
        value = _surprisal(labels, logits, probabilities)
        if label_smoothing:
            mean_gaps = _label_logits(labels, logits) - ops.mean(logits, axis=-1)
            value = value + label_smoothing * mean_gaps

        def gradient(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            at_labels = _label_logits(labels, probabilities) - uniform - (1.0 - label_smoothing)
            everywhere = (probabilities - uniform) * upstream[..., None]
            return _replace_at_labels(everywhere, labels, at_labels * upstream)

        return value, gradient

    return losses(logits)


def _replace_at_labels(values, labels, replacements):
    """`values` with the entry of each token's label replaced: `(batch, length, vocab)`."""
    shape = ops.shape(values)
    flat = ops.reshape(values, (-1, shape[-1]))
    labels = ops.reshape(ops.cast(labels, "int32"), (-1,))
    indices = ops.stack([ops.arange(ops.shape(labels)[0], dtype="int32"), labels], axis=-1)
    return ops.reshape(ops.scatter_update(flat, indices, ops.reshape(replacements, (-1,))), shape)


def _sum_over_replicas(value: Any) -> Any:
    """Sum over the replicas of a `tf.distribute` strategy; the value itself where there is none."""
    if keras.backend.backend() != "tensorflow":
        return value
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return value
    return context.all_reduce(tf.distribute.ReduceOp.SUM, value)


@keras.saving.register_keras_serializable(package="tf_transformer")
class LabelSmoothedCrossEntropy(keras.losses.Loss):
    """Smoothed cross-entropy, summed over real tokens, divided by their number in the global batch.

    The paper, section 5.4, with label smoothing 0.1. Every real token of a step weighs the same,
    on whichever replica and in however long a row it lies: the sum of the replicas' losses, and so
    of their gradients, is that of the whole batch on one device. (Keras' own mean divides by the
    tokens of each replica.)

    Args:
        label_smoothing: e in [0, 1), see `smoothed_cross_entropy`.

    Call arguments:
        y_true: labels, `(batch, target_length)` ids padded with 0.
        y_pred: logits, `(batch, target_length, target_vocab_size)`.

    Returns:
        This replica's share of the mean loss, in nats a token.

    Raises:
        ValueError: `label_smoothing` is out of range.
    """

    def __init__(
        self,
        label_smoothing: float = 0.1,
        *,
        name: str = "label_smoothed_cross_entropy",
        **kwargs: Any,
    ):
        if not 0 <= label_smoothing < 1:
            raise ValueError(
                "`label_smoothing` must be at least 0 and less than 1. "
                f"Received: label_smoothing={label_smoothing!r}"
            )
        kwargs["reduction"] = "sum"
        super().__init__(name=name, **kwargs)
        self.label_smoothing = label_smoothing

    def call(self, y_true, y_pred):
        real = ops.cast(padding_mask(y_true), "float32")
        losses = smoothed_cross_entropy(y_true, y_pred, self.label_smoothing)
        tokens = _sum_over_replicas(ops.sum(real))
        return losses * real / ops.maximum(tokens, 1.0)

    def get_config(self):
        config = super().get_config() | {"label_smoothing": self.label_smoothing}
        del config["reduction"]
        return config

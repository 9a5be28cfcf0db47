"""Label-smoothed cross-entropy over the real tokens of the global batch."""

import math
from typing import Any, NamedTuple

import keras
from keras import ops

from tf_transformer.errors import InputError
from tf_transformer.layers.masks import padding_mask
from tf_transformer.losses import kernels
from tf_transformer.text.special_ids import PAD_ID

# The entries of the vocabulary that share the smoothed mass: V, V - 1 or V - 2 of them.
SMOOTHED_OVER = ("all", "others", "others_but_padding")


class TokenLosses(NamedTuple):
    """Values of each real token, `(tokens,)` float32, without a gradient.

    Attributes:
        smoothed: smoothed cross-entropy, in nats.
        surprisal: -log p(label), in nats.
        is_right: 1 if no other token is more probable than the label, else 0.
    """

    smoothed: Any
    surprisal: Any
    is_right: Any


def cross_entropy(labels: Any, logits: Any) -> Any:
    """Computes -log p(label) of each token, without a gradient made for training.

    Args:
        labels: ids, `(batch, length)`.
        logits: `(batch, length, vocab)` float32.

    Returns:
        `(batch, length)` float32, in nats; values at padding must be masked out.
    """
    return kernels.surprisal(labels, logits, ops.softmax(logits, axis=-1))


def plain_smoothed_cross_entropy(
    labels: Any, logits: Any, label_smoothing: float, smoothed_over: str = "all"
) -> Any:
    """Computes the cross-entropy with the distribution q of `label_distribution`.

    loss = -sum_k q(k) log p(k),  p = softmax(logits)

    Args:
        labels: ids, `(batch, length)`.
        logits: `(batch, length, vocab)` float32.
        label_smoothing: e.
        smoothed_over: "all", "others" or "others_but_padding".

    Returns:
        `(batch, length)` float32, in nats; values at padding must be masked out.
    """
    q = label_distribution(labels, logits.shape[-1], label_smoothing, smoothed_over)
    return -ops.sum(q * ops.log_softmax(logits, axis=-1), axis=-1)


def smoothed_cross_entropy(
    labels: Any, logits: Any, label_smoothing: float, smoothed_over: str = "all"
) -> Any:
    """Computes `plain_smoothed_cross_entropy` faster, with a hand-written gradient.

    The Annotated Transformer reports the KL divergence instead, which is smaller by the entropy of
    q, `label_entropy`; the gradient is the same.

    Args:
        labels: ids, `(batch, length)`.
        logits: `(batch, length, vocab)` float32.
        label_smoothing: e.
        smoothed_over: "all", "others" or "others_but_padding".

    Returns:
        `(batch, length)` float32, in nats; values at padding must be masked out.
    """
    share, label_mass = _masses(logits.shape[-1], label_smoothing, smoothed_over)
    excludes_padding = smoothed_over == "others_but_padding"
    return kernels.smoothed_cross_entropy(
        labels, logits, share, label_mass, excludes_padding=excludes_padding
    )


def num_smoothed(vocab_size: int, smoothed_over: str) -> int:
    """Returns n, the number of entries that share the smoothed mass.

    Raises:
        InputError: there is none.
    """
    number = vocab_size - SMOOTHED_OVER.index(smoothed_over)
    if number < 1:
        raise InputError(
            f"`smoothed_over={smoothed_over!r}` leaves no entry of a vocabulary of {vocab_size}"
        )
    return number


def _masses(vocab_size, label_smoothing, smoothed_over):
    """Returns s = e / n, and the mass of the label."""
    share = label_smoothing / num_smoothed(vocab_size, smoothed_over)
    return share, 1.0 - label_smoothing + (share if smoothed_over == "all" else 0.0)


def label_distribution(
    labels: Any, vocab_size: int, label_smoothing: float, smoothed_over: str = "all"
) -> Any:
    """Returns the smoothed distribution q of each label.

    The label y has 1 - e, and e is spread evenly over n entries, s = e / n each:

    "all":                 n = V, the label too (Szegedy et al., 2016, section 7; the paper)
    "others":              n = V - 1, all but the label (translations of the Annotated Transformer)
    "others_but_padding":  n = V - 2, neither label nor padding (the Annotated Transformer)

    q(k) = (1 - e) [k = y] + s, without s at the entries left out

    Args:
        labels: ids, of any shape.
        vocab_size: V.
        label_smoothing: e.
        smoothed_over: "all", "others" or "others_but_padding".

    Returns:
        `(*labels.shape, vocab_size)` float32.

    Raises:
        InputError: no entry is left to spread over.
    """
    ids = ops.arange(vocab_size, dtype="int32")
    share, label_mass = _masses(vocab_size, label_smoothing, smoothed_over)
    excluded = smoothed_over == "others_but_padding"
    spread = ops.where(ids == PAD_ID, 0.0, share) if excluded else share
    is_label = ids == ops.cast(labels, "int32")[..., None]
    return ops.cast(ops.where(is_label, label_mass, spread), "float32")


def label_entropy(vocab_size: int, label_smoothing: float, smoothed_over: str = "all") -> float:
    """Computes -sum_k q(k) log q(k), the difference of cross-entropy and KL divergence.

    Args:
        vocab_size: V.
        label_smoothing: e.
        smoothed_over: "all", "others" or "others_but_padding".

    Returns:
        The entropy of q, in nats.
    """
    share, label_mass = _masses(vocab_size, label_smoothing, smoothed_over)
    others = num_smoothed(vocab_size, smoothed_over) - (smoothed_over == "all")
    return -sum(
        count * mass * math.log(mass)
        for count, mass in ((1, label_mass), (others, share))
        if mass > 0
    )


def sum_over_replicas(value: Any) -> Any:
    """Returns the sum over the replicas of a `tf.distribute` strategy, or the value without one."""
    if keras.backend.backend() != "tensorflow":
        return value
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return value
    return context.all_reduce(tf.distribute.ReduceOp.SUM, value)


@keras.saving.register_keras_serializable(package="tf_transformer")
class LabelSmoothedCrossEntropy(keras.losses.Loss):
    """Smoothed cross-entropy, averaged over the real tokens of the global batch.

    The paper, section 5.4, with label smoothing 0.1. All real tokens of a step have the same
    weight, on any replica and in a row of any length: the sum of the replicas' losses, and of their
    gradients, is that of the whole batch on one device. (The mean of Keras divides by the number of
    tokens of each replica.)

    Args:
        label_smoothing: e in [0, 1), see `label_distribution`.
        smoothed_over: "all", "others" or "others_but_padding", see `label_distribution`.

    Call arguments:
        y_true: labels, `(batch, target_length)` ids padded with 0. Ids outside the vocabulary are
            an error on the CPU without XLA.
        y_pred: logits, `(batch, target_length, target_vocab_size)`.

    Returns:
        This replica's share of the mean loss, in nats per token.

    Raises:
        InputError: `label_smoothing` is out of range, `smoothed_over` is unknown, or `reduction` is
            not "sum".
    """

    def __init__(
        self,
        label_smoothing: float = 0.1,
        *,
        smoothed_over: str = "all",
        name: str = "label_smoothed_cross_entropy",
        **kwargs: Any,
    ):
        if not 0 <= label_smoothing < 1:
            raise InputError(
                "`label_smoothing` must be at least 0 and less than 1. "
                f"Received: label_smoothing={label_smoothing!r}"
            )
        if smoothed_over not in SMOOTHED_OVER:
            raise InputError(
                f"`smoothed_over` must be one of {SMOOTHED_OVER}. "
                f"Received: smoothed_over={smoothed_over!r}"
            )
        if kwargs.get("reduction", "sum") != "sum":
            raise InputError(
                "the loss is a sum over tokens, divided by their number in the global batch. "
                f"Received: reduction={kwargs['reduction']!r}"
            )
        kwargs["reduction"] = "sum"
        kwargs.setdefault("dtype", "float32")  # Keras casts labels to it too: ids must stay exact
        super().__init__(name=name, **kwargs)
        self.label_smoothing = label_smoothing
        self.smoothed_over = smoothed_over

    def call(self, y_true, y_pred):
        tokens = sum_over_replicas(ops.sum(ops.cast(padding_mask(y_true), "float32")))
        return self.token_losses(y_true, y_pred) / ops.maximum(tokens, 1.0)

    def token_losses(self, y_true, y_pred):
        """Returns the loss of each token in nats, `(batch, length)`, and 0 at padding."""
        losses = smoothed_cross_entropy(y_true, y_pred, self.label_smoothing, self.smoothed_over)
        return losses * ops.cast(padding_mask(y_true), "float32")

    def get_config(self):
        config = super().get_config() | {
            "label_smoothing": self.label_smoothing,
            "smoothed_over": self.smoothed_over,
        }
        del config["reduction"]
        return config

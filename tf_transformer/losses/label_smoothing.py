"""Label-smoothed cross-entropy over the real tokens of the global batch."""

import math
from typing import Any, NamedTuple

import keras
from keras import ops

from tf_transformer.errors import InputError
from tf_transformer.layers.masks import padding_mask
from tf_transformer.text.special_ids import PAD_ID

# Which entries of the vocabulary share the smoothed mass: V, V - 1 or V - 2 of them.
SMOOTHED_OVER = ("all", "others", "others_but_padding")


class TokenLosses(NamedTuple):
    """What is known of every real token, `(tokens,)` float32, without a gradient.

    Attributes:
        smoothed: smoothed cross-entropy, in nats.
        surprisal: -log p(label), in nats.
        is_right: 1 where no other token is more probable than the label, else 0.
    """

    smoothed: Any
    surprisal: Any
    is_right: Any


def label_logits(labels, logits):
    """The entry of each token's label: ids `(batch, length)`, logits `(batch, length, vocab)`.

    Raises:
        tf.errors.InvalidArgumentError: a label is out of range; on the CPU, without XLA.
    """
    labels = ops.cast(labels, "int32")  # Keras makes numbers of them
    if keras.backend.backend() != "tensorflow":
        return ops.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    import tensorflow as tf

    # `ops.take_along_axis` would count negative labels from the end of the vocabulary.
    return tf.gather(logits, labels, batch_dims=len(labels.shape))


def _surprisal(labels, logits, probabilities):
    """-log p(label) = (z_max - z_label) - log p_max.

    p_max, at least 1 / V, has a logarithm where p(label) may have underflowed.
    """
    gaps = ops.max(logits, axis=-1) - label_logits(labels, logits)
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


def smoothed_cross_entropy(labels, logits, label_smoothing: float, smoothed_over: str = "all"):
    """Cross-entropy against a label distribution with some mass spread over the vocabulary.

    -sum_k q(k) log p(k), where the label y has 1 - e and the rest is spread evenly over n entries:

    "all":                 n = V, the label too (Szegedy et al., 2016, section 7; the paper)
    "others":              n = V - 1, all but the label (translations of the Annotated Transformer)
    "others_but_padding":  n = V - 2, neither label nor padding (the Annotated Transformer)

    With s = e / n and logits z, [.] being 1 where it holds and 0 elsewhere,

    q(k)    = (1 - e) [k = y] + s, without s at the entries left out
    d/dz_k  = p(k) - q(k)

    The gradient is written out: it reuses the softmax and touches the vocabulary-wide array twice,
    where the derived one takes most of a small model's training step. The Annotated Transformer
    reports the KL divergence, which is smaller by the entropy of q, `label_entropy`.

    Args:
        labels: `(batch, length)` ids.
        logits: `(batch, length, vocab)` float32.
        label_smoothing: e.
        smoothed_over: "all", "others" or "others_but_padding".

    Returns:
        `(batch, length)` float32, in nats; values at padding must be masked out.
    """
    vocab_size = logits.shape[-1]
    share = label_smoothing / num_smoothed(vocab_size, smoothed_over)
    label_mass = 1.0 - label_smoothing + (share if smoothed_over == "all" else 0.0)

    @ops.custom_gradient
    def losses(logits):
        probabilities = ops.softmax(logits, axis=-1)
        surprisal = _surprisal(labels, logits, probabilities)
        # -log p(k) = -log p(y) + z_y - z_k, so any sum of them needs one logarithm alone.
        at_label = label_logits(labels, logits)
        gaps = vocab_size * (at_label - ops.mean(logits, axis=-1))
        if smoothed_over == "others_but_padding":
            gaps = gaps - (at_label - logits[..., PAD_ID])
        value = surprisal + share * gaps if label_smoothing else surprisal

        def gradient(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            at_labels = label_logits(labels, probabilities) - label_mass
            everywhere = probabilities - share
            if smoothed_over == "others_but_padding":
                is_padding = ops.arange(vocab_size, dtype="int32") == PAD_ID
                everywhere = everywhere + ops.where(is_padding, share, 0.0)
            everywhere = everywhere * upstream[..., None]
            return _replace_at_labels(everywhere, labels, at_labels * upstream)

        return value, gradient

    return losses(logits)


def num_smoothed(vocab_size: int, smoothed_over: str) -> int:
    number = vocab_size - SMOOTHED_OVER.index(smoothed_over)
    if number < 1:
        raise InputError(
            f"`smoothed_over={smoothed_over!r}` leaves no entry of a vocabulary of {vocab_size}"
        )
    return number


def label_distribution(
    label: int, vocab_size: int, label_smoothing: float, smoothed_over: str = "all"
):
    """The distribution q that `smoothed_cross_entropy` compares with, `(vocab_size,)` float32."""
    ids = ops.arange(vocab_size, dtype="int32")
    share = label_smoothing / num_smoothed(vocab_size, smoothed_over)
    spread = ops.where(ids == PAD_ID, 0.0, share) if smoothed_over == SMOOTHED_OVER[2] else share
    own = 1.0 - label_smoothing + (share if smoothed_over == "all" else 0.0)
    return ops.where(ids == label, own, spread)


def label_entropy(vocab_size: int, label_smoothing: float, smoothed_over: str = "all") -> float:
    """-sum_k q(k) log q(k): what cross-entropy exceeds KL divergence by, in nats a token."""
    number = num_smoothed(vocab_size, smoothed_over)
    share = label_smoothing / number
    own = 1.0 - label_smoothing + (share if smoothed_over == "all" else 0.0)
    others = number - (smoothed_over == "all")
    return -sum(
        count * mass * math.log(mass) for count, mass in ((1, own), (others, share)) if mass > 0
    )


def _replace_at_labels(values, labels, replacements):
    """`values` with the entry of each token's label replaced: `(batch, length, vocab)`."""
    shape = ops.shape(values)
    flat = ops.reshape(values, (-1, shape[-1]))
    labels = ops.reshape(ops.cast(labels, "int32"), (-1,))
    indices = ops.stack([ops.arange(ops.shape(labels)[0], dtype="int32"), labels], axis=-1)
    return ops.reshape(ops.scatter_update(flat, indices, ops.reshape(replacements, (-1,))), shape)


def sum_over_replicas(value: Any) -> Any:
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
        smoothed_over: "all", "others" or "others_but_padding", see there.

    Call arguments:
        y_true: labels, `(batch, target_length)` ids padded with 0; others than those of the
            vocabulary are an error, see `label_logits`.
        y_pred: logits, `(batch, target_length, target_vocab_size)`.

    Returns:
        This replica's share of the mean loss, in nats a token.

    Raises:
        ValueError: `label_smoothing` is out of range, or `smoothed_over` unknown.
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
        kwargs["reduction"] = "sum"
        kwargs.setdefault("dtype", "float32")  # Keras casts labels to it too: ids must stay exact
        super().__init__(name=name, **kwargs)
        self.label_smoothing = label_smoothing
        self.smoothed_over = smoothed_over

    def call(self, y_true, y_pred):
        tokens = sum_over_replicas(ops.sum(ops.cast(padding_mask(y_true), "float32")))
        return self.token_losses(y_true, y_pred) / ops.maximum(tokens, 1.0)

    def token_losses(self, y_true, y_pred):
        """The loss of every token in nats, `(batch, length)`, 0 at padding; divided by nothing."""
        losses = smoothed_cross_entropy(y_true, y_pred, self.label_smoothing, self.smoothed_over)
        return losses * ops.cast(padding_mask(y_true), "float32")

    def get_config(self):
        config = super().get_config() | {
            "label_smoothing": self.label_smoothing,
            "smoothed_over": self.smoothed_over,
        }
        del config["reduction"]
        return config

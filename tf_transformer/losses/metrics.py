"""Metrics over real tokens, as sums, so that batches and replicas of any size combine exactly."""

from typing import Any

import keras
from keras import ops

from tf_transformer.layers.masks import padding_mask
from tf_transformer.losses.kernels import label_logits
from tf_transformer.losses.label_smoothing import (
    TokenLosses,
    cross_entropy,
    smoothed_cross_entropy,
)
from tf_transformer.private_interfaces import set_direction


class TokenMean(keras.metrics.Metric):
    """Base class of metrics that are the mean of a value over all real tokens.

    Args:
        name: name of the metric.
        dtype: dtype of the sums. float32 by default, and not `keras.config.floatx()`, because
            float16 cannot count beyond 65,504.
        **kwargs: those of `keras.metrics.Metric`.

    Attributes:
        direction: "up" if higher values are better, else "down". `EarlyStopping`, `ModelCheckpoint`
            and other callbacks of Keras need no `mode` to monitor the metric.
    """

    direction = "down"

    def __init__(self, *, name: str, dtype: str | None = "float32", **kwargs: Any):
        super().__init__(name=name, dtype=dtype, **kwargs)
        set_direction(self, self.direction)
        self.total = self.add_weight(name="total", initializer="zeros", dtype=self.dtype)
        self.tokens = self.add_weight(name="tokens", initializer="zeros", dtype=self.dtype)

    def values(self, y_true, y_pred):
        """Computes the value of every token, `(batch, length)`, from labels and logits."""
        raise NotImplementedError

    def values_of(self, losses: TokenLosses):
        """Returns the value of every real token, `(tokens,)`, from its losses."""
        raise NotImplementedError

    def update_with(self, losses: TokenLosses) -> None:
        """Does what `update_state` does, from losses instead of labels and logits."""
        values = ops.cast(self.values_of(losses), self.dtype)
        self.total.assign_add(ops.sum(values))
        self.tokens.assign_add(ops.cast(ops.size(values), self.dtype))

    def update_state(self, y_true, y_pred, sample_weight=None):
        real = ops.cast(padding_mask(y_true), self.dtype)
        if sample_weight is not None:
            real = real * ops.cast(sample_weight, self.dtype)
        values = ops.cast(self.values(y_true, y_pred), self.dtype)
        self.total.assign_add(ops.sum(values * real))
        self.tokens.assign_add(ops.sum(real))

    def result(self):
        return ops.divide_no_nan(self.total, self.tokens)


@keras.saving.register_keras_serializable(package="tf_transformer")
class TokenAccuracy(TokenMean):
    """Fraction of real tokens for which no other token is more probable than the label.

    Args:
        name: name of the metric.
        **kwargs: those of `TokenMean`.

    Call arguments:
        y_true: labels, `(batch, target_length)` ids padded with 0.
        y_pred: logits, `(batch, target_length, target_vocab_size)`.
    """

    direction = "up"

    def __init__(self, *, name: str = "accuracy", **kwargs: Any):
        super().__init__(name=name, **kwargs)

    def values(self, y_true, y_pred):
        return label_logits(y_true, y_pred) >= ops.max(y_pred, axis=-1)

    def values_of(self, losses):
        return losses.is_right


@keras.saving.register_keras_serializable(package="tf_transformer")
class Perplexity(TokenMean):
    """Perplexity: exp(mean of -log p(label)) over real tokens, without label smoothing.

    Equal to `keras_nlp.metrics.Perplexity(from_logits=True, mask_token_id=0)`, but faster.

    Args:
        name: name of the metric.
        **kwargs: those of `TokenMean`.

    Call arguments:
        y_true: labels, `(batch, target_length)` ids padded with 0.
        y_pred: logits, `(batch, target_length, target_vocab_size)`.
    """

    def __init__(self, *, name: str = "perplexity", **kwargs: Any):
        super().__init__(name=name, **kwargs)

    def values(self, y_true, y_pred):
        return cross_entropy(y_true, y_pred)

    def values_of(self, losses):
        return losses.surprisal

    def result(self):
        return ops.exp(super().result())


@keras.saving.register_keras_serializable(package="tf_transformer")
class SmoothedLoss(TokenMean):
    """The training loss as a metric: mean smoothed cross-entropy over real tokens.

    The `loss` that Keras logs weights batches by their number of rows, and is wrong for replicas of
    different sizes. A metric with the name `loss` replaces it in the logs.

    Args:
        label_smoothing: see `LabelSmoothedCrossEntropy`.
        smoothed_over: see `LabelSmoothedCrossEntropy`.
        name: name of the metric.
        **kwargs: those of `TokenMean`.

    Call arguments:
        y_true: labels, `(batch, target_length)` ids padded with 0.
        y_pred: logits, `(batch, target_length, target_vocab_size)`.
    """

    def __init__(
        self,
        label_smoothing: float = 0.1,
        *,
        smoothed_over: str = "all",
        name: str = "smoothed_loss",
        **kwargs: Any,
    ):
        super().__init__(name=name, **kwargs)
        self.label_smoothing = label_smoothing
        self.smoothed_over = smoothed_over

    def values(self, y_true, y_pred):
        return smoothed_cross_entropy(y_true, y_pred, self.label_smoothing, self.smoothed_over)

    def values_of(self, losses):
        return losses.smoothed

    def get_config(self):
        return super().get_config() | {
            "label_smoothing": self.label_smoothing,
            "smoothed_over": self.smoothed_over,
        }

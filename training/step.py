"""Models with the custom training step: micro-batches, token counts and token metrics."""

import os
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from tf_transformer.errors import InputError
from tf_transformer.layers.masks import padding_attention_mask, padding_mask
from tf_transformer.losses.fused_cross_entropy import projected_cross_entropy
from tf_transformer.losses.guided_alignment import alignment_losses
from tf_transformer.losses.label_smoothing import sum_over_replicas
from tf_transformer.losses.metrics import TokenMean
from tf_transformer.models.base import DecoderModel
from tf_transformer.models.language_model import LanguageModel
from tf_transformer.models.lora import base_weights, merged_values
from tf_transformer.models.transformer import Transformer
from tf_transformer.private_interfaces import set_direction, tracker_unlocked


class _TrainableModel(DecoderModel):
    """Base of models with a training step over micro-batches.

    The rows of a batch can be split into micro-batches that pass through the model one after the
    other. Their gradients of `loss sum / tokens of the global batch` add up to the gradient of the
    whole batch, in the memory of one micro-batch. Compile the model with a
    `LabelSmoothedCrossEntropy`. Training never materializes the logits of the whole batch, see
    `projected_cross_entropy`; its metrics are therefore `TokenMean`s, which are updated from
    `TokenLosses`.

    Attributes:
        num_micro_batches: number of micro-batches per replica's batch.
        r_drop: weight of the divergence between two passes, see `losses/r_drop.py`; 0 for a single
            pass.
        alignment_weight: weight of the alignment loss, see `losses/guided_alignment.py`. With 0,
            the default, there is none; else the inputs have an `"alignment"`,
            `(batch, target_length, source_length)` bool, True where a label and a source token are
            aligned.
        alignment_loss: metric that is the mean loss of the aligned target tokens, in nats; absent
            without an `alignment_head`.
        plain_class: class of the model without training, which `save` writes.
        token_metrics: metrics given to `compile`.
        entries: metric that counts the entries of source and target, padding included.
        target_tokens: metric that counts target tokens.
        source_tokens: metric that counts source tokens; absent for a language model.
    """

    num_micro_batches = 1
    r_drop = 0.0
    alignment_weight = 0.0
    plain_class: type[DecoderModel]
    token_metrics: Sequence[TokenMean] = ()

    def compile(self, *arguments, metrics=(), **options):
        """Does the same as `keras.Model.compile`, for metrics of class `TokenMean` only.

        Raises:
            InputError: a metric is not a `TokenMean`.
        """
        others = [metric for metric in metrics or () if not isinstance(metric, TokenMean)]
        if others:
            raise InputError(f"`metrics` must be `TokenMean`s. Received: {others}")
        with tracker_unlocked(self):  # a built model tracks no new metrics otherwise
            self.token_metrics = list(metrics or ())
        super().compile(*arguments, **options)

    def build(self, input_shape=None):
        self.entries = keras.metrics.Sum(name="entries", dtype="float32")
        self.target_tokens = keras.metrics.Sum(name="target_tokens", dtype="float32")
        if not self.config.decoder_only:
            self.source_tokens = keras.metrics.Sum(name="source_tokens", dtype="float32")
        if self.config.alignment_head is not None:
            self.alignment_loss = keras.metrics.Mean(name="alignment_loss", dtype="float32")
            set_direction(self.alignment_loss, "down")
        super().build(input_shape)

    def train_step(self, data):
        inputs, labels = data
        tokens = sum_over_replicas(_count_tokens(labels))
        if self.num_micro_batches == 1:
            gradients = self._gradients(inputs, labels, tokens)
        else:
            gradients = self._accumulated_gradients(inputs, labels, tokens)
        self.optimizer.apply(gradients, self.trainable_variables)
        return self._averageable(self.get_metrics_result())

    def _gradients(self, inputs, labels, tokens):
        trained = [variable.value for variable in self.trainable_variables]
        # Frozen weights are not watched, so that nothing is computed for them.
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(trained)
            loss, losses = self._token_losses(inputs, labels, ops.maximum(tokens, 1.0), trained)
            loss = loss * getattr(self.optimizer, "loss_scale", 1.0)
        self._update_metrics(inputs, labels, losses)
        return tape.gradient(loss, trained)

    def _token_losses(self, inputs, labels, tokens, trained):
        """Computes the loss of a micro-batch.

        Args:
            inputs: dictionary of ids, as for `call`.
            labels: `(batch, length)` ids padded with 0.
            tokens: number of tokens of the global batch.
            trained: values of the weights that are trained.

        Returns:
            The sum of the tokens' losses divided by `tokens`, and the `TokenLosses`.
        """
        num_passes = 2 if self.r_drop else 1
        repeated, mask = tf.nest.map_structure(
            lambda ids: tf.concat([ids] * num_passes, axis=0), (inputs, padding_mask(labels))
        )
        divisor = num_passes * tokens
        hidden, alignment_loss = self._hidden(repeated, mask, divisor)
        table, bias = self.logits_weights()
        loss, losses = projected_cross_entropy(
            hidden,
            table,
            bias,
            labels,
            divisor,
            self.loss.label_smoothing,
            self.loss.smoothed_over,
            self.r_drop,
            trains_matrix=self._trains_logits_matrix(trained),
        )
        return loss + alignment_loss, losses

    def _update_metrics(self, inputs, labels, losses):
        self._count(inputs, labels)
        for metric in self.token_metrics:
            metric.update_with(losses)

    def _trains_logits_matrix(self, trained):
        projection = self.logits_projection
        weights = [self.target_embedding.embeddings]
        if projection is not None:
            weights = [weight for weight in projection.weights if weight is not projection.bias]
        ids = {id(variable) for variable in trained}
        return any(id(weight.value) in ids for weight in weights)

    def _hidden(self, inputs, mask, divisor):
        """Returns the decoder's output at the labels, and the weighted alignment loss."""
        if not self.alignment_weight:
            return self.hidden_at(inputs, mask, training=True), 0.0
        hidden, log_weights = self.aligned_hidden_at(inputs, mask, training=True)
        losses, is_aligned = alignment_losses(log_weights, inputs["alignment"])
        self.alignment_loss.update_state(losses, sample_weight=is_aligned)
        return hidden, self.alignment_weight * ops.sum(losses) / divisor

    def _accumulated_gradients(self, inputs, labels, tokens):
        rows = tf.shape(labels)[0]

        def add_micro_batch(index, totals):
            start = rows * index // self.num_micro_batches
            stop = rows * (index + 1) // self.num_micro_batches
            part = tf.nest.map_structure(lambda ids: ids[start:stop], (inputs, labels))
            gradients = self._gradients(part[0], part[1], tokens)
            return index + 1, [
                total + gradient for total, gradient in zip(totals, gradients, strict=True)
            ]

        zeros = [tf.zeros(variable.shape) for variable in self.trainable_variables]
        return tf.while_loop(
            lambda index, _: index < self.num_micro_batches,
            add_micro_batch,
            (tf.constant(0), zeros),
            parallel_iterations=1,  # in parallel, all would be in memory at once
        )[1]

    def save(self, filepath: str | os.PathLike, overwrite: bool = True, **options: Any) -> None:
        """Saves the model as a `plain_class`, without optimizer, loss and metrics; LoRA is merged.

        Any program that imports `tf_transformer` can load it with `keras.models.load_model`.

        Args:
            filepath: see `keras.Model.save`.
            overwrite: see `keras.Model.save`.
            **options: see `keras.Model.save`.
        """
        model = self.plain_class(self.config, dtype=self.dtype_policy)
        weights = base_weights(model)
        for name, value in merged_values(self):
            weights[name].assign(value)
        model.save(filepath, overwrite=overwrite, **options)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        self._count(x, y)
        for metric in self.token_metrics:
            metric.update_state(y, y_pred)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def _count(self, inputs, labels):
        counts = [(self.target_tokens, labels)]
        if "source" in inputs:
            counts.append((self.source_tokens, inputs["source"]))
        for metric, ids in counts:
            metric.update_state(_count_tokens(ids))
            self.entries.update_state(ops.cast(ops.size(ids), "float32"))


def _count_tokens(labels):
    return ops.sum(ops.cast(padding_mask(labels), "float32"))


class TrainableTransformer(_TrainableModel, Transformer):
    """A `Transformer` with the training step."""

    plain_class = Transformer


class TrainableDraftHeads(TrainableTransformer):
    """A `Transformer` whose draft heads are trained, and nothing else   (Stern et al., 2018).

    The loss is the mean of the heads' cross-entropies. Loss, perplexity and accuracy of training
    and validation are those of the heads: the accuracy is the share of drafts that are right.
    """

    def _token_losses(self, inputs, labels, tokens, trained):
        """Computes the loss of the heads, see `TrainableTransformer._token_losses`."""
        memory, hidden = self.hidden_states(inputs, training=False)
        source_mask = padding_attention_mask(self.source_mask(inputs["source"]))
        projected = self.decoder.project_memory(memory)
        # (batch, length, K, d_model) and (batch, length, K)
        drafted = self.draft(hidden, labels, projected, source_mask)
        wanted = labels_of_heads(labels, self.config.draft_heads)
        table, bias = self.logits_weights()
        return projected_cross_entropy(
            tf.boolean_mask(drafted, padding_mask(wanted)),
            table,
            bias,
            wanted,
            self.config.draft_heads * tokens,
            self.loss.label_smoothing,
            self.loss.smoothed_over,
            trains_matrix=False,
        )

    def test_step(self, data):
        """Computes the metrics of the heads."""
        inputs, labels = data
        _, losses = self._token_losses(inputs, labels, 1.0, ())
        self._update_metrics(inputs, labels, losses)
        return self._averageable(self.get_metrics_result())


def labels_of_heads(labels: tf.Tensor, num_heads: int) -> tf.Tensor:
    """Returns the labels of each head, `(batch, length, num_heads)`: head k drafts token t + k.

    Args:
        labels: `(batch, length)` ids padded with 0.
        num_heads: K.
    """
    length = tf.shape(labels)[1]
    padded = tf.pad(labels, [[0, 0], [0, num_heads]])
    return tf.stack([padded[:, k : k + length] for k in range(1, num_heads + 1)], axis=2)


class TrainableLanguageModel(_TrainableModel, LanguageModel):
    """A `LanguageModel` with the training step."""

    plain_class = LanguageModel

"""Training of draft heads on a frozen model   (Stern et al., 2018; Cai et al., 2024)."""

import tensorflow as tf

from tf_transformer.layers.masks import padding_attention_mask, padding_mask
from tf_transformer.losses.fused_cross_entropy import projected_cross_entropy
from training.step import TrainableTransformer


class TrainableDraftHeads(TrainableTransformer):
    """A `Transformer` whose draft heads are trained, and nothing else.

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

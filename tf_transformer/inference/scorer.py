"""Log-probabilities of given translations."""

from typing import NamedTuple

import tensorflow as tf

from tf_transformer.decoding.length_chunks import map_chunks
from tf_transformer.decoding.logits_processing import merge_end_ids
from tf_transformer.inference.translator import Translator
from tf_transformer.layers.masks import padding_mask
from tf_transformer.losses.label_smoothing import cross_entropy
from tf_transformer.text.framing import end_and_pad, shift_right, split_tags


class Scores(NamedTuple):
    """Log-probabilities of given translations.

    Attributes:
        log_prob: `(batch,)` float32, log p(target, end | source) in nats.
        num_tokens: `(batch,)` int32, number of tokens of the target, including the end id.
        token_log_probs: `(batch, max_length)` float32, log-probability of each token, padded with
            zeros.
        truncated: `(batch,)` bool, whether source or target was truncated to the model's limit.
    """

    log_prob: tf.Tensor
    num_tokens: tf.Tensor
    token_log_probs: tf.Tensor
    truncated: tf.Tensor


def score_pairs(translator: Translator, source: tf.Tensor, target: tf.Tensor) -> Scores:
    """Scores target sentences as translations of source sentences, as part of a graph.

    Args:
        translator: the translator, for its model, tokenizers and length limits.
        source: `(batch,)` strings.
        target: `(batch,)` strings.
    """
    limit = translator.source_limit
    source_ids, source_lengths = translator.tokenize_source(source)
    target_ids = translator.target_tokenizer.tokenize(target)
    target_lengths = tf.cast(target_ids.row_lengths(), tf.int32)
    specs = (
        tf.TensorSpec([], tf.float32),
        tf.TensorSpec([], tf.int32),
        tf.TensorSpec([limit + 1], tf.float32),
    )
    log_prob, num_tokens, token_log_probs = map_chunks(
        lambda rows: _score_chunk(translator, *rows),
        (source_ids, target_ids[:, :limit]),
        tf.maximum(source_lengths, target_lengths),
        translator.chunk_size,
        specs,
    )
    truncated = (source_lengths > limit) | (target_lengths > limit)
    return Scores(log_prob, num_tokens, token_log_probs, truncated)


def _score_chunk(translator, source, target):
    num_tags = translator.model.config.num_target_tags
    tags, source = split_tags(source, num_tags)
    labels = tf.concat([tags, end_and_pad(target)], axis=1)
    inputs = {"source": end_and_pad(source), "target": shift_right(labels)}
    logits = merge_end_ids(translator.model(inputs), translator.search.end_ids)[:, num_tags:]
    labels = labels[:, num_tags:]
    mask = padding_mask(labels)
    log_probs = tf.where(mask, -cross_entropy(labels, logits), 0.0)
    padding = translator.source_limit + 1 - tf.shape(labels)[1]
    padded = tf.ensure_shape(
        tf.pad(log_probs, [[0, 0], [0, padding]]), (None, translator.source_limit + 1)
    )
    return (
        tf.reduce_sum(log_probs, axis=1),
        tf.math.count_nonzero(mask, axis=1, dtype=tf.int32),
        padded,
    )

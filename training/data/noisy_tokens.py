"""Tokenizing pairs of sentences to which noise is added."""

import tensorflow as tf

from tf_transformer.text.special_ids import UNKNOWN_ID
from tf_transformer.text.tokenizer import Tokenizer
from training.config import DataConfig
from training.noise.noise import add_noise


# Without branches on tensors, autograph would only take time.
@tf.autograph.experimental.do_not_convert
def tokenize_with_noise(
    source: tf.Tensor,
    target: tf.Tensor,
    keys: tf.Tensor,
    tokenizers: tuple[Tokenizer, Tokenizer],
    config: DataConfig,
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Adds noise to pairs of sentences and tokenizes them.

    Noise changes what is trained on, not which pairs are: a pair stays as it is if it would become
    longer than `max_length` by the noise, or is too long without it. It also does if the noise has
    characters that the target's vocabulary lacks, since a model must not learn the unknown piece.

    Args:
        source: `(batch,)` strings.
        target: `(batch,)` strings.
        keys: key of each pair, see `pair_keys`.
        tokenizers: the tokenizers of source and target.
        config: settings with the noise and `max_length`.

    Returns:
        The ids of source and target, ragged `(batch, (length))` int32.
    """
    noisy = add_noise(source, target, keys, config.noise)
    is_changed = (noisy.source != source) | (noisy.target != target)
    changed = tf.where(is_changed)[:, 0]
    clean_ids = list(map(Tokenizer.tokenize, tokenizers, (source, target)))
    noisy_texts = (tf.gather(noisy.source, changed), tf.gather(noisy.target, changed))
    noisy_ids = list(map(Tokenizer.tokenize, tokenizers, noisy_texts))
    is_usable = _count_unknown(noisy_ids[1]) <= tf.gather(_count_unknown(clean_ids[1]), changed)
    for clean, new in zip(clean_ids, noisy_ids, strict=True):
        lengths = tf.gather(clean.row_lengths(), changed)
        is_usable &= tf.maximum(lengths, new.row_lengths()) < config.max_length
        is_usable &= tf.minimum(lengths, new.row_lengths()) > 0
    rows = tf.range(clean_ids[0].nrows())
    replaced = tf.boolean_mask(changed, is_usable)
    # The new rows come after all the old ones.
    indices = tf.where(is_usable)[:, 0] + clean_ids[0].nrows()
    rows = tf.tensor_scatter_nd_update(rows, replaced[:, tf.newaxis], indices)
    source_ids, target_ids = (
        tf.gather(tf.concat([clean, new], 0), rows)
        for clean, new in zip(clean_ids, noisy_ids, strict=True)
    )
    return source_ids, target_ids


def _count_unknown(ids: tf.RaggedTensor) -> tf.Tensor:
    return tf.reduce_sum(tf.cast(ids == UNKNOWN_ID, tf.int32), axis=1)

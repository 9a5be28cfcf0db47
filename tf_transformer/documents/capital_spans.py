"""Words in capitals within a sentence, whose translations are found by the alignment."""

import tensorflow as tf

from tf_transformer.decoding.length_chunks import map_chunks
from tf_transformer.inference.forced_attention import forced_attention
from tf_transformer.inference.translator import Translator
from tf_transformer.text.framing import end_and_pad, split_tags
from tf_transformer.text.special_ids import PAD_ID
from tf_transformer.word_alignment.piece_words import group_by_word, word_indices


def restore_spans(
    translator: Translator, source: tf.Tensor, target: tf.Tensor, in_span: tf.RaggedTensor
) -> tf.Tensor:
    """Writes the words of translations that are aligned to words in a span in capitals.

    A word of the translation is aligned to a span if its pieces attend more to the span than to the
    rest of the source, see `Transformer.alignment`. The translation of a sentence stays as it is if
    its pieces, or those of the source, do not form the words that white space separates.

    Args:
        translator: the translator.
        source: `(batch,)` strings, with the tags that the model needs.
        target: `(batch,)` strings, their translations.
        in_span: bool, ragged `(batch, (words))`, of the words of the source without tags.

    Returns:
        `(batch,)` strings.
    """
    rows = tf.where(tf.reduce_any(in_span, axis=1))[:, 0]

    def restore():
        ids, lengths = translator.tokenize_source(tf.gather(source, rows))
        chosen = {"ids": ids, "text": tf.gather(target, rows), "spans": tf.gather(in_span, rows)}
        changed = map_chunks(
            lambda x: _in_capitals(translator, x["ids"], x["text"], x["spans"]),
            chosen,
            lengths,
            translator.chunk_size,
            tf.TensorSpec([], tf.string),
        )
        return tf.tensor_scatter_nd_update(target, rows[:, tf.newaxis], changed)

    return tf.cond(tf.size(rows) > 0, restore, lambda: target)


def _in_capitals(translator, source, text, spans):
    """Returns texts with the words in capitals that are aligned to spans, `(rows,)` strings."""
    config = translator.model.config
    tags, source = split_tags(source, config.num_target_tags)
    target = translator.target_tokenizer.tokenize(text)[:, : translator.source_limit]
    source_words = word_indices(source, translator.source_tokenizer)
    if translator.source_tokenizer.languages:
        # The tags that are still before the source.
        source_words -= config.num_tags - config.num_target_tags
    target_words = word_indices(target, translator.target_tokenizer)
    weights = forced_attention(
        translator.model, tags, end_and_pad(source), target.to_tensor(PAD_ID)
    )
    share = _share(weights, source_words, spans)
    share = tf.RaggedTensor.from_tensor(share, target.row_lengths())
    is_aligned = tf.reduce_mean(group_by_word(share, target_words), axis=2) > 0.5
    words = tf.strings.split(text)
    is_sound = tf.reduce_max(source_words, axis=1) + 1 == tf.cast(spans.row_lengths(), tf.int32)
    is_sound &= is_aligned.row_lengths() == words.row_lengths()
    # A row that is not sound may have more or fewer flags than words, all False.
    flags = is_aligned.to_tensor(False) & is_sound[:, tf.newaxis]
    flags = tf.pad(flags, [[0, 0], [0, tf.size(words.flat_values)]])
    flags = tf.RaggedTensor.from_tensor(flags, words.row_lengths()).flat_values
    upper = tf.strings.upper(words.flat_values, encoding="utf-8")
    changed = words.with_flat_values(tf.where(flags, upper, words.flat_values))
    return tf.strings.reduce_join(changed, axis=1, separator=" ")


def _share(weights, words, spans):
    """Returns the share of the weights on pieces that is on those of spans.

    Args:
        weights: `(rows, target_length, source_length + 1)`.
        words: int32, ragged `(rows, (source_length))`, the word of each source piece.
        spans: bool, ragged `(rows, (words))`.

    Returns:
        `(rows, target_length)`.
    """
    is_piece = tf.sequence_mask(words.row_lengths(), tf.shape(weights)[2])
    flags = tf.pad(spans.to_tensor(False), [[0, 0], [1, 1]])  # at -1 and after the last word, False
    indices = tf.clip_by_value(words.to_tensor(-1) + 1, 0, tf.shape(flags)[1] - 1)
    is_flagged = tf.pad(tf.gather(flags, indices, batch_dims=1), [[0, 0], [0, 1]])
    total, to_spans = (
        tf.reduce_sum(weights * tf.cast(mask, tf.float32)[:, tf.newaxis], axis=2)
        for mask in (is_piece, is_flagged)
    )
    return to_spans / tf.maximum(total, 1e-9)

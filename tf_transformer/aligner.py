"""Which source piece each piece of a translation comes from, by attention."""

from typing import NamedTuple

import tensorflow as tf

from tf_transformer.chunks import map_chunks
from tf_transformer.masks import padding_mask
from tf_transformer.searcher import TranslationOptions, end_and_pad
from tf_transformer.special_ids import BEGIN_ID
from tf_transformer.translator import Translator


class Alignments(NamedTuple):
    """Translations with the pieces of both sides and what belongs together, `(batch,)` each.

    Attributes:
        text: UTF-8 strings.
        scores: float32, log-probability over length penalty.
        source_pieces, target_pieces: pieces, separated by spaces.
        hard: `i-j` pairs separated by spaces, as Pharaoh and Marian write them: target piece j
            looks most at source piece i, both counted from 0.
        soft: a word for each target piece: its weights on all source pieces and the source's end,
            separated by commas, as Marian writes them.
        truncated: bool, see `Translations`.
    """

    text: tf.Tensor
    scores: tf.Tensor
    source_pieces: tf.Tensor
    target_pieces: tf.Tensor
    hard: tf.Tensor
    soft: tf.Tensor
    truncated: tf.Tensor


def align(
    translator: Translator, text: tf.Tensor, options: TranslationOptions | None = None
) -> Alignments:
    """Translates sentences and aligns the best translation's pieces.

    The weights are those of the cross-attention one layer below the last (of the only one, if so),
    the mean of its heads: there attention follows the words best (Garg et al., 2019).

    Args:
        translator: the translator.
        text: `(batch,)` strings.
        options: of every sentence; None takes the translator's own.
    """
    source, lengths = translator.tokenize_source(text)
    string = tf.TensorSpec([], tf.string)
    found = map_chunks(
        lambda rows: _align_chunk(translator, rows["source"], rows["options"] or None),
        {"source": source, "options": options or ()},
        lengths,
        translator.chunk_size,
        (string, tf.TensorSpec([], tf.float32), string, string, string, string),
    )
    return Alignments(*found, truncated=lengths > translator.source_limit)


def _align_chunk(translator, source, options):
    found = translator.searcher.search(source, options)
    is_empty = source.row_lengths() == 0
    lengths = found.lengths[:, 0]
    target = tf.RaggedTensor.from_tensor(found.ids[:, 0], lengths)
    weights = _cross_attention(translator.model, source, target)
    source_tokenizer, target_tokenizer = translator.source_tokenizer, translator.target_tokenizer
    return (
        tf.where(is_empty, "", target_tokenizer.detokenize(target)),
        found.scores[:, 0],
        _join_pieces(source_tokenizer, source),
        _join_pieces(target_tokenizer, target),
        _hard(weights, source, lengths),
        _soft(weights, source, lengths),
    )


def _cross_attention(model, source, target):
    """`(rows, target_length, source_length + 1)`; row t chose target piece t."""
    begins = tf.fill(tf.stack([target.nrows(), 1]), BEGIN_ID)
    inputs = {"source": end_and_pad(source), "target": tf.concat([begins, target], 1).to_tensor()}
    _, attention = model(inputs, return_attention=True)
    layer = attention.cross[max(len(attention.cross) - 2, 0)]
    return tf.reduce_mean(tf.cast(layer, tf.float32), axis=1)[:, :-1]


def _join_pieces(tokenizer, ids):
    pieces = tf.RaggedTensor.from_row_splits(
        tf.gather(tf.constant(tokenizer.pieces), ids.values), ids.row_splits
    )
    return tf.strings.reduce_join(pieces, axis=1, separator=" ")


def _hard(weights, source, target_lengths):
    """The source's end is no piece that a word could come from."""
    is_piece = tf.pad(padding_mask(end_and_pad(source))[:, 1:], [[0, 0], [0, 1]])
    best = tf.argmax(tf.where(is_piece[:, tf.newaxis], weights, -1.0), axis=2)
    numbers = tf.broadcast_to(tf.range(tf.shape(best)[1]), tf.shape(best))
    pairs = tf.strings.join([tf.strings.as_string(best), tf.strings.as_string(numbers)], "-")
    return tf.strings.reduce_join(
        tf.RaggedTensor.from_tensor(pairs, target_lengths), axis=1, separator=" "
    )


def _soft(weights, source, target_lengths):
    texts = tf.strings.as_string(weights, precision=4)
    lengths = tf.cast(source.row_lengths(), tf.int32) + 1
    is_shown = tf.sequence_mask(lengths, tf.shape(weights)[2])[:, tf.newaxis]
    is_first = tf.range(tf.shape(weights)[2]) == 0
    parts = tf.where(is_shown, tf.where(is_first, texts, tf.strings.join([",", texts])), "")
    words = tf.strings.reduce_join(parts, axis=2)
    return tf.strings.reduce_join(
        tf.RaggedTensor.from_tensor(words, target_lengths), axis=1, separator=" "
    )

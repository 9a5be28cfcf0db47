"""Word alignment of given sentence pairs, from the model's attention."""

from typing import NamedTuple

import tensorflow as tf

from tf_transformer.decoding.length_chunks import map_chunks
from tf_transformer.inference.forced_attention import forced_attention
from tf_transformer.inference.translator import Translator
from tf_transformer.text.framing import end_and_pad, split_tags
from tf_transformer.text.special_ids import PAD_ID
from tf_transformer.text.tokenizer import Tokenizer
from tf_transformer.word_alignment.piece_words import count_words, word_indices


class WordLinks(NamedTuple):
    """Links of the words of sentence pairs, `(batch,)` each.

    Attributes:
        links: `i-j` pairs separated by spaces, in Pharaoh's format: target word j attends most to
            source word i, both counted from 0.
        scores: float32, the share of the attention of the target's pieces that goes to the source
            words that they are linked with; 0 without links.
        is_aligned: bool, whether both sides are within the model's limit and have as many words as
            white space separates, see `word_indices`. Other pairs have no links. A blank side has
            none, either.
    """

    links: tf.Tensor
    scores: tf.Tensor
    is_aligned: tf.Tensor


def link_words(translator: Translator, source: tf.Tensor, target: tf.Tensor) -> WordLinks:
    """Links each target word of given pairs to a source word, as part of a graph.

    The target is forced. A target word is linked to the source word that its pieces attend to most,
    in `Transformer.alignment`. The weight of a source word is the sum over its pieces, since the
    weights of a piece are a distribution, and guided alignment trains this sum: the maximum would
    depend on the number of pieces. The pieces of a target word count equally. Language tags and the
    end of the source are linked with nothing.

    Args:
        translator: the translator, for its model, tokenizers and length limits.
        source: `(batch,)` strings, with the language tags that the model needs.
        target: `(batch,)` strings.
    """
    limit, num_tags = translator.source_limit, translator.model.config.num_target_tags
    sides = [
        (source, translator.source_tokenizer.tokenize(source), translator.source_tokenizer),
        (target, translator.target_tokenizer.tokenize(target), translator.target_tokenizer),
    ]
    counts = [count_words(text) for text, *_ in sides]
    lengths = [tf.cast(ids.row_lengths(), tf.int32) for _, ids, _ in sides]
    is_aligned = tf.maximum(lengths[0] - num_tags, lengths[1]) <= limit
    is_blank = (counts[0] == 0) | (counts[1] == 0)
    for (_, ids, tokenizer), count in zip(sides, counts, strict=True):
        is_aligned &= _num_words(word_indices(ids, tokenizer)) == count
    has_links = is_aligned & ~is_blank
    links, scores = map_chunks(
        lambda rows: _link_chunk(translator, *rows),
        tuple(_empty_others(ids, has_links) for _, ids, _ in sides),
        tf.where(has_links, tf.maximum(*lengths), 0),
        translator.chunk_size,
        (tf.TensorSpec([], tf.string), tf.TensorSpec([], tf.float32)),
    )
    return WordLinks(links, scores, is_aligned | is_blank)


def _num_words(words: tf.RaggedTensor) -> tf.Tensor:
    """Returns the number of words of each row, from the indices of the words of its pieces."""
    return tf.maximum(tf.reduce_max(words.to_tensor(-1), axis=1) + 1, 0)


def _empty_others(ids: tf.RaggedTensor, is_kept: tf.Tensor) -> tf.RaggedTensor:
    """Returns ragged ids, without those of rows that are not kept."""
    return tf.ragged.boolean_mask(ids, ids.with_flat_values(tf.gather(is_kept, ids.value_rowids())))


def _link_chunk(translator, source, target):
    """Returns the links and the scores of some pairs, from ragged ids with the target's tags."""
    num_tags = translator.model.config.num_target_tags
    source_words = word_indices(source, translator.source_tokenizer)
    target_words = word_indices(target, translator.target_tokenizer)
    num_source_words, num_target_words = _num_words(source_words), _num_words(target_words)
    is_linked = ~_tag_words(source, source_words, num_source_words, translator.source_tokenizer)
    tags, rest = split_tags(source, num_tags)
    ids = target.to_tensor(PAD_ID)
    # (batch, target, source), without the source's end
    weights = forced_attention(translator.model, tags, end_and_pad(rest), ids)[:, :, :-1]
    # Sums over the pieces of words: (batch, target words, source words)
    of_source = tf.one_hot(source_words[:, num_tags:].to_tensor(-1), tf.shape(is_linked)[1])
    of_target = tf.one_hot(target_words.to_tensor(-1), tf.reduce_max(num_target_words))
    weights = tf.matmul(of_target, tf.matmul(weights, of_source), transpose_a=True)
    best = tf.argmax(
        tf.where(is_linked[:, tf.newaxis], weights, -1.0), axis=2, output_type=tf.int32
    )
    num_links = tf.where(tf.reduce_any(is_linked, axis=1), num_target_words, 0)
    words = tf.broadcast_to(tf.range(tf.shape(best)[1]), tf.shape(best))
    pairs = tf.strings.join([tf.strings.as_string(best), tf.strings.as_string(words)], "-")
    of_links = tf.gather(weights, best, batch_dims=2)
    total = tf.reduce_sum(tf.where(words < num_links[:, tf.newaxis], of_links, 0.0), axis=1)
    num_pieces = tf.cast(target.row_lengths(), tf.float32)
    return (
        tf.strings.reduce_join(tf.RaggedTensor.from_tensor(pairs, num_links), 1, separator=" "),
        tf.math.divide_no_nan(total, num_pieces),
    )


def _tag_words(
    ids: tf.RaggedTensor, words: tf.RaggedTensor, num_words: tf.Tensor, tokenizer: Tokenizer
) -> tf.Tensor:
    """Returns which words contain a language tag; those that a row lacks count as such.

    Returns:
        `(batch, words)` bool, with at least one column.
    """
    most = tf.maximum(tf.reduce_max(num_words), 1)
    is_missing = tf.range(most) >= num_words[:, tf.newaxis]
    if not tokenizer.tag_ids:
        return is_missing
    is_tag = tf.reduce_any(ids.flat_values[:, tf.newaxis] == tokenizer.tag_ids, axis=1)
    tagged = words.with_flat_values(tf.where(is_tag, words.flat_values, -1)).to_tensor(-1)
    return is_missing | tf.reduce_any(tf.one_hot(tagged, most, True, False, dtype=tf.bool), axis=1)

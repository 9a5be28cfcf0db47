"""Word alignment from attention: the source piece that each piece of a translation comes from."""

from typing import NamedTuple

import tensorflow as tf

from tf_transformer.decoding.length_chunks import map_chunks
from tf_transformer.decoding.translation_options import TranslationOptions
from tf_transformer.inference.forced_attention import forced_attention
from tf_transformer.inference.translator import Translator
from tf_transformer.layers.masks import padding_mask
from tf_transformer.text.framing import end_and_pad, split_tags


class Alignments(NamedTuple):
    """Translations and their alignments, `(batch,)` each.

    Attributes:
        text: UTF-8 strings.
        scores: float32, log-probability divided by the length penalty.
        source_pieces: pieces of the source, separated by spaces.
        target_pieces: pieces of the translation, separated by spaces.
        hard: `i-j` pairs separated by spaces, in the format of Pharaoh and Marian: target piece j
            attends most to source piece i, both counted from 0.
        soft: one word for each target piece, in the format of Marian: its weights on all source
            pieces and the source's end, separated by commas.
        truncated: bool, see `Translations`.
    """

    text: tf.Tensor
    scores: tf.Tensor
    source_pieces: tf.Tensor
    target_pieces: tf.Tensor
    hard: tf.Tensor
    soft: tf.Tensor
    truncated: tf.Tensor


class Aligner:
    """Translates sentences and aligns the pieces of the best translation.

    The alignment is `Transformer.alignment`.

    Args:
        translator: the translator.
    """

    def __init__(self, translator: Translator):
        self._translator = translator
        ids, amounts = tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)
        # All signatures of an export share this function. Inlined in each, it would take a server
        # seconds longer to load them.
        self._describe = tf.function(
            self._find_alignments,
            input_signature=[ids, ids, amounts, ids, amounts],
            autograph=False,
            experimental_attributes={"_noinline": True},
        )

    def align(self, text: tf.Tensor, options: TranslationOptions | None = None) -> Alignments:
        """Translates and aligns sentences, as part of a graph.

        Args:
            text: `(batch,)` strings.
            options: per-sentence options; None means those of the translator.
        """
        source, lengths = self._translator.tokenize_source(text)
        string = tf.TensorSpec([], tf.string)
        texts, scores, source_pieces, target_pieces, hard, soft = map_chunks(
            lambda rows: self._align_chunk(rows["source"], rows["options"] or None),
            {"source": source, "options": options or ()},
            lengths,
            self._translator.chunk_size,
            (string, tf.TensorSpec([], tf.float32), string, string, string, string),
            is_compiled=bool(self._translator.search.compiled_shapes),
        )
        return Alignments(
            texts,
            scores,
            source_pieces,
            target_pieces,
            hard,
            soft,
            truncated=lengths > self._translator.source_limit,
        )

    def align_pairs(self, text: tf.Tensor, translation: tf.Tensor) -> Alignments:
        """Aligns sentences with given translations, as part of a graph.

        Args:
            text: `(batch,)` strings.
            translation: `(batch,)` strings; what exceeds the model's limit is not aligned.

        Returns:
            The alignments, with scores of 0.
        """
        source, lengths = self._translator.tokenize_source(text)
        target = self._translator.target_tokenizer.tokenize(translation)
        string = tf.TensorSpec([], tf.string)
        source_pieces, target_pieces, hard, soft = map_chunks(
            lambda rows: self._align_pairs_of_chunk(rows["source"], rows["target"]),
            {"source": source, "target": target[:, : self._translator.source_limit]},
            lengths,
            self._translator.chunk_size,
            (string, string, string, string),
        )
        return Alignments(
            translation,
            tf.zeros_like(lengths, tf.float32),
            source_pieces,
            target_pieces,
            hard,
            soft,
            truncated=lengths > self._translator.source_limit,
        )

    def _align_pairs_of_chunk(self, source, target):
        tags, source = split_tags(source, self._translator.model.config.num_target_tags)
        lengths = [tf.cast(side.row_lengths(), tf.int32) for side in (source, target)]
        # At least one column, which may be padding.
        ids = tf.pad(target.to_tensor(), [[0, 0], [0, 1]])
        return self._describe(tags, end_and_pad(source), lengths[0], ids, lengths[1])[1:]

    def _align_chunk(self, source, options):
        found = self._translator.search.run(source, options)
        ids, lengths = found.ids[:, 0], found.lengths[:, 0]
        tags, source = split_tags(source, self._translator.model.config.num_target_tags)
        source_lengths = tf.cast(source.row_lengths(), tf.int32)
        text, *alignments = self._describe(tags, end_and_pad(source), source_lengths, ids, lengths)
        return (tf.where(source_lengths == 0, "", text), found.scores[:, 0], *alignments)

    def _find_alignments(self, tags, source, source_lengths, target, target_lengths):
        """Returns the text, the pieces of both sides, and the hard and soft alignment.

        Args:
            tags: `(rows, num_target_tags)` ids before those of the target.
            source: `(rows, source_length)` ids with the end id, padded with 0.
            source_lengths: `(rows,)`, without the end id.
            target: `(rows, target_length)` ids without the end id, padded with 0.
            target_lengths: `(rows,)`.
        """
        weights = forced_attention(self._translator.model, tags, source, target)
        sides = (
            (self._translator.source_tokenizer, source, source_lengths),
            (self._translator.target_tokenizer, target, target_lengths),
        )
        pieces = [
            tf.strings.reduce_join(
                tokenizer.pieces_of(tf.RaggedTensor.from_tensor(ids, lengths)), 1, separator=" "
            )
            for tokenizer, ids, lengths in sides
        ]
        return (
            self._translator.target_tokenizer.detokenize(target),
            *pieces,
            _hard_alignment(weights, source, target_lengths),
            _soft_alignment(weights, source_lengths, target_lengths),
        )


def _hard_alignment(weights, source, target_lengths):
    """Returns `i-j` pairs; the source's end id is never aligned."""
    is_piece = tf.pad(padding_mask(source)[:, 1:], [[0, 0], [0, 1]])
    best = tf.argmax(tf.where(is_piece[:, tf.newaxis], weights, -1.0), axis=2)
    indices = tf.broadcast_to(tf.range(tf.shape(best)[1]), tf.shape(best))
    pairs = tf.strings.join([tf.strings.as_string(best), tf.strings.as_string(indices)], "-")
    return tf.strings.reduce_join(
        tf.RaggedTensor.from_tensor(pairs, target_lengths), axis=1, separator=" "
    )


def _soft_alignment(weights, source_lengths, target_lengths):
    texts = tf.strings.as_string(weights, precision=4)
    is_shown = tf.sequence_mask(source_lengths + 1, tf.shape(weights)[2])[:, tf.newaxis]
    is_first = tf.range(tf.shape(weights)[2]) == 0
    parts = tf.where(is_shown, tf.where(is_first, texts, tf.strings.join([",", texts])), "")
    words = tf.strings.reduce_join(parts, axis=2)
    return tf.strings.reduce_join(
        tf.RaggedTensor.from_tensor(words, target_lengths), axis=1, separator=" "
    )

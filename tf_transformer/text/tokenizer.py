"""SentencePiece tokenizer as TensorFlow ops, for training, evaluation and serving."""

import hashlib
import os

import tensorflow as tf
import tensorflow_text as tf_text

from tf_transformer.text.byte_level.part_ops import split_texts
from tf_transformer.text.special_ids import PAD_ID, UNKNOWN_ID
from tf_transformer.text.texts import list_of_texts
from tf_transformer.text.vocabulary import Vocabulary
from tf_transformer.text.words import join_words, split_words


class Tokenizer(Vocabulary, tf.Module):
    """Converts text to token ids and back with a SentencePiece model, as part of a graph.

    The special ids are 0 for padding, 1 for unknown pieces, 2 for the begin and 3 for the end of a
    sentence. `tokenize` adds none of them. Invalid UTF-8 bytes in a text are replaced by U+FFFD.

    Set random seeds before you construct tokenizers: `tf.random.set_seed`, which
    `keras.utils.set_random_seed` calls, clears TensorFlow's kernel cache, which owns their models.

    Args:
        model: a serialized SentencePiece model, or the path of its file, such as the `source.spm`
            of a model directory.

    Raises:
        InputError: `model` is not a SentencePiece model or its path, or has other special ids.
    """

    def __init__(self, model: bytes | str | os.PathLike):
        tf.Module.__init__(self, name="tokenizer")
        Vocabulary.__init__(self, model)
        # Resources of the same name are shared, even between different SavedModels that are loaded
        # in one process. Therefore the name contains a digest of the content.
        name = f"sentencepiece_{hashlib.blake2b(self.model, digest_size=16).hexdigest()}"
        is_found_by_text = self.is_renumbered and not self.is_byte_level
        out_type = tf.string if is_found_by_text else tf.int32
        self._sentencepiece = tf_text.SentencepieceTokenizer(
            self.model, out_type=out_type, name=name
        )

    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Converts strings `(batch,)` to int32 ids, ragged `(batch, (length))`."""
        if isinstance(text, list | tuple):
            text = tf.constant(list_of_texts(text, "text"), tf.string, [len(text)])
        if self.is_byte_level:
            return self._tokenize_parts(text)
        if self.word_separators:
            tokens = split_words(text, self.word_separators)
        else:
            tokens = self._sentencepiece.tokenize(text)
        if not self.is_renumbered:
            return tokens
        ids = self._sentencepiece.string_to_id(tokens)
        return ids.with_flat_values(
            tf.where(ids.flat_values < self.vocab_size, ids.flat_values, UNKNOWN_ID)
        )

    def _tokenize_parts(self, text: tf.Tensor) -> tf.RaggedTensor:
        parts = split_texts(text)
        ids = parts.with_values(self._sentencepiece.tokenize(parts.values)).merge_dims(1, 2)
        if not self.begin_ids:
            return ids
        num_begin = tf.where(ids.row_lengths() > 0, tf.constant(len(self.begin_ids), tf.int64), 0)
        begin = tf.repeat(tf.constant([self.begin_ids]), ids.nrows(), axis=0)
        return tf.concat([tf.RaggedTensor.from_tensor(begin, num_begin), ids], axis=1)

    def detokenize(self, ids: tf.Tensor) -> tf.Tensor:
        """Converts int32 ids to UTF-8 strings.

        Pad, begin and end ids are removed; the unknown id becomes " ⁇ ".
        Words of a vocabulary of words have spaces between them. Bytes of byte-level BPE that are
        no whole character become U+FFFD.

        Args:
            ids: `(batch, length)`, padded or ragged.

        Returns:
            `(batch,)` strings.
        """
        if isinstance(ids, tf.RaggedTensor):
            ids = ids.to_tensor(PAD_ID)
        if self.word_separators:
            text = join_words(self._sentencepiece.id_to_string(ids), ids)
        else:
            text = self._sentencepiece.detokenize(ids)
            if self.is_byte_level:
                text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")
        return tf.ensure_shape(text, [ids.shape[0]])

    def pieces_of(self, ids: tf.RaggedTensor) -> tf.RaggedTensor:
        """Converts int32 ids, ragged `(batch, (length))`, to their pieces, of the same shape."""
        return self._sentencepiece.id_to_string(ids)

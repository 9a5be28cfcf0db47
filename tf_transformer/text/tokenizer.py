"""SentencePiece inside the graph: the same ops tokenize for training, evaluation and serving."""

import hashlib

import tensorflow as tf
import tensorflow_text as tf_text

from tf_transformer.text.special_ids import PAD_ID
from tf_transformer.text.vocabulary import Vocabulary


class Tokenizer(Vocabulary, tf.Module):
    """Text to token ids and back, by a SentencePiece model that lives in the graph.

    The special ids are fixed: 0 pads, 1 stands for the unknown, 2 begins and 3 ends a sentence.
    `tokenize` adds none of them. Text that is not valid UTF-8 is read with U+FFFD in place of the
    invalid bytes.

    Set random seeds before making tokenizers: `tf.random.set_seed`, and so
    `keras.utils.set_random_seed`, empties TensorFlow's kernel cache, which owns their models.

    Args:
        model: a serialised SentencePiece model.

    Raises:
        ValueError: `model` is not a SentencePiece model, or has other special ids.
    """

    def __init__(self, model: bytes):
        tf.Module.__init__(self, name="tokenizer")
        Vocabulary.__init__(self, model)
        # In a SavedModel that is loaded, resources of one name are one: also those of another
        # SavedModel in the same process. So the name says what is in it.
        name = f"sentencepiece_{hashlib.blake2b(model, digest_size=16).hexdigest()}"
        self._sentencepiece = tf_text.SentencepieceTokenizer(model, out_type=tf.int32, name=name)

    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Strings `(batch,)` to int32 ids, ragged `(batch, (length))`."""
        return self._sentencepiece.tokenize(text)

    def detokenize(self, ids: tf.Tensor) -> tf.Tensor:
        """Int32 ids `(batch, length)`, dense with padding or ragged, to UTF-8 strings `(batch,)`.

        Pad, begin and end ids leave no trace in the text; the unknown id becomes " ⁇ ".
        """
        if isinstance(ids, tf.RaggedTensor):
            ids = ids.to_tensor(PAD_ID)
        text = self._sentencepiece.detokenize(ids)
        return tf.ensure_shape(text, [ids.shape[0]])

    def pieces_of(self, ids: tf.RaggedTensor) -> tf.RaggedTensor:
        """Int32 ids, ragged `(batch, (length))`, to their pieces."""
        return self._sentencepiece.id_to_string(ids)

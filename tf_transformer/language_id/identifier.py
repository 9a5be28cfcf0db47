"""A language classifier as part of a TensorFlow graph."""

from typing import NamedTuple

import tensorflow as tf

from tf_transformer.language_id.classifier import UNDETERMINED, LanguageClassifier
from tf_transformer.language_id.ngrams import (
    BITS_32,
    FACTORS,
    MAX_BYTES,
    MIX_SHIFT,
    MIXER,
    NORMALIZED,
    SIZES,
    SPACE,
)


class IdentifiedInGraph(NamedTuple):
    """The languages of a batch of texts.

    Attributes:
        languages: `(batch,)` string, the most probable language, or `UNDETERMINED`.
        probabilities: `(batch,)` float32, the probability of the most probable language.
    """

    languages: tf.Tensor
    probabilities: tf.Tensor


class LanguageIdentifier(tf.Module):
    """Identifies languages as `LanguageClassifier.identify` does, with operations of TensorFlow.

    The sums are integers and the softmax is that of each row, so that a row's result does not
    depend on the other rows, up to the rounding of the exponential function.

    Args:
        classifier: the classifier.

    Attributes:
        digest: digest of the classifier.
        weights: `(buckets, languages)` int32.
    """

    def __init__(self, classifier: LanguageClassifier):
        super().__init__(name="language_identifier")
        self.digest = classifier.digest
        self.weights = tf.Variable(
            classifier.weights.astype("int32"), trainable=False, name="language_weights"
        )
        self._languages = list(classifier.languages)
        self._scale = classifier.scale
        self._threshold = classifier.threshold

    def identify(self, text: tf.Tensor) -> IdentifiedInGraph:
        """Returns the language of each text.

        Args:
            text: `(batch,)` string, any bytes, of which the first `MAX_BYTES` count.
        """
        logits, num_ngrams = self._logits(text)
        probabilities = tf.nn.softmax(logits)
        best = tf.reduce_max(probabilities, axis=1)
        names = tf.gather(tf.constant(self._languages), tf.argmax(probabilities, axis=1))
        is_known = (best >= self._threshold) & (num_ngrams > 0)
        return IdentifiedInGraph(tf.where(is_known, names, UNDETERMINED), best)

    def _logits(self, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the logits, `(batch, languages)` float32, and the number of n-grams, `(batch,)`.

        The bytes of all texts are one vector, so that no row is padded.
        """
        num_rows = tf.shape(text)[0]
        padded = tf.strings.join([" ", tf.strings.substr(text, 0, MAX_BYTES), " "])
        rows = tf.RaggedTensor.from_row_lengths(
            values := tf.io.decode_raw(tf.strings.reduce_join(padded), tf.uint8),
            tf.strings.length(padded),
            validate=False,
        ).value_rowids()
        total = tf.size(values)
        # After the last text follow bytes of no text, so that an n-gram begins at each byte.
        longest = max(SIZES)
        rows = tf.pad(rows, [[0, longest - 1]], constant_values=-1)
        content = tf.gather(tf.constant(NORMALIZED), tf.cast(values, tf.int32))
        content = tf.pad(content, [[0, longest - 1]], constant_values=SPACE)
        is_letter = tf.not_equal(content, SPACE)
        codes, selected = [tf.zeros([total], tf.int64)], []
        has_letter = tf.zeros([total], tf.bool)
        for size in SIZES:
            end = total + size - 1
            codes.append(codes[-1] * 256 + content[size - 1 : end])
            has_letter = has_letter | is_letter[size - 1 : end]
            selected.append(has_letter & tf.equal(rows[size - 1 : end], rows[:total]))
        # All sizes at once, since the time of a small batch is that of the number of operations.
        places = tf.where(tf.stack(selected))
        buckets = tf.gather_nd(self._buckets(tf.stack(codes[1:])), places)
        owners = tf.gather(rows, places[:, 1])
        sums = tf.math.unsorted_segment_sum(tf.gather(self.weights, buckets), owners, num_rows)
        num_ngrams = tf.math.unsorted_segment_sum(tf.ones_like(owners), owners, num_rows)
        counts = tf.cast(tf.maximum(num_ngrams, 1), tf.float32)
        return tf.cast(sums, tf.float32) * (self._scale / counts)[:, tf.newaxis], num_ngrams

    def _buckets(self, codes: tf.Tensor) -> tf.Tensor:
        """Hashes n-grams as `ngrams` does.

        Args:
            codes: `(sizes, bytes)` int64, the n-grams of each size that begin at each byte.
        """
        right_shift, bitwise_and = tf.bitwise.right_shift, tf.bitwise.bitwise_and
        mixed = bitwise_and(codes * tf.constant(FACTORS, tf.int64)[:, tf.newaxis], BITS_32)
        mixed = tf.bitwise.bitwise_xor(mixed, right_shift(mixed, MIX_SHIFT))
        mixed = bitwise_and(mixed * MIXER, BITS_32)
        num_bits = self.weights.shape[0].bit_length() - 1
        return right_shift(mixed, 32 - num_bits)

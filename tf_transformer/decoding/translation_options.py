"""The options of a translation, for each sentence of a batch."""

from typing import Any, NamedTuple

import tensorflow as tf

from tf_transformer.decoding.search_options import SEARCH_OPTIONS


class TranslationOptions(NamedTuple):
    """Per-sentence options of a batch, `(batch,)` tensors, in the order of `SEARCH_OPTIONS`.

    Attributes:
        beam_size: int32, up to the beam size of the search; 0 means the beam size of the search.
        length_penalty: float32, alpha of `search_interface.length_penalty`; a negative value means
            the length penalty of the search.
        max_length: int32, maximum number of tokens of the translation; 0 means the limit that
            follows from the source, see `TranslationSearch`.
        min_length: int32, minimum number of tokens.
        no_repeat_ngram: int32, size n; no n-gram of this size occurs twice; 0 allows all.
        coverage_penalty: float32, beta of Wu et al., 2016, equation 14; 0 means none.
    """

    beam_size: Any
    length_penalty: Any
    max_length: Any
    min_length: Any
    no_repeat_ngram: Any
    coverage_penalty: Any

    @classmethod
    def defaults(cls, rows: tf.Tensor | int) -> "TranslationOptions":
        """Returns the defaults for `rows` sentences."""
        return cls(
            *(tf.fill([rows], tf.constant(o.unset, tf.as_dtype(o.dtype))) for o in SEARCH_OPTIONS)
        )

    def without_history(self) -> tf.Tensor:
        """Returns whether no option depends on all tokens of the output so far, a bool.

        Those that do are `no_repeat_ngram` and `coverage_penalty`.
        """
        return tf.reduce_all((self.no_repeat_ngram == 0) & (self.coverage_penalty == 0))

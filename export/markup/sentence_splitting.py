"""Splits texts into sentences with the boundaries of `tf_transformer.documents`."""

import itertools
from collections.abc import Iterable

import tensorflow as tf

from export.markup.segment_text import Split
from tf_transformer.documents.abbreviations import LANGUAGES
from tf_transformer.documents.sentence_boundaries import split_sentences


def sentence_splitter(languages: Iterable[str] = LANGUAGES) -> Split:
    """Returns a function that splits a text into sentences, for `MarkupTranslator`.

    Args:
        languages: codes of languages whose abbreviations end no sentence; the default is all that
            have a list.

    Raises:
        InputError: a language is no code of a language.
    """
    codes = tuple(languages)
    find_starts = tf.function(
        lambda texts: split_sentences(texts, codes).start.flat_values,
        input_signature=[tf.TensorSpec([None], tf.string)],
        autograph=False,
    ).get_concrete_function()

    def split(text: str) -> list[str]:
        starts = find_starts(tf.constant([text])).numpy().tolist()
        return [text[start:end] for start, end in itertools.pairwise([0, *starts[1:], len(text)])]

    return split

"""The terms of the sentences of a text, also of sentences in capitals, as part of a graph."""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from tf_transformer.terms.entries import Entries, hashed_words, occur
from tf_transformer.terms.limits import MAX_SOURCE_WORDS


class SentenceTerms(NamedTuple):
    """The entries that apply to sentences, `(sentences,)` each.

    Attributes:
        terms: strings, the input `terms` of each sentence: the target phrases of the entries that
            apply to it, with empty source phrases, so that they always do.
        has_source: bool, whether one of them has a source phrase.
    """

    terms: tf.Tensor
    has_source: tf.Tensor


def terms_of_sentences(
    entries: Entries, rows: tf.Tensor, forms: Sequence[tf.Tensor], any_case: tf.Tensor
) -> SentenceTerms:
    """Finds the entries that apply to sentences, one sentence after the other, to limit the memory.

    Args:
        entries: those of the texts.
        rows: `(sentences,)` integers, the text of each sentence.
        forms: `(sentences,)` strings each, ways to write the sentences; an entry applies if it
            applies to one of them.
        any_case: `(sentences,)` bool, whether case does not count for a sentence.
    """
    folded = tf.where(any_case, tf.strings.lower(forms[0], "utf-8"), "")
    sentences = [hashed_words(form)[:, :MAX_SOURCE_WORDS] for form in (*forms, folded)]
    phrases = hashed_words(entries.source)
    folded_phrases = hashed_words(tf.strings.lower(entries.source, "utf-8"))
    starts = tf.searchsorted(entries.row, tf.range(tf.size(entries.num_ignored) + 1))

    def find(index):
        begin, end = starts[rows[index]], starts[rows[index] + 1]
        as_written = phrases[begin:end].to_tensor(-1)
        in_lower_case = folded_phrases[begin:end].to_tensor(-1)
        applies = tf.fill([end - begin], False)
        for words in sentences[:-1]:
            applies |= occur(words[index][tf.newaxis], as_written)
        applies |= occur(sentences[-1][index][tf.newaxis], in_lower_case)
        found = tf.boolean_mask(entries.target[begin:end], applies)
        lines = tf.strings.reduce_join(tf.strings.join(["\t", found]), separator="\n")
        return lines, tf.reduce_any(applies & (phrases[begin:end].row_lengths() > 0))

    signature = (tf.TensorSpec([], tf.string), tf.TensorSpec([], tf.bool))
    return SentenceTerms(*tf.map_fn(find, tf.range(tf.size(rows)), fn_output_signature=signature))

"""The terms of the sentences of a text, also of sentences in capitals, as part of a graph."""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf
import tensorflow_text as tf_text

from tf_transformer.terms.entries import Entries, hashed_words, occur
from tf_transformer.terms.limits import MAX_PHRASES, MAX_SOURCE_WORDS


class SentenceTerms(NamedTuple):
    """The entries that apply to sentences, `(sentences,)` each.

    Attributes:
        terms: strings, the input `terms` of each sentence: the first `MAX_PHRASES` distinct target
            phrases of the entries that apply to it, with empty source phrases, so that they always
            do.
        has_source: bool, whether one of them has a source phrase.
        num_ignored: int32, number of the other target phrases.
    """

    terms: tf.Tensor
    has_source: tf.Tensor
    num_ignored: tf.Tensor


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
    folded = tf.where(any_case, tf_text.case_fold_utf8(forms[0]), "")
    sentences = [hashed_words(form)[:, :MAX_SOURCE_WORDS] for form in (*forms, folded)]
    phrases = hashed_words(entries.source)
    folded_phrases = hashed_words(tf_text.case_fold_utf8(entries.source))
    starts = tf.searchsorted(entries.row, tf.range(tf.size(entries.num_ignored) + 1))

    def find(index):
        begin, end = starts[rows[index]], starts[rows[index] + 1]
        as_written = phrases[begin:end].to_tensor(-1)
        in_any_case = folded_phrases[begin:end].to_tensor(-1)
        applies = tf.fill([end - begin], False)
        for words in sentences[:-1]:
            applies |= occur(words[index][tf.newaxis], as_written)
        applies |= occur(sentences[-1][index][tf.newaxis], in_any_case)
        found, _ = tf.unique(tf.boolean_mask(entries.target[begin:end], applies))
        kept = found[:MAX_PHRASES]
        lines = tf.strings.reduce_join(tf.strings.join(["\t", kept]), separator="\n")
        has_source = tf.reduce_any(applies & (phrases[begin:end].row_lengths() > 0))
        return lines, has_source, tf.size(found) - tf.size(kept)

    signature = tuple(tf.TensorSpec([], dtype) for dtype in (tf.string, tf.bool, tf.int32))
    return SentenceTerms(*tf.map_fn(find, tf.range(tf.size(rows)), fn_output_signature=signature))

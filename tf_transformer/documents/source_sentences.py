"""Sentences as a model shall read them: in sentence case, with the terms that apply to each."""

from typing import NamedTuple

import tensorflow as tf

from tf_transformer.documents.capital_spans import restore_spans
from tf_transformer.documents.capitals import (
    Capitals,
    find_capitals,
    restore_capitals,
    sentence_case,
)
from tf_transformer.inference.translator import Translator
from tf_transformer.terms.entries import parse_entries, searched_part
from tf_transformer.terms.limits import MAX_TEXT_ENTRIES
from tf_transformer.terms.sentence_terms import terms_of_sentences
from tf_transformer.terms.spans import has_lettered_span, is_translatable
from tf_transformer.text.language_tags import language_tag


class Phrases(NamedTuple):
    """What translations of texts must contain, `(texts,)` each, see `TermTranslator`.

    Attributes:
        terms: strings, lines `source phrase<TAB>target phrase`, for each sentence in which the
            first occurs; at most `MAX_TEXT_ENTRIES` of a text.
        protect: int32, kinds of spans to copy unchanged.
    """

    terms: tf.Tensor
    protect: tf.Tensor


class SourceSentences(NamedTuple):
    """What to translate.

    Attributes:
        text: `(sentences,)` strings, in sentence case, without tags.
        capitals: how they are capitalized, to restore it.
        is_translated: `(sentences,)` bool, whether they depend on the language; others are copied.
        terms: `(sentences,)` strings, the input `terms` of each sentence; None without phrases.
        protect: `(sentences,)` int32, the input `protect`; None without phrases.
        num_ignored: `(texts,)` int32, number of entries that were ignored in a text and its
            sentences; None without phrases.
    """

    text: tf.Tensor
    capitals: Capitals
    is_translated: tf.Tensor
    terms: tf.Tensor | None = None
    protect: tf.Tensor | None = None
    num_ignored: tf.Tensor | None = None


def split_tags(translator: Translator, texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the language tags at the start of texts, and the rest.

    Args:
        translator: what translates them.
        texts: `(texts,)` strings.
    """
    languages = translator.source_tokenizer.languages
    if not languages:
        return tf.zeros_like(texts), texts
    tags = "|".join(map(language_tag, languages))
    pattern = rf"\A(?: *(?:{tags}) *){{1,{translator.model.config.num_tags}}}"
    rests = tf.strings.regex_replace(texts, pattern, "", replace_global=False)
    lengths = tf.strings.length(texts) - tf.strings.length(rests)
    return tf.strings.substr(texts, tf.zeros_like(lengths), lengths), rests


def source_sentences(
    translator: Translator,
    sentences: tf.Tensor,
    restores: tf.Tensor,
    is_english: bool | tf.Tensor,
    phrases: Phrases | None = None,
    rows: tf.Tensor | None = None,
) -> SourceSentences:
    """Prepares sentences, as part of a graph.

    A term applies to a sentence in which it occurs as it is written or in sentence case; in one
    that is in capitals or a title as a whole, case does not count.

    Args:
        translator: what translates them.
        sentences: `(sentences,)` strings, without tags.
        restores: `(sentences,)` bool, whether capitals are restored. Those of a sentence with a
            protected span that has letters stay as they are, so that the span does.
        is_english: whether the sentences are English, for all or `(sentences,)` bool, see
            `sentence_case`.
        phrases: terms and protected spans of the texts; None means that there are none.
        rows: `(sentences,)` integers, the text of each sentence; needed for `phrases`.
    """
    protect = None
    if phrases is not None:
        protect = tf.gather(phrases.protect, rows)
        restores &= ~has_lettered_span(sentences, protect)
    capitals = find_capitals(sentences, restores)
    text = sentence_case(sentences, capitals, translator.source_tokenizer, is_english)
    is_translated = is_translatable(sentences, protect)
    if phrases is None:
        return SourceSentences(text, capitals, is_translated)
    entries = parse_entries(phrases.terms, MAX_TEXT_ENTRIES)
    found = terms_of_sentences(
        entries,
        rows,
        [searched_part(form, translator.source_limit) for form in (sentences, text)],
        capitals.is_upper | capitals.is_title,
    )
    is_translated |= found.has_source
    num_ignored = tf.where(is_translated, found.num_ignored, 0)
    num_ignored = tf.math.unsorted_segment_sum(num_ignored, rows, tf.size(phrases.protect))
    return SourceSentences(
        text,
        capitals,
        is_translated,
        tf.where(is_translated, found.terms, ""),
        tf.where(is_translated, protect, 0),
        entries.num_ignored + num_ignored,
    )


def restore_sentences(
    translator: Translator,
    source: tf.Tensor,
    translation: tf.Tensor,
    sentences: tf.Tensor,
    given: SourceSentences,
) -> tf.Tensor:
    """Returns translations with the capitals of the sentences, `(sentences,)` strings.

    Sentences that are not translated are copied.

    Args:
        translator: what translates them.
        source: `(sentences,)` strings, `given.text` with the tags that the model needs.
        translation: `(sentences,)` strings, the translations of `source`.
        sentences: `(sentences,)` strings, the sentences as they are written.
        given: the result of `source_sentences`.
    """
    text = restore_capitals(translation, given.capitals)
    text = restore_spans(translator, source, text, given.capitals.in_span)
    return tf.where(given.is_translated, text, sentences)

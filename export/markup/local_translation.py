"""Translations with alignments from a model in this process."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
import tqdm

from export.markup.aligned_translation import (
    AlignedTranslation,
    TranslateTexts,
    aligned_translation,
)
from tf_transformer.documents.capital_spans import restore_spans
from tf_transformer.documents.capitals import find_capitals, restore_capitals
from tf_transformer.documents.source_sentences import Phrases, source_sentences
from tf_transformer.inference.aligner import Aligner
from tf_transformer.inference.finite_scores import check_scores
from tf_transformer.inference.term_translator import TermTranslator
from tf_transformer.inference.translator import Translator
from tf_transformer.terms.entries import parse_entries
from tf_transformer.terms.glossary import Glossary
from tf_transformer.terms.limits import MAX_TEXT_ENTRIES
from tf_transformer.terms.sentence_terms import terms_of_sentences
from tf_transformer.terms.spans import is_translatable

_BATCH_SIZE = 256


def translate_by_model(
    translator: Translator,
    prepare: Callable[[str], str] = lambda text: text,
    *,
    glossary: Glossary | None = None,
    protect: int = 0,
    keep_capitals: bool = False,
    is_english: bool = False,
) -> TranslateTexts:
    """Returns a function that translates texts with a model, with a progress bar.

    Args:
        translator: the translator.
        prepare: adds language tags before a text.
        glossary: terms; None if there are none.
        protect: kinds of spans to copy unchanged, see `protection`.
        keep_capitals: whether texts in capitals are translated as they are; otherwise they are
            translated in sentence case, as by `DocumentTranslator`.
        is_english: whether the texts are English, see `sentence_case`.
    """
    aligner = Aligner(translator)
    glossary = glossary or Glossary(())
    constrained = TermTranslator(translator) if glossary or protect else None

    def align_in_graph(text, tags, terms, protect):
        """Returns alignments, and whether translations lack terms or protected spans."""
        restores = tf.fill(tf.shape(text), not keep_capitals)
        phrases = None if constrained is None else Phrases(terms, protect)
        rows = tf.range(tf.size(text))
        given = source_sentences(translator, text, restores, is_english, phrases, rows)
        source = tf.where(given.is_translated, tf.strings.join([tags, given.text]), "")
        if constrained is None:
            found, is_incomplete = aligner.align(source), tf.zeros_like(restores)
        else:
            translated = constrained.translate_in_graph(source, given.terms, given.protect)
            is_incomplete = translated.unmet != ""
            is_incomplete |= translated.num_ignored + given.num_ignored > 0
            found = aligner.align_pairs(source, translated.text)
            found = found._replace(scores=translated.scores)
        restored = restore_capitals(found.text, given.capitals)
        restored = restore_spans(translator, source, restored, given.capitals.in_span)
        return found._replace(text=tf.where(given.is_translated, restored, text)), is_incomplete

    strings, numbers = tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.int32)
    align = tf.function(
        align_in_graph, input_signature=[strings, strings, strings, numbers], autograph=False
    )

    def translate(texts: Sequence[str]) -> list[AlignedTranslation]:
        found: list[AlignedTranslation] = []
        with tqdm.tqdm(total=len(texts), unit=" texts", disable=None) as progress:
            # Long and short texts in turn would take longer than texts of similar lengths, which
            # the translator decodes together.
            for start in range(0, len(texts), _BATCH_SIZE):
                batch = list(texts[start : start + _BATCH_SIZE])
                tags = [prepare(text).removesuffix(text) for text in batch]
                terms = [glossary.entries_for(text, any_case=True) for text in batch]
                inputs = (tf.constant(x, tf.string) for x in (batch, tags, terms))
                rows, is_incomplete = align(*inputs, tf.fill([len(batch)], protect))
                check_scores(rows.scores.numpy())
                columns = (rows.text, rows.source_pieces, rows.target_pieces, rows.hard)
                values = ([x.decode() for x in column.numpy()] for column in columns)
                truncated = rows.truncated.numpy().tolist()
                for row, incomplete in zip(
                    map(aligned_translation, *values, truncated), is_incomplete.numpy(), strict=True
                ):
                    found.append(row._replace(incomplete=bool(incomplete)))
                progress.update(len(batch))
        return found

    return translate


def translatable_by_model(
    glossary: Glossary | None = None, protect: int = 0
) -> Callable[[Sequence[str]], list[bool]]:
    """Returns a function that tells which texts to translate, for a `MarkupTranslator`.

    These depend on the language, also without their protected spans, or a term with a source phrase
    applies to them, as in a `DocumentTranslator`.

    Args:
        glossary: terms; None if there are none.
        protect: kinds of spans to copy unchanged, see `protection`.
    """
    strings = tf.TensorSpec([None], tf.string)

    @tf.function(input_signature=[strings], autograph=False)
    def depend(text):
        return is_translatable(text, tf.fill(tf.shape(text), protect))

    @tf.function(input_signature=[strings, strings], autograph=False)
    def have_terms(text, terms):
        entries, rows = parse_entries(terms, MAX_TEXT_ENTRIES), tf.range(tf.size(text))
        capitals = find_capitals(text, tf.fill(tf.shape(text), True))
        any_case = capitals.is_upper | capitals.is_title
        return terms_of_sentences(entries, rows, [text], any_case).has_source

    def are_translatable(texts: Sequence[str]) -> list[bool]:
        flags = depend(tf.constant(texts, tf.string, [len(texts)])).numpy()
        others = np.flatnonzero(~flags).tolist()
        if glossary and others:
            rest = [texts[index] for index in others]
            terms = [glossary.entries_for(text, any_case=True) for text in rest]
            flags[others] = have_terms(*(tf.constant(x, tf.string) for x in (rest, terms))).numpy()
        return flags.tolist()

    return are_translatable

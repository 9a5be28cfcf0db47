"""Translation of documents: text of any length, with line breaks and several sentences."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import tensorflow as tf

from tf_transformer.argument_types import is_whole
from tf_transformer.decoding.translation_options import TranslationOptions
from tf_transformer.documents.abbreviations import LANGUAGES, check_languages
from tf_transformer.documents.joining import (
    join_chosen,
    join_sentences,
    join_spans,
    mean_of_chosen,
)
from tf_transformer.documents.sentence_boundaries import Sentences, split_sentences
from tf_transformer.documents.source_sentences import (
    Phrases,
    SourceSentences,
    restore_sentences,
    source_sentences,
    split_tags,
)
from tf_transformer.errors import InputError
from tf_transformer.inference.finite_scores import check_scores
from tf_transformer.inference.term_translator import TermTranslations, TermTranslator, row_tensors
from tf_transformer.inference.translator import Translation, Translator
from tf_transformer.known_names import name_options_of_load
from tf_transformer.printable import shown
from tf_transformer.text.texts import list_of_texts

MAX_SENTENCES, MAX_CHARACTERS = 1000, 200_000
_LARGEST = 2**24


class Documents(NamedTuple):
    """Translations of documents, `(batch,)` each.

    Attributes:
        text: UTF-8 strings; white space at the start, at the end and between sentences is that of
            the source, see `DocumentTranslator`.
        source_spans: strings, `start-end` of each sentence of the source that is not blank, in
            characters, separated by spaces. Characters are Unicode code points, as in Python.
        target_spans: strings, `start-end` of the translation of each of these sentences.
        sentence_scores: strings, the score of each of these sentences, see `Translations`; 0 for
            one that is copied.
        scores: float32, the mean of those that are translated; 0 without any.
        truncated: bool, whether the document has more than `max_sentences` sentences or
            `max_characters` characters, which were not translated, or a sentence was truncated to
            the model's limit.
        unmet: strings, one line for each phrase that the translation of a sentence lacks, see
            `TermTranslations`.
        num_ignored: int32, number of entries and spans that were ignored, see `terms.limits`.
    """

    text: tf.Tensor
    source_spans: tf.Tensor
    target_spans: tf.Tensor
    sentence_scores: tf.Tensor
    scores: tf.Tensor
    truncated: tf.Tensor
    unmet: tf.Tensor
    num_ignored: tf.Tensor


class DocumentTranslator(tf.Module):
    """Translates documents sentence by sentence, all sentences of a batch together.

        translator = DocumentTranslator(Translator.load("model"))
        translator(["A man sleeps. A dog runs."])

    Line breaks always end a sentence, see `split_sentences`. The white space between sentences is
    kept, with two exceptions: a space is inserted between the translations of sentences that had
    none between them, as in Chinese, and a single space is removed after a translation that ends
    with a full-width stop.

    What depends on no language, such as a line of signs or an address alone, is copied, unless a
    term with a source phrase applies to it.

    A document for a multilingual model starts with the tags that each of its sentences needs.

    Sentences and words in capitals are translated in sentence case, and their translations are
    written in capitals, see `find_capitals`; not those with a protected span that has letters. A
    sentence in capitals has terms in capitals, see `source_sentences`.

    Args:
        translator: translator of sentences, or of sentences with terms.
        languages: codes of languages whose abbreviations end no sentence; the default is all that
            have a list.
        max_sentences: maximum number of sentences of a document; the others are not translated.
        max_characters: maximum number of characters of a document that are translated.
        keep_capitals: whether sentences in capitals are translated as they are, as by a model that
            was trained on such text.

    Raises:
        InputError: an argument is out of range.
    """

    def __init__(
        self,
        translator: Translator | TermTranslator,
        languages: Iterable[str] = LANGUAGES,
        max_sentences: int = MAX_SENTENCES,
        max_characters: int = MAX_CHARACTERS,
        keep_capitals: bool = False,
    ):
        super().__init__(name="document_translator")
        for name, value in (("max_sentences", max_sentences), ("max_characters", max_characters)):
            if not is_whole(value) or not 1 <= value <= _LARGEST:
                raise InputError(
                    f"`{name}` must be an integer from 1 to {_LARGEST}. "
                    f"Received: {name}={shown(value)}"
                )
        self._constrained = None
        if isinstance(translator, TermTranslator):
            self._constrained, translator = translator, translator.translator
        self.translator = translator
        self._languages = check_languages(languages)
        self._max_sentences = max_sentences
        self._max_characters = max_characters
        self._keep_capitals = keep_capitals
        strings, numbers = tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.int32)
        self._function = tf.function(
            self.translate_in_graph, input_signature=[strings], autograph=False
        )
        self._constrained_function = tf.function(
            lambda documents, terms, protect: self.translate_in_graph(
                documents, phrases=Phrases(terms, protect)
            ),
            input_signature=[strings, strings, numbers],
            autograph=False,
        )

    @name_options_of_load
    def __call__(self, documents: Iterable[str | bytes]) -> list[str]:
        """Returns the translation of each document.

        Args:
            documents: strings, or their UTF-8 bytes.

        Raises:
            InputError: `documents` is no list of strings, a document lacks the language tags that
                the model needs, or a score is not finite.
        """
        documents = list_of_texts(documents, "documents")
        self.translator.check_tags(documents, "documents")
        return [translation.text for translation in self.translate_batch(documents)]

    def translate_batch(self, documents: Sequence[str | bytes]) -> list[Translation]:
        """Translates documents in one batch, without a check of their tags.

        Args:
            documents: strings, or their UTF-8 bytes.

        Raises:
            InputError: as for a call.
        """
        documents = list_of_texts(documents, "documents")
        found = self._function(tf.constant(documents, tf.string, shape=[len(documents)]))
        check_scores(found.scores)
        columns = (x.numpy().tolist() for x in (found.text, found.scores, found.truncated))
        return [
            Translation(text.decode(), score, truncated)
            for text, score, truncated in zip(*columns, strict=True)
        ]

    def translate_rows(self, rows: dict[str, list]) -> dict[str, list]:
        """Translates documents with terms in one batch, without a check of their tags.

        Args:
            rows: inputs of `TermTranslator.translate_rows`, with documents as `text`.

        Returns:
            Outputs of `TermTranslator.translate_rows`, without `terms_met`.

        Raises:
            InputError: a score is not finite, or there is no `TermTranslator`.
        """
        found = self._constrained_function(*row_tensors(rows))
        check_scores(found.scores)
        return {
            "translation": [x.decode() for x in found.text.numpy()],
            "score": found.scores.numpy().tolist(),
            "truncated": found.truncated.numpy().tolist(),
            "terms_unmet": [x.decode() for x in found.unmet.numpy()],
            "terms_ignored": found.num_ignored.numpy().tolist(),
        }

    def translate_in_graph(
        self,
        documents: tf.Tensor,
        options: TranslationOptions | None = None,
        keep_capitals: tf.Tensor | None = None,
        phrases: Phrases | None = None,
    ) -> Documents:
        """Translates documents, as part of a graph.

        Args:
            documents: `(batch,)` strings. Invalid UTF-8 is replaced by U+FFFD.
            options: per-document options; None means those of the translator.
            keep_capitals: `(batch,)` bool, that of each document; None means that of the
                constructor.
            phrases: terms and protected spans, for which the translator must be a
                `TermTranslator`; None means that there are none.

        Raises:
            InputError: there are `phrases`, but no `TermTranslator`.
        """
        documents = tf.strings.unicode_transcode(
            documents, "UTF-8", "UTF-8", replace_control_characters=False
        )
        given = tf.strings.substr(documents, 0, self._max_characters, unit="UTF8_CHAR")
        tags, bodies = split_tags(self.translator, given)
        sentences = split_sentences(bodies, self._languages)
        kept = Sentences(*(part[:, : self._max_sentences] for part in sentences))
        rows = kept.text.value_rowids()
        if options is not None:
            options = TranslationOptions(*(tf.gather(value, rows) for value in options))
        restores = tf.fill(tf.shape(rows), not self._keep_capitals)
        if keep_capitals is not None:
            restores = ~tf.gather(keep_capitals, rows)
        sources = source_sentences(
            self.translator,
            kept.text.flat_values,
            restores,
            self._languages == ("en",),
            phrases,
            rows,
        )
        found = self._translate_sentences(
            kept.text.flat_values, sources, tf.gather(tags, rows), options
        )
        texts, scores = found.text, found.scores
        is_cut = sentences.text.row_lengths() > self._max_sentences
        is_cut |= tf.strings.length(given) < tf.strings.length(documents)
        is_cut |= tf.reduce_any(kept.text.with_flat_values(found.truncated), axis=1)
        text, target_start = join_sentences(kept, kept.text.with_flat_values(texts))
        target_end = target_start + tf.strings.length(texts, unit="UTF8_CHAR")
        offset = tf.gather(tf.strings.length(tags, unit="UTF8_CHAR"), rows)
        is_real = kept.text != ""
        num_ignored = tf.reduce_sum(kept.text.with_flat_values(found.num_ignored), axis=1)
        if sources.num_ignored is not None:
            num_ignored += sources.num_ignored
        return Documents(
            text,
            join_spans(kept.start.flat_values + offset, kept.end.flat_values + offset, is_real),
            join_spans(target_start, target_end, is_real),
            join_chosen(tf.strings.as_string(scores, precision=6), is_real),
            mean_of_chosen(scores, kept.text.with_flat_values(sources.is_translated)),
            is_cut,
            join_chosen(found.unmet, kept.text.with_flat_values(found.unmet != ""), "\n"),
            num_ignored,
        )

    def _translate_sentences(self, sentences, sources: SourceSentences, tags, options):
        """Returns the translations of sentences, as `TermTranslations`."""
        source = tf.where(sources.is_translated, tf.strings.join([tags, sources.text]), "")
        found = self._translate_sources(source, sources, options)
        text = restore_sentences(self.translator, source, found.text, sentences, sources)
        return found._replace(text=text)

    def _translate_sources(self, source, sources, options):
        if sources.terms is None:
            found = self.translator.translate_in_graph(source, options)
            none, zero = tf.zeros_like(source), tf.zeros_like(found.truncated, tf.int32)
            text, scores = found.text[:, 0], found.scores[:, 0]
            return TermTranslations(text, scores, found.truncated, none, none, zero)
        if self._constrained is None:
            raise InputError("`phrases` need a `TermTranslator`. Received: a `Translator`")
        return self._constrained.translate_in_graph(source, sources.terms, sources.protect, options)

"""Translation of strings with terms and protected spans, in one graph."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import tensorflow as tf

from tf_transformer.decoding.length_chunks import map_chunks
from tf_transformer.decoding.translation_options import TranslationOptions
from tf_transformer.inference.finite_scores import check_scores
from tf_transformer.inference.translator import Translator
from tf_transformer.known_names import name_options_of_load
from tf_transformer.terms.entries import applicable_phrases, parse_entries, searched_part
from tf_transformer.terms.glossary import Glossary, protection
from tf_transformer.terms.phrases import PhraseSpeller, merge_phrases
from tf_transformer.terms.spans import find_spans
from tf_transformer.terms.term_search import TermSearch
from tf_transformer.text.texts import list_of_texts
from tf_transformer.text.word_characters import PieceTables


class TermTranslations(NamedTuple):
    """Translations of a batch of sentences, `(batch,)` each.

    Attributes:
        text: UTF-8 strings.
        scores: float32, log-probability divided by the length penalty.
        truncated: bool, whether the source was truncated to the model's limit.
        met: strings, one line for each phrase that the translation contains.
        unmet: strings, one line for each phrase that it does not contain, or not as often as it
            should.
        num_ignored: int32, number of entries and spans that were ignored, see `terms.limits`.
    """

    text: tf.Tensor
    scores: tf.Tensor
    truncated: tf.Tensor
    met: tf.Tensor
    unmet: tf.Tensor
    num_ignored: tf.Tensor


class TermTranslation(NamedTuple):
    """One translation of one sentence, as Python values.

    Attributes:
        text: the translation.
        score: log-probability divided by the length penalty.
        truncated: whether the source was truncated to the model's limit.
        met: the phrases that the translation contains.
        unmet: the phrases that it does not contain, or not as often as it should.
        num_ignored: number of entries and spans that were ignored.
    """

    text: str
    score: float
    truncated: bool
    met: list[str]
    unmet: list[str]
    num_ignored: int


class TermTranslator(tf.Module):
    """Translates with the model and options of a `Translator`, and terms of each sentence.

        translator = TermTranslator(Translator.load("model"))
        translator(["The bank is closed."], terms=[("bank", "Ufer")], protect=["urls"])

    Args:
        translator: the translator.
    """

    def __init__(self, translator: Translator):
        super().__init__(name="term_translator")
        self.translator = translator
        self.search = TermSearch(translator.search, PieceTables.of(translator.target_tokenizer))
        self.speller = PhraseSpeller(translator.target_tokenizer, translator.search.end_ids)
        strings = tf.TensorSpec([None], tf.string)
        self._function = tf.function(
            lambda text, terms, protect: self.translate_in_graph(text, terms, protect),
            input_signature=[strings, strings, tf.TensorSpec([None], tf.int32)],
            autograph=False,
        )

    def translate_in_graph(
        self,
        text: tf.Tensor,
        terms: tf.Tensor,
        protect: tf.Tensor,
        options: TranslationOptions | None = None,
    ) -> TermTranslations:
        """Translates sentences, as part of a graph.

        Args:
            text: `(batch,)` strings.
            terms: `(batch,)` strings, lines `source phrase<TAB>target phrase`, see
                `parse_entries`.
            protect: `(batch,)` int32, kinds of spans to copy unchanged, see `find_spans`.
            options: per-sentence options; None means those of the translator.
        """
        translator = self.translator
        options = options or TranslationOptions.defaults(tf.size(text))
        source, lengths = translator.tokenize_source(text)
        rows = dict(source=source, text=text, terms=terms, protect=protect, options=options)
        specs = [
            tf.TensorSpec([], dtype)
            for dtype in (tf.string, tf.float32, tf.string, tf.string, tf.int32)
        ]
        translations, scores, met, unmet, num_ignored = map_chunks(
            self._translate_chunk, rows, lengths, translator.chunk_size, tuple(specs)
        )
        truncated = lengths > translator.source_limit
        return TermTranslations(translations, scores, truncated, met, unmet, num_ignored)

    @name_options_of_load
    def __call__(
        self,
        sentences: Iterable[str | bytes],
        *,
        terms: Iterable[tuple[str, str]] = (),
        protect: Sequence[str] = (),
    ) -> list[TermTranslation]:
        """Translates sentences.

        Args:
            sentences: strings, or their UTF-8 bytes.
            terms: pairs of a source phrase and a target phrase: wherever the first occurs in a
                sentence, its translation contains the second.
            protect: kinds of spans that are copied unchanged, some of `SPAN_BITS`.

        Raises:
            InputError: an argument is not valid, a sentence lacks the language tag that the model
                needs, or a score is not finite.
        """
        sentences = list_of_texts(sentences, "sentences")
        self.translator.check_tags(sentences, "sentences")
        glossary, bits = Glossary(terms), protection(protect)
        rows: dict[str, list] = {
            "text": sentences,
            "terms": [glossary.entries_for(sentence) for sentence in sentences],
            "protect": [bits] * len(sentences),
        }
        found = self.translate_rows(rows)
        columns = (found[name] for name in ("translation", "score", "truncated"))
        lists = (
            [x.split("\n") if x else [] for x in found[name]]
            for name in ("terms_met", "terms_unmet")
        )
        return list(map(TermTranslation, *columns, *lists, found["terms_ignored"]))

    def translate_rows(self, rows: dict[str, list]) -> dict[str, list]:
        """Returns the outputs of the signature `terms` as Python values.

        Args:
            rows: by name, the inputs `text`, `terms` and `protect`, see `translate_in_graph`.

        Raises:
            InputError: a score is not finite.
        """
        found = self._function(*row_tensors(rows))
        check_scores(found.scores)
        text, scores, truncated, met, unmet, num_ignored = (x.numpy().tolist() for x in found)
        return {
            "translation": [x.decode() for x in text],
            "score": scores,
            "truncated": truncated,
            "terms_met": [x.decode() for x in met],
            "terms_unmet": [x.decode() for x in unmet],
            "terms_ignored": num_ignored,
        }

    def _translate_chunk(self, rows):
        entries = parse_entries(rows["terms"])
        text = searched_part(rows["text"], self.translator.source_limit)
        wanted = merge_phrases(applicable_phrases(entries, text), find_spans(text, rows["protect"]))
        constraints, is_writable = self.speller.constraints(wanted)
        found, counts = self.search.run(rows["source"], constraints, rows["options"])
        texts = self.translator.target_tokenizer.detokenize(found.ids[:, 0])
        texts = tf.where(rows["source"].row_lengths() == 0, "", texts)
        is_met = is_writable & (counts >= wanted.count)
        return (
            texts,
            found.scores[:, 0],
            _lines(wanted.text, is_met),
            _lines(wanted.text, ~is_met & (wanted.text != "")),
            entries.num_ignored + wanted.num_ignored,
        )


def row_tensors(rows: dict[str, list]) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the inputs `text`, `terms` and `protect` as tensors, also without any rows."""
    shape = [len(rows["text"])]
    return (
        tf.constant(rows["text"], tf.string, shape),
        tf.constant(rows["terms"], tf.string, shape),
        tf.constant(rows["protect"], tf.int32, shape),
    )


def _lines(phrases: tf.Tensor, is_chosen: tf.Tensor) -> tf.Tensor:
    """Joins the chosen phrases of each row, one a line."""
    chosen = tf.ragged.boolean_mask(phrases, is_chosen)
    return tf.strings.reduce_join(chosen, axis=1, separator="\n")

"""Translations with alignments from a model in this process."""

from collections.abc import Callable, Sequence

import tensorflow as tf
import tqdm

from export.markup.aligned_translation import (
    AlignedTranslation,
    TranslateTexts,
    aligned_translation,
)
from tf_transformer.documents.capital_spans import restore_spans
from tf_transformer.documents.capitals import find_capitals, restore_capitals, sentence_case
from tf_transformer.inference.aligner import Aligner, Alignments
from tf_transformer.inference.finite_scores import check_scores
from tf_transformer.inference.translator import Translator

_BATCH_SIZE = 256


def translate_by_model(
    translator: Translator,
    prepare: Callable[[str], str] = lambda text: text,
    *,
    keep_capitals: bool = False,
    is_english: bool = False,
) -> TranslateTexts:
    """Returns a function that translates texts with a model, with a progress bar.

    Args:
        translator: the translator.
        prepare: adds language tags before a text.
        keep_capitals: whether texts in capitals are translated as they are; otherwise they are
            translated in sentence case, as by `DocumentTranslator`.
        is_english: whether the texts are English, see `sentence_case`.
    """
    aligner = Aligner(translator)

    def align_in_graph(tags: tf.Tensor, text: tf.Tensor) -> Alignments:
        capitals = find_capitals(text, tf.fill(tf.shape(text), not keep_capitals))
        source = sentence_case(text, capitals, translator.source_tokenizer, is_english)
        source = tf.strings.join([tags, source])
        found = aligner.align(source)
        restored = restore_capitals(found.text, capitals)
        restored = restore_spans(translator, source, restored, capitals.in_span)
        return found._replace(text=restored)

    strings = tf.TensorSpec([None], tf.string)
    align = tf.function(align_in_graph, input_signature=[strings, strings], autograph=False)

    def translate(texts: Sequence[str]) -> list[AlignedTranslation]:
        found: list[AlignedTranslation] = []
        with tqdm.tqdm(total=len(texts), unit=" texts", disable=None) as progress:
            # Long and short texts in turn would take longer than texts of similar lengths, which
            # the translator decodes together.
            for start in range(0, len(texts), _BATCH_SIZE):
                batch = list(texts[start : start + _BATCH_SIZE])
                tags = [prepare(text).removesuffix(text) for text in batch]
                rows = align(tf.constant(tags, tf.string), tf.constant(batch, tf.string))
                check_scores(rows.scores.numpy())
                columns = (rows.text, rows.source_pieces, rows.target_pieces, rows.hard)
                values = ([x.decode() for x in column.numpy()] for column in columns)
                truncated = rows.truncated.numpy().tolist()
                found += map(aligned_translation, *values, truncated)
                progress.update(len(batch))
        return found

    return translate

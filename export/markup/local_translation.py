"""Translations with alignments from a model in this process."""

from collections.abc import Callable, Sequence

import tensorflow as tf
import tqdm

from export.markup.aligned_translation import (
    AlignedTranslation,
    TranslateTexts,
    aligned_translation,
)
from tf_transformer.inference.aligner import Aligner
from tf_transformer.inference.finite_scores import check_scores
from tf_transformer.inference.translator import Translator

_BATCH_SIZE = 256


def translate_by_model(
    translator: Translator, prepare: Callable[[str], str] = lambda text: text
) -> TranslateTexts:
    """Returns a function that translates texts with a model, with a progress bar.

    Args:
        translator: the translator.
        prepare: adds language tags to a text.
    """
    aligner = Aligner(translator)
    align = tf.function(
        aligner.align, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False
    )

    def translate(texts: Sequence[str]) -> list[AlignedTranslation]:
        found: list[AlignedTranslation] = []
        with tqdm.tqdm(total=len(texts), unit=" texts", disable=None) as progress:
            # Long and short texts in turn would take longer than texts of similar lengths, which
            # the translator decodes together.
            for start in range(0, len(texts), _BATCH_SIZE):
                batch = [prepare(text) for text in texts[start : start + _BATCH_SIZE]]
                rows = align(tf.constant(batch, tf.string))
                check_scores(rows.scores.numpy())
                columns = (rows.text, rows.source_pieces, rows.target_pieces, rows.hard)
                strings = ([x.decode() for x in column.numpy()] for column in columns)
                truncated = rows.truncated.numpy().tolist()
                found += map(aligned_translation, *strings, truncated)
                progress.update(len(batch))
        return found

    return translate

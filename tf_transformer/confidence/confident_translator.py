"""Translation of strings with confidences, in one graph."""

from collections.abc import Iterable
from typing import NamedTuple

import tensorflow as tf

from tf_transformer.confidence.calibration import Calibration
from tf_transformer.confidence.word_confidences import translate_with_confidence
from tf_transformer.inference.finite_scores import check_scores
from tf_transformer.inference.translator import Translator
from tf_transformer.known_names import name_options_of_load
from tf_transformer.text.texts import list_of_texts


class ConfidentTranslation(NamedTuple):
    """A translation with confidences, as Python values; see `ConfidentTranslations`."""

    text: str
    score: float
    words: list[str]
    word_confidences: list[float]
    confidence: float
    truncated: bool


class ConfidentTranslator(tf.Module):
    """Translates with the model and options of a `Translator`, and judges each word.

        calibration = read_calibration(pathlib.Path("confidence.json"), weights_digest("model"))
        translator = ConfidentTranslator(Translator.load("model"), calibration)
        translator(["A man sleeps."])

    Args:
        translator: the translator.
        calibration: that of its model.
    """

    def __init__(self, translator: Translator, calibration: Calibration):
        super().__init__(name="confident_translator")
        self.translator = translator
        self._function = tf.function(
            lambda text: translate_with_confidence(translator, calibration, text),
            input_signature=[tf.TensorSpec([None], tf.string)],
            autograph=False,
        )

    @name_options_of_load
    def __call__(self, sentences: Iterable[str | bytes]) -> list[ConfidentTranslation]:
        """Translates sentences.

        Args:
            sentences: strings, or their UTF-8 bytes.

        Raises:
            InputError: an argument is not valid, a sentence lacks the language tag that the model
                needs, or a score is not finite.
        """
        sentences = list_of_texts(sentences, "sentences")
        self.translator.check_tags(sentences, "sentences")
        found = self.translate_rows({"text": sentences})
        found["words"] = [text.split(" ") if text else [] for text in found["words"]]
        found["word_confidences"] = [
            list(map(float, text.split(" "))) if text else [] for text in found["word_confidences"]
        ]
        return list(map(ConfidentTranslation, *found.values()))

    def translate_rows(self, rows: dict[str, list]) -> dict[str, list]:
        """Returns the outputs of the signature `confidence` as Python values.

        Args:
            rows: the input `text`.

        Raises:
            InputError: a score is not finite.
        """
        found = self._function(tf.constant(rows["text"], tf.string, [len(rows["text"])]))
        check_scores(found.scores)
        text, scores, words, of_words, means, truncated = (x.numpy().tolist() for x in found)
        return {
            "translation": [x.decode() for x in text],
            "score": scores,
            "words": [x.decode() for x in words],
            "word_confidences": [x.decode() for x in of_words],
            "confidence": means,
            "truncated": truncated,
        }

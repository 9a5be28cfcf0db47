"""Log-probabilities of candidates by other models: a reverse model and a language model."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tf_transformer.decoding.length_chunks import map_chunks
from tf_transformer.errors import InputError
from tf_transformer.inference.finite_scores import check_scores
from tf_transformer.inference.scorer import score_pairs
from tf_transformer.inference.translator import Translator
from tf_transformer.layers.masks import padding_mask
from tf_transformer.losses.label_smoothing import cross_entropy
from tf_transformer.models.base import DecoderModel
from tf_transformer.models.ensemble import Ensemble
from tf_transformer.models.language_model import LanguageModel
from tf_transformer.text.framing import end_and_pad, shift_right
from tf_transformer.text.tokenizer import Tokenizer

_CHUNK_SIZE = 128


class PairScorer:
    """Scores targets given their sources.

    Args:
        model: a translation model.
        source_tokenizer: its tokenizer of sources.
        target_tokenizer: its tokenizer of targets.
    """

    def __init__(
        self,
        model: DecoderModel | Ensemble,
        source_tokenizer: Tokenizer | None,
        target_tokenizer: Tokenizer,
    ):
        translator = Translator(model, source_tokenizer, target_tokenizer, chunk_size=_CHUNK_SIZE)
        strings = tf.TensorSpec([None], tf.string)
        self._score = tf.function(
            lambda source, target: score_pairs(translator, source, target).log_prob,
            input_signature=[strings, strings],
            autograph=False,
        )

    def __call__(self, sources: Sequence[str], targets: Sequence[str]) -> np.ndarray:
        """Returns log p(target, end | source) of each pair, `(pairs,)` float64.

        Sources and targets that exceed the model's limit are truncated.

        Raises:
            InputError: a score is not finite.
        """
        log_probs = self._score(*(_strings(texts) for texts in (sources, targets)))
        check_scores(log_probs)
        return log_probs.numpy().astype(np.float64)


class TextScorer:
    """Scores texts by a language model.

    Args:
        model: the language model.
        tokenizer: its tokenizer.

    Raises:
        InputError: the model is no language model.
    """

    def __init__(self, model: DecoderModel | Ensemble, tokenizer: Tokenizer):
        if not isinstance(model, LanguageModel):
            raise InputError(f"expected a language model. Received: a {type(model).__name__}")
        limit = model.config.max_length - 1

        def score_chunk(ids):
            labels = end_and_pad(ids)
            logits = model({"target": shift_right(labels)})
            losses = tf.where(padding_mask(labels), cross_entropy(labels, logits), 0.0)
            return -tf.reduce_sum(losses, axis=1)

        def score(text):
            ids = tokenizer.tokenize(text)[:, :limit]
            lengths = tf.cast(ids.row_lengths(), tf.int32)
            return map_chunks(score_chunk, ids, lengths, _CHUNK_SIZE, tf.TensorSpec([], tf.float32))

        self._score = tf.function(
            score, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False
        )

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Returns log p(text, end) of each text, `(texts,)` float64.

        Texts that exceed the model's limit are truncated.

        Raises:
            InputError: a score is not finite.
        """
        log_probs = self._score(_strings(texts))
        check_scores(log_probs)
        return log_probs.numpy().astype(np.float64)


def _strings(texts):
    return tf.constant(list(texts), tf.string, shape=[len(texts)])

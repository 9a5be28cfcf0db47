"""Attention weights of a model for one sentence, with the pieces of both axes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tf_transformer.errors import InputError
from tf_transformer.inference.finite_scores import check_scores
from tf_transformer.inference.translator import Translator
from tf_transformer.models.states import AttentionWeights
from tf_transformer.text.framing import append_end, prepend_begin
from tf_transformer.text.tokenizer import Tokenizer


class InspectedSentence(NamedTuple):
    """A sentence, its translation, and the attention weights.

    Attributes:
        source: the encoder's input, pieces that end with the end symbol.
        target: the decoder's input, pieces that start with the begin symbol, and after it the
            target's tag if the model has one.
        translation: text of the translation.
        truncated: whether the source was truncated to the model's limit.
        attention: one array per layer, without a batch axis: encoder `(num_heads, source, source)`,
            decoder `(num_heads, target, target)`, cross `(num_heads, target, source)`. Row t of the
            latter two belongs to the prediction of the piece after `target[t]`.
    """

    source: list[str]
    target: list[str]
    translation: str
    truncated: bool
    attention: AttentionWeights


def tokenize_sentence(translator: Translator, text: str) -> tuple[tf.RaggedTensor, bool]:
    """Tokenizes a sentence to look into.

    Args:
        translator: the translator.
        text: the sentence.

    Returns:
        Ragged ids `(1, (length))`, and whether they were truncated to the model's limit.

    Raises:
        InputError: the sentence is empty or lacks the language tag that the model needs.
    """
    translator.check_tags([text], "text")
    source, lengths = translator.tokenize_source(tf.constant([text]))
    if lengths[0] == 0:
        raise InputError(f"The sentence must contain words. Received: {text!r}")
    return source, bool(lengths[0] > translator.source_limit)


def inspect_attention(
    translator: Translator, text: str, target: Sequence[int] | None = None
) -> InspectedSentence:
    """Translates a sentence and returns all attention weights.

    Args:
        translator: the translator.
        text: the sentence.
        target: ids of its translation, without tags and end id, if they are known.

    Raises:
        InputError: as `tokenize_sentence`, or the score of the translation is not finite.
    """
    source, truncated = tokenize_sentence(translator, text)
    if target is not None:
        return _inspect(translator, source[0], tf.constant(target, tf.int32), truncated)
    found = translator.search.run(source)
    check_scores(found.scores[:, 0])
    ids = found.ids[0, 0, : int(found.lengths[0, 0])]
    return _inspect(translator, source[0], ids, truncated)


def inspect_pair(translator: Translator, source: str, target: str, limit: int) -> InspectedSentence:
    """Returns all attention weights of a source and a given translation.

    Args:
        translator: the translator, for its model and tokenizers.
        source: the source sentence.
        target: its translation.
        limit: maximum number of pieces of each sentence; the rest is left out.
    """
    limit = min(limit, translator.source_limit)
    tokenizers = (translator.source_tokenizer, translator.target_tokenizer)
    ids = [
        tokenizer.tokenize(tf.constant([text]))[0]
        for tokenizer, text in zip(tokenizers, (source, target), strict=True)
    ]
    truncated = max(map(len, ids)) > limit
    return _inspect(translator, ids[0][:limit], ids[1][:limit], truncated)


def _inspect(translator, source, target, truncated):
    num_tags = translator.model.config.num_target_tags
    source_ids = append_end(source[num_tags:]).numpy().tolist()
    tagged = tf.concat([source[:num_tags], target], axis=0)
    target_ids = prepend_begin(tagged[tf.newaxis])[0].numpy().tolist()
    inputs = {"source": np.array([source_ids]), "target": np.array([target_ids])}
    attention = translator.model.states(inputs).attention
    return InspectedSentence(
        source=_pieces(translator.source_tokenizer, source_ids),
        target=_pieces(translator.target_tokenizer, target_ids),
        translation=translator.target_tokenizer.detokenize(target[tf.newaxis])[0].numpy().decode(),
        truncated=truncated,
        attention=AttentionWeights(
            *([np.asarray(weights)[0] for weights in part] for part in attention)
        ),
    )


def _pieces(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    return [tokenizer.texts[token_id] for token_id in ids]

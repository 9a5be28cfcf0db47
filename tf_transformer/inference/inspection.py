"""Attention of a model on one sentence, with the pieces that stand on its axes."""

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
    """A sentence, its translation, and who attended to what.

    Attributes:
        source: pieces that the encoder saw, the end symbol last.
        target: pieces that the decoder saw, the begin symbol first.
        translation: as text.
        truncated: the source was longer than the model's limit and its end was cut off.
        attention: arrays without a batch axis: the encoder's `(num_heads, source, source)`, the
            decoder's `(num_heads, target, target)`, cross `(num_heads, target, source)`, one a
            layer. Row t of the latter two chose the piece after `target[t]`.
    """

    source: list[str]
    target: list[str]
    translation: str
    truncated: bool
    attention: AttentionWeights


def inspect_attention(translator: Translator, text: str) -> InspectedSentence:
    """Translates a sentence, then looks at all attention weights of source and translation.

    Raises:
        ValueError: there is nothing in the sentence; or as `check_scores`.
    """
    source = translator.source_tokenizer.tokenize(tf.constant([text]))
    truncated = bool(source.row_lengths()[0] > translator.source_limit)
    source = source[:, : translator.source_limit]
    if source.row_lengths()[0] == 0:
        raise InputError(f"No words to look at in {text!r}")
    found = translator.search.run(source)
    check_scores(found.scores[:, 0])
    target = found.ids[0, 0, : int(found.lengths[0, 0])]
    return _inspect(translator, source[0], target, truncated)


def inspect_pair(translator: Translator, source: str, target: str, limit: int) -> InspectedSentence:
    """Looks at all attention weights of a source and a given translation.

    Args:
        translator: holds model and tokenizers.
        source, target: the sentences.
        limit: most pieces of each that are looked at, of those that the model takes.
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
    source_ids = append_end(source).numpy().tolist()
    target_ids = prepend_begin(target[tf.newaxis])[0].numpy().tolist()
    inputs = {"source": np.array([source_ids]), "target": np.array([target_ids])}
    attention = translator.model.states(inputs).attention
    return InspectedSentence(
        source=_pieces(translator.source_tokenizer, source_ids),
        target=_pieces(translator.target_tokenizer, target_ids),
        translation=translator.target_tokenizer.detokenize(tf.constant([target_ids]))[0]
        .numpy()
        .decode(),
        truncated=truncated,
        attention=AttentionWeights(
            *([np.asarray(weights)[0] for weights in part] for part in attention)
        ),
    )


def _pieces(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    return [tokenizer.pieces[number] for number in ids]

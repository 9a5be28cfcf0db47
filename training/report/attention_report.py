"""The page of a model at work on sentences: attention weights, and the beam search step by step."""

import base64
import datetime
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tf_transformer.config import TransformerConfig
from tf_transformer.errors import InputError
from tf_transformer.inference.inspection import (
    InspectedSentence,
    inspect_attention,
    tokenize_sentence,
)
from tf_transformer.inference.translator import Translator
from tf_transformer.text.special_ids import END_ID
from training.plots.attention_maps import PARTS
from training.plots.recorded_search import SearchTree, record_search
from training.report.html_page import render
from training.report.search_steps import search_data

# Attention weights of a page, a byte each before they are compressed.
MAX_WEIGHTS = 30_000_000
# The steps of a weight between 0 and 1.
LEVELS = 255
# Higher levels take up to 50 times as long, and save a tenth.
_COMPRESSION = 4
_TITLES = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "cross-attention",
}
_MEANINGS = {
    "encoder": "Each source token (left) attends to the source tokens (top).",
    "decoder": "Each input token of the decoder (left), with which it predicts the next token, "
    "attends to itself and to earlier ones (top).",
    "cross": "Each input token of the decoder (left), with which it predicts the next token, "
    "attends to the source tokens (top).",
}


class ExplainedSentence(NamedTuple):
    """A sentence and how a model translated it.

    Attributes:
        text: the sentence.
        inspected: its tokens, its best translation, and the attention weights.
        search: the search that found it.
        translations: texts of the finished hypotheses, best first.
    """

    text: str
    inspected: InspectedSentence
    search: SearchTree
    translations: list[str]


def explain(translator: Translator, texts: Sequence[str]) -> list[ExplainedSentence]:
    """Translates sentences, and records the searches and the attention weights.

    Args:
        translator: the translator.
        texts: the sentences.

    Raises:
        InputError: as `record_search`; or the attention weights are more than `MAX_WEIGHTS`.
    """
    config = translator.model.config
    sentences = []
    total = 0
    for text in texts:
        source, _ = tokenize_sentence(translator, text)
        search = record_search(translator, text)
        found = [ids[search.num_tags :] for ids in search.finished]
        total += num_weights(
            config,
            source_length=int(source.row_lengths()[0]) - config.num_target_tags + 1,
            target_length=len(found[0]) + config.num_target_tags + 1,
        )
        if total > MAX_WEIGHTS:
            raise InputError(
                f"A page holds at most {MAX_WEIGHTS:,} attention weights. Received sentences with "
                f"{total:,}. Give shorter sentences, or fewer, or draw a picture of one part"
            )
        inspected = inspect_attention(translator, text, found[0])
        translations = [
            translator.target_tokenizer.detokenize(tf.constant([ids], tf.int32))[0].numpy().decode()
            for ids in found
        ]
        sentences.append(ExplainedSentence(text, inspected, search, translations))
    return sentences


def num_weights(config: TransformerConfig, source_length: int, target_length: int) -> int:
    """Returns the number of attention weights of a pair of sentences.

    Args:
        config: settings of the model.
        source_length: number of tokens of the encoder's input.
        target_length: number of tokens of the decoder's input.
    """
    encoder, decoder = config.side("encoder"), config.side("decoder")
    has_self_attention = config.decoder_autoregression == "self_attention"
    return (
        config.num_encoder_layers * encoder.num_heads * source_length**2
        + config.num_decoder_layers * decoder.num_heads * target_length**2 * has_self_attention
        + config.num_decoder_layers * decoder.cross_num_heads * target_length * source_length
    )


def attention_page(
    sentences: Sequence[ExplainedSentence],
    *,
    beam_size: int,
    length_penalty: float,
    part: str = "cross",
    facts: Sequence[str] = (),
) -> str:
    """Returns the page.

    Args:
        sentences: the results of `explain`.
        beam_size: width of the beam.
        length_penalty: alpha of the length penalty.
        part: the part of the attention that is shown first, if the model has it.
        facts: what to say about the model.
    """
    attention = sentences[0].inspected.attention
    parts = [
        {
            "name": name,
            "title": _TITLES[name],
            "meaning": _MEANINGS[name],
            "sides": sides,
            "isThere": bool(getattr(attention, name)),
        }
        for name, sides in PARTS.items()
    ]
    shape = ", ".join(
        f"{_TITLES[name]}: {_layers_and_heads(layers)}"
        for name in PARTS
        if (layers := getattr(attention, name))
    )
    return render(
        "attention.html",
        ["texts.js", "attention.js", "search.js", "inspected.js"],
        {
            "levels": LEVELS,
            "part": part,
            "parts": parts,
            "sentences": [_sentence_data(sentence, beam_size) for sentence in sentences],
        },
        ["report.css", "attention.css"],
        title="Attention and beam search",
        facts=[*facts, shape, datetime.date.today().isoformat()],
        sections=[
            ("sentence-heading", "Sentence"),
            ("attention", "Attention"),
            ("search", "Search"),
        ],
        num_sentences=len(sentences),
        is_recurrent=not attention.decoder,
        num_tags=sentences[0].search.num_tags,
        beam_size=beam_size,
        length_penalty=length_penalty,
    )


def _layers_and_heads(layers):
    heads = sorted({len(layer) for layer in layers})
    return f"{len(layers)} \N{MULTIPLICATION SIGN} {'/'.join(map(str, heads))} heads"


def _sentence_data(sentence, beam_size):
    inspected = sentence.inspected
    return {
        "text": sentence.text,
        "truncated": inspected.truncated,
        "source": inspected.source,
        "target": inspected.target,
        "next": [*inspected.target[1:], sentence.search.pieces[END_ID]],
        "weights": {
            name: pack_weights(layers)
            for name in PARTS
            if (layers := getattr(inspected.attention, name))
        },
        "search": search_data(sentence.search, beam_size),
        "translations": sentence.translations,
    }


def pack_weights(layers: Sequence[Any]) -> dict[str, Any]:
    """Returns the weights of a part for JSON.

    Args:
        layers: the weights of each layer, `(num_heads, rows, columns)`.

    Returns:
        `heads`, the number of each layer's heads, and `bytes`: all weights in `LEVELS` steps, one
        byte each, in row-major order, by zlib and in base64.
    """
    levels = [np.rint(np.asarray(layer, "float64") * LEVELS) for layer in layers]
    raw = b"".join(layer.astype(np.uint8).tobytes() for layer in levels)
    return {
        "heads": [len(layer) for layer in layers],
        "bytes": base64.b64encode(zlib.compress(raw, _COMPRESSION)).decode(),
    }

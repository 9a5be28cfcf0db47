"""Translation of strings by sampling."""

from typing import NamedTuple

import tensorflow as tf

from tf_transformer.decoding.ensemble_decoder import make_decoder
from tf_transformer.decoding.incremental_decoder import IncrementalDecoder
from tf_transformer.decoding.length_chunks import map_chunks
from tf_transformer.decoding.sampling import SamplingOptions, sample
from tf_transformer.inference.translator import Translator
from tf_transformer.text.framing import end_and_pad, split_tags
from tf_transformer.text.special_ids import BEGIN_ID, SUPPRESSED_IDS


class SampledTranslations(NamedTuple):
    """One sampled translation per sentence, `(batch,)` each.

    Attributes:
        text: UTF-8 strings.
        log_probs: float32, log p(text, end | source) in nats, see `Samples`.
        truncated: bool, see `Translations`.
    """

    text: tf.Tensor
    log_probs: tf.Tensor
    truncated: tf.Tensor


def sample_translations(
    translator: Translator, text: tf.Tensor, options: SamplingOptions
) -> SampledTranslations:
    """Draws one translation of each sentence.

    Args:
        translator: the translator, for its model, tokenizers and length limits.
        text: `(batch,)` strings.
        options: per-sentence options; a `max_length` of 0 means the translator's limit.
    """
    source, lengths = translator.tokenize_source(text)
    texts, log_probs = map_chunks(
        lambda rows: _sample_chunk(translator, *rows),
        (source, options),
        lengths,
        translator.chunk_size,
        (tf.TensorSpec([], tf.string), tf.TensorSpec([], tf.float32)),
    )
    return SampledTranslations(texts, log_probs, truncated=lengths > translator.source_limit)


def _sample_chunk(translator, source, options):
    """Draws a translation of each source."""
    num_tags = translator.model.config.num_target_tags
    tags, source = split_tags(source, num_tags)
    ids = end_and_pad(source)
    decoder = make_decoder(translator.model, IncrementalDecoder)
    mask, memory = translator.model.source_mask(ids), translator.model.encode(ids)
    is_empty = source.row_lengths() == 0
    state = decoder.start(tf.shape(ids)[0], memory, mask)
    max_length = translator.search.max_lengths(ids, options.max_length)
    found = sample(
        decoder,
        state,
        begin_id=BEGIN_ID,
        end_ids=translator.search.end_ids,
        options=options._replace(max_length=max_length),
        prefix=tags,
        suppressed_ids=SUPPRESSED_IDS,
    )
    texts = translator.target_tokenizer.detokenize(found.ids[:, num_tags:])
    return tf.where(is_empty, "", texts), tf.where(is_empty, 0.0, found.log_probs)

"""Strings in, strings out: tokenizer, model and search in one graph."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
import tqdm

from tf_transformer.chunks import map_chunks
from tf_transformer.decoding import (
    Hypotheses,
    SearchOptions,
    beam_search,
    check_search_arguments,
)
from tf_transformer.masks import PAD_ID, padding_mask
from tf_transformer.model import Transformer
from tf_transformer.step_decoder import DecodingState, StepDecoder
from tf_transformer.tokenizer import BEGIN_ID, END_ID, UNKNOWN_ID, Tokenizer


class Translations(NamedTuple):
    """Translations of a batch of sentences, best first.

    Attributes:
        text: `(batch, num_best)` UTF-8 strings.
        scores: `(batch, num_best)` float32, log-probability over length penalty.
        lengths: `(batch, num_best)` int32, tokens of each, the end not counted.
        truncated: `(batch,)` bool, True where the source was longer than the model's limit and its
            end was cut off.
    """

    text: tf.Tensor
    scores: tf.Tensor
    lengths: tf.Tensor
    truncated: tf.Tensor


class TranslationOptions(NamedTuple):
    """What each sentence of a batch may want for itself, `(batch,)` tensors.

    Attributes:
        beam_size: int32, up to the translator's; 0 stands for that.
        length_penalty: float32, alpha of the GNMT length penalty; a negative one stands for the
            translator's.
        max_length: int32, most tokens of the translation; 0 leaves it to the translator.
        min_length: int32, fewest tokens.
        no_repeat_ngram: int32, no n tokens occur twice; 0 allows all.
        coverage_penalty: float32, beta of Wu et al., 2016, equation 14; 0 switches it off.
    """

    beam_size: Any
    length_penalty: Any
    max_length: Any
    min_length: Any
    no_repeat_ngram: Any
    coverage_penalty: Any


class Translation(NamedTuple):
    """One translation of one sentence, for Python; the attributes are those of `Translations`."""

    text: str
    score: float
    truncated: bool


class Translator(tf.Module):
    """Translates strings with a `Transformer`.

    Every sentence is translated as if it were alone: sentences are sorted by length and translated
    in chunks, each with length limits of its own, and put back in order. An empty or blank sentence
    gives an empty translation with score 0. Pad, begin and unknown ids are never produced.

    Args:
        model: the model.
        source_tokenizer, target_tokenizer: of its two sides.
        beam_size: width of the beam; 1 is greedy search.
        num_best: translations of each sentence, at most `beam_size`.
        length_penalty: alpha of the GNMT length penalty.
        max_length_factor, max_length_constant: an output has at most
            `factor * source tokens + constant` tokens, and at most `model.config.max_length`.
        chunk_size: sentences decoded together.
        end_pieces: pieces that end an output like the end token does, without being part of it.

    Raises:
        ValueError: an argument is out of range.
    """

    def __init__(
        self,
        model: Transformer,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        *,
        beam_size: int = 4,
        num_best: int = 1,
        length_penalty: float = 0.6,
        max_length_factor: float = 1.5,
        max_length_constant: int = 20,
        chunk_size: int = 32,
        end_pieces: Sequence[str] = (),
    ):
        super().__init__(name="translator")
        if not isinstance(model, Transformer):
            raise ValueError(
                f"A {type(model).__name__} has no source to translate; complete text with it"
            )
        check_search_arguments(beam_size, num_best, length_penalty)
        for name, value, least in (
            ("max_length_factor", max_length_factor, 0),
            ("max_length_constant", max_length_constant, 0),
            ("chunk_size", chunk_size, 1),
        ):
            if not value >= least:
                raise ValueError(f"`{name}` must be at least {least}. Received: {name}={value}")
        self.model = model
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self.beam_size = beam_size
        self.num_best = num_best
        self.length_penalty = length_penalty
        self.max_length_factor = max_length_factor
        self.max_length_constant = max_length_constant
        self.chunk_size = chunk_size
        self._end_ids = target_tokenizer.end_ids(end_pieces)
        self._translate_function = tf.function(
            self._translate, input_signature=[tf.TensorSpec([None], tf.string)]
        )

    @property
    def source_limit(self) -> int:
        """Most source tokens that are translated, not counting the end token."""
        return self.model.config.max_length - 1

    def translate(self, text: tf.Tensor) -> Translations:
        """Translates sentences, `(batch,)` strings, in one call of a `tf.function`."""
        return self._translate_function(text)

    def _translate(self, text):
        return self.translate_in_graph(text)

    def translate_in_graph(
        self,
        text: tf.Tensor,
        options: TranslationOptions | None = None,
        prefix: tf.Tensor | None = None,
    ) -> Translations:
        """Translates sentences, as part of a graph.

        Args:
            text: `(batch,)` strings.
            options: of every sentence; None takes the translator's own.
            prefix: `(batch,)` strings that the translations begin with; they count neither for the
                score nor for the length penalty.
        """
        source, lengths = self.tokenize_source(text)
        rows = {"source": source, "options": () if options is None else options, "prefix": ()}
        if prefix is not None:
            rows["prefix"] = self.target_tokenizer.tokenize(prefix)[:, : self.source_limit]
        specs = [tf.TensorSpec([self.num_best], x) for x in (tf.string, tf.float32, tf.int32)]
        text, scores, counts = map_chunks(
            self._translate_chunk, rows, lengths, self.chunk_size, tuple(specs)
        )
        return Translations(text, scores, counts, truncated=lengths > self.source_limit)

    def tokenize_source(self, text: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Ids of the sentences, cut to the model's limit, and their lengths before, `(batch,)`."""
        source = self.source_tokenizer.tokenize(text)
        return source[:, : self.source_limit], tf.cast(source.row_lengths(), tf.int32)

    def translate_lines(
        self, lines: Sequence[str | bytes], batch_size: int = 256
    ) -> Iterator[list[Translation]]:
        """Translates any number of sentences, with a progress bar on standard error.

        Args:
            lines: the sentences.
            batch_size: how many are translated before the first of them is yielded.

        Yields:
            The `num_best` translations of each sentence, in the order of `lines`.
        """
        with tqdm.tqdm(total=len(lines), unit=" sentences", disable=None) as progress:
            for start in range(0, len(lines), batch_size):
                batch = lines[start : start + batch_size]
                found = self.translate(tf.constant(batch))
                parts = (found.text, found.scores, found.truncated)
                for texts, scores, truncated in zip(
                    *(part.numpy().tolist() for part in parts), strict=True
                ):
                    yield [
                        Translation(text.decode(), score, truncated)
                        for text, score in zip(texts, scores, strict=True)
                    ]
                progress.update(len(batch))

    def _translate_chunk(self, rows):
        """Texts, scores and lengths of a chunk, each `(rows, num_best)`."""
        source = rows["source"]
        found = self.search(source, rows["options"] or None, rows["prefix"])
        ids = tf.reshape(found.ids[:, : self.num_best], (-1, tf.shape(found.ids)[2]))
        texts = tf.reshape(self.target_tokenizer.detokenize(ids), (-1, self.num_best))
        empty = (source.row_lengths() == 0)[:, tf.newaxis]
        return (
            tf.where(empty, "", texts),
            tf.where(empty, 0.0, found.scores[:, : self.num_best]),
            tf.where(empty, 0, found.lengths[:, : self.num_best]),
        )

    def search(
        self,
        source: tf.RaggedTensor,
        options: TranslationOptions | None = None,
        prefix: tf.RaggedTensor | tuple = (),
    ) -> Hypotheses:
        """Searches the best target ids.

        Args:
            source: ragged ids `(batch, (length))` without special ids.
            options: of every sentence; None takes the translator's own.
            prefix: ragged ids `(batch, (length))` that every output begins with; `()` for none.

        Returns:
            Hypotheses with a beam of `beam_size`.
        """
        model, state, arguments = self.start_search(source, options, prefix)
        return beam_search(model, state, num_best=self.num_best, **arguments)

    def start_search(
        self,
        source: tf.RaggedTensor,
        options: TranslationOptions | None = None,
        prefix: tf.RaggedTensor | tuple = (),
    ) -> tuple[StepDecoder, DecodingState, dict[str, Any]]:
        """Encodes the source: what a search needs to begin.

        Args: as for `search`.

        Returns:
            The model, its state, and the other arguments of `beam_search`.
        """
        ids = end_and_pad(source)
        mask = padding_mask(ids)
        decoder = StepDecoder(self.model, self.beam_size)
        state = decoder.start(tf.shape(ids)[0], self.model.encode(ids), mask)
        arguments = dict(
            beam_size=self.beam_size,
            begin_id=BEGIN_ID,
            end_ids=self._end_ids,
            options=self._search_options(source, mask, options, prefix),
            suppressed_ids=(PAD_ID, UNKNOWN_ID, BEGIN_ID),
        )
        return decoder, state, arguments

    def _search_options(self, source, mask, options, prefix):
        lengths = tf.cast(source.row_lengths(), tf.int32)
        limits = tf.cast(lengths, tf.float32) * self.max_length_factor + self.max_length_constant
        max_length = tf.cast(limits, tf.int32)
        given = {}
        if options is not None:
            max_length = tf.where(options.max_length > 0, options.max_length, max_length)
            given = dict(
                beam_size=tf.where(
                    options.beam_size > 0,
                    tf.minimum(options.beam_size, self.beam_size),
                    self.beam_size,
                ),
                length_penalty=tf.where(
                    options.length_penalty >= 0, options.length_penalty, self.length_penalty
                ),
                no_repeat_ngram=options.no_repeat_ngram,
                coverage_penalty=tf.maximum(options.coverage_penalty, 0.0),
                source_mask=mask,
            )
        if not isinstance(prefix, tuple):
            prefix_lengths = tf.cast(prefix.row_lengths(), tf.int32)
            max_length = tf.maximum(max_length, prefix_lengths)
            # One column at least, of padding where no row has a prefix.
            given["prefix"] = tf.pad(prefix.to_tensor(PAD_ID), [[0, 0], [0, 1]])
        max_length = tf.minimum(max_length, self.model.config.max_length - 1)
        # An empty sentence is not worth a search.
        max_length = tf.where(lengths == 0, 0, max_length)
        if options is not None:
            given["min_length"] = tf.minimum(options.min_length, max_length)
        found = SearchOptions(max_length=max_length, length_penalty=self.length_penalty)
        return found._replace(**given)


def end_and_pad(source: tf.RaggedTensor) -> tf.Tensor:
    """Ragged ids `(batch, (length))` to ids `(batch, longest + 1)` with end ids, padded."""
    ends = tf.fill(tf.stack([source.nrows(), 1]), END_ID)
    return tf.concat([source, ends], axis=1).to_tensor(PAD_ID)

"""Strings in, strings out: tokenizer, model and search in one graph."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
import tqdm

from tf_transformer.decoding import (
    Hypotheses,
    StepFunction,
    beam_search,
    check_search_arguments,
    greedy_search,
    with_ends,
)
from tf_transformer.masks import PAD_ID, padding_mask
from tf_transformer.model import Transformer
from tf_transformer.tokenizer import BEGIN_ID, END_ID, UNKNOWN_ID, Tokenizer


class Translations(NamedTuple):
    """Translations of a batch of sentences, best first.

    Attributes:
        text: `(batch, num_best)` UTF-8 strings.
        scores: `(batch, num_best)` float32, log-probability over length penalty.
        truncated: `(batch,)` bool, True where the source was longer than the model's limit and its
            end was cut off.
    """

    text: tf.Tensor
    scores: tf.Tensor
    truncated: tf.Tensor


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
        source = self.source_tokenizer.tokenize(text)
        lengths = tf.cast(source.row_lengths(), tf.int32)
        order = tf.argsort(lengths, stable=True)
        num_chunks = (tf.size(lengths) + self.chunk_size - 1) // self.chunk_size
        source = tf.gather(source, order)[:, : self.source_limit]

        def translate_chunk(number, texts, scores):
            rows = source[number * self.chunk_size : (number + 1) * self.chunk_size]
            chunk_texts, chunk_scores = self._translate_chunk(rows)
            return number + 1, texts.write(number, chunk_texts), scores.write(number, chunk_scores)

        _, texts, scores = tf.while_loop(
            lambda number, *_: number < num_chunks,
            translate_chunk,
            (tf.constant(0), self._chunks(tf.string), self._chunks(tf.float32)),
            # One chunk at a time: together they would need the memory of all.
            parallel_iterations=1,
        )
        places = tf.argsort(order)
        return Translations(
            text=tf.gather(texts.concat(), places),
            scores=tf.gather(scores.concat(), places),
            truncated=lengths > self.source_limit,
        )

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
                for texts, scores, truncated in zip(
                    *(values.numpy().tolist() for values in found), strict=True
                ):
                    yield [
                        Translation(text.decode(), score, truncated)
                        for text, score in zip(texts, scores, strict=True)
                    ]
                progress.update(len(batch))

    def _chunks(self, dtype):
        return tf.TensorArray(
            dtype, 0, dynamic_size=True, element_shape=[None, self.num_best], infer_shape=False
        )

    def _translate_chunk(self, source):
        """Ragged ids `(rows, (length))` to texts and scores `(rows, num_best)`."""
        found = self.search(source)
        ids = tf.reshape(found.ids[:, : self.num_best], (-1, tf.shape(found.ids)[2]))
        texts = tf.reshape(self.target_tokenizer.detokenize(ids), (-1, self.num_best))
        empty = (source.row_lengths() == 0)[:, tf.newaxis]
        return (
            tf.where(empty, "", texts),
            tf.where(empty, 0.0, found.scores[:, : self.num_best]),
        )

    def search(self, source: tf.RaggedTensor) -> Hypotheses:
        """Searches the best target ids.

        Args:
            source: ragged ids `(batch, (length))` without special ids.

        Returns:
            Hypotheses with a beam of `beam_size`.
        """
        step_function, cache, arguments = self.start_search(source)
        if self.beam_size == 1:
            return greedy_search(step_function, cache, **arguments)
        return beam_search(
            step_function,
            cache,
            beam_size=self.beam_size,
            num_best=self.num_best,
            **arguments,
        )

    def start_search(self, source: tf.RaggedTensor) -> tuple[StepFunction, Any, dict[str, Any]]:
        """Encodes the source: what a search needs to begin.

        Args:
            source: as for `search`.

        Returns:
            The step function, the empty cache, and the other arguments of `greedy_search`.
        """
        lengths = tf.cast(source.row_lengths(), tf.int32)
        ends = tf.fill(tf.stack([source.nrows(), 1]), END_ID)
        ids = tf.concat([source, ends], axis=1).to_tensor(PAD_ID)
        memory = self.model.encode(ids)
        mask = padding_mask(ids)
        cache, projected_memory = self.model.start_decoding(memory, self.beam_size)
        limits = tf.cast(lengths, tf.float32) * self.max_length_factor + self.max_length_constant
        max_lengths = tf.minimum(tf.cast(limits, tf.int32), self.model.config.max_length - 1)
        arguments = dict(
            begin_id=BEGIN_ID,
            end_id=END_ID,
            # An empty sentence is not worth a search.
            max_lengths=tf.where(lengths == 0, 0, max_lengths),
            alpha=self.length_penalty,
            suppressed_ids=(PAD_ID, UNKNOWN_ID, BEGIN_ID),
        )

        def step_function(newest, cache):
            return self.model.decode_step(newest, cache, projected_memory, mask)

        return with_ends(step_function, self._end_ids), cache, arguments

"""Token ids in, token ids out: encoder and beam search in one graph."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tf_transformer.decoding.argument_types import is_number
from tf_transformer.decoding.beam_search import (
    Hypotheses,
    SearchOptions,
    beam_search,
    check_search_arguments,
)
from tf_transformer.decoding.incremental_decoder import DecodingState, IncrementalDecoder
from tf_transformer.decoding.length_chunks import map_chunks
from tf_transformer.decoding.search_options import (
    DEFAULT_BEAM_SIZE,
    DEFAULT_LENGTH_PENALTY,
    LARGEST_COVERAGE_PENALTY,
    LARGEST_LENGTH_PENALTY,
    SEARCH_OPTIONS,
)
from tf_transformer.errors import InputError
from tf_transformer.layers.masks import padding_mask
from tf_transformer.models.base import DecoderModel
from tf_transformer.models.transformer import Transformer
from tf_transformer.printable import shown
from tf_transformer.text.framing import end_and_pad
from tf_transformer.text.special_ids import BEGIN_ID, END_ID, PAD_ID, SUPPRESSED_IDS


class TranslationOptions(NamedTuple):
    """Per-sentence options of a batch, `(batch,)` tensors, in the order of `SEARCH_OPTIONS`.

    Attributes:
        beam_size: int32, up to that of the search; 0 stands for that.
        length_penalty: float32, alpha of the GNMT length penalty; a negative one stands for that of
            the search.
        max_length: int32, most tokens of the translation; 0 takes the limit of the search.
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

    @classmethod
    def defaults(cls, rows: tf.Tensor | int) -> "TranslationOptions":
        """The defaults for `rows` sentences."""
        return cls(
            *(tf.fill([rows], tf.constant(o.unset, tf.as_dtype(o.dtype))) for o in SEARCH_OPTIONS)
        )


class TranslationSearch(tf.Module):
    """Searches the translations of token ids with a `Transformer`.

    Args:
        model: the model.
        beam_size: width of the beam; 1 is greedy search.
        length_penalty: alpha of the GNMT length penalty.
        max_length_factor, max_length_constant: an output has at most
            `factor * source tokens + constant` tokens, and at most `model.config.max_length - 1`.
        end_ids: tokens that end an output.

    Raises:
        ValueError: an argument is out of range, or the model has no source.
    """

    def __init__(
        self,
        model: DecoderModel,
        *,
        beam_size: int = DEFAULT_BEAM_SIZE,
        length_penalty: float = DEFAULT_LENGTH_PENALTY,
        max_length_factor: float = 1.5,
        max_length_constant: int = 20,
        end_ids: Sequence[int] = (END_ID,),
    ):
        super().__init__(name="translation_search")
        if not isinstance(model, Transformer):
            raise InputError(
                f"A {type(model).__name__} has no source to translate; complete text with it"
            )
        check_search_arguments(beam_size, 1, length_penalty)
        for name, value in (
            ("max_length_factor", max_length_factor),
            ("max_length_constant", max_length_constant),
        ):
            if not is_number(value) or not value >= 0:
                raise InputError(f"`{name}` must be at least 0. Received: {name}={shown(value)}")
        self.model = model
        self.beam_size = beam_size
        self.length_penalty = length_penalty
        self.max_length_factor = max_length_factor
        self.max_length_constant = max_length_constant
        self.end_ids = tuple(end_ids)
        self._graphs: dict[str, Any] = {}

    @property
    def limit(self) -> int:
        """Most tokens of a source, or of an output, not counting the end."""
        return self.model.config.max_length - 1

    def run(
        self,
        source: tf.RaggedTensor,
        options: TranslationOptions | None = None,
        prefix: tf.RaggedTensor | None = None,
        num_best: int = 1,
    ) -> Hypotheses:
        """Searches the best outputs.

        Args:
            source: ragged ids `(batch, (length))` without special ids, none longer than `limit`.
            options: per-sentence options; None takes those of the search.
            prefix: ragged ids `(batch, (length))` that the outputs begin with; they count neither
                for the score nor for the length penalty.
            num_best: how many outputs of each sentence are wanted.

        Returns:
            Hypotheses with a beam of `beam_size`; no token and score 0 for an empty source.
        """
        if options is None and prefix is None:
            found = self._graph(False)(end_and_pad(source), tf.constant(num_best))
        else:
            rows = source.nrows(tf.int32)
            options = TranslationOptions.defaults(rows) if options is None else options
            dense = tf.zeros((rows, 0), tf.int32) if prefix is None else prefix.to_tensor(PAD_ID)
            # One column at least, of padding where no row has a prefix.
            dense = tf.pad(dense, [[0, 0], [0, 1]])
            found = self._graph(True)(end_and_pad(source), tf.constant(num_best), dense, *options)
        is_empty = (source.row_lengths() == 0)[:, tf.newaxis]
        return Hypotheses(
            found.ids,
            tf.where(is_empty, 0.0, found.scores),
            tf.where(is_empty, 0.0, found.log_probs),
            tf.where(is_empty, 0, found.lengths),
        )

    def _graph(self, with_options):
        """The search as one function, which all signatures of an export share."""
        key = "with_options" if with_options else "plain"
        if key not in self._graphs:
            ids = tf.TensorSpec([None, None], tf.int32)
            specs = [ids, tf.TensorSpec([], tf.int32)]
            if with_options:
                specs += [ids, *(tf.TensorSpec([None], o.dtype) for o in SEARCH_OPTIONS)]

            @tf.function(input_signature=specs, autograph=False)
            def run(ids, num_best, *given):
                prefix = given[0] if with_options else None
                options = TranslationOptions(*given[1:]) if with_options else None
                decoder, state, arguments = self.start(ids, options, prefix)
                return beam_search(decoder, state, num_best=num_best, **arguments)

            self._graphs[key] = run
        return self._graphs[key]

    def start(
        self,
        ids: tf.Tensor,
        options: TranslationOptions | None = None,
        prefix: tf.Tensor | None = None,
    ) -> tuple[IncrementalDecoder, DecodingState, dict[str, Any]]:
        """Encodes the source: what a search needs to begin.

        Args:
            ids: `(batch, length)`, of `end_and_pad`.
            options: as for `run`.
            prefix: `(batch, length)` ids padded with 0, of length 1 at least.

        Returns:
            The model, its state, and the other arguments of `beam_search`.
        """
        mask = padding_mask(ids)
        decoder = IncrementalDecoder(self.model, self.beam_size)
        state = decoder.start(tf.shape(ids)[0], self.model.encode(ids), mask)
        arguments = dict(
            beam_size=self.beam_size,
            begin_id=BEGIN_ID,
            end_ids=self.end_ids,
            options=self._search_options(mask, options, prefix),
            suppressed_ids=SUPPRESSED_IDS,
        )
        return decoder, state, arguments

    def max_lengths(
        self, mask: tf.Tensor, wanted: tf.Tensor | int = 0, least: tf.Tensor | int = 0
    ) -> tf.Tensor:
        """Most tokens of each output, `(batch,)` int32.

        Args:
            mask: `(batch, length)` bool, True at the source's tokens and its end.
            wanted: int32, of each sentence; 0 takes the limit of the search.
            least: int32, of each sentence, where there is room.
        """
        lengths = tf.math.count_nonzero(mask, axis=1, dtype=tf.int32) - 1
        limits = tf.cast(lengths, tf.float32) * self.max_length_factor + self.max_length_constant
        limits = tf.where(wanted > 0, wanted, tf.cast(limits, tf.int32))
        limits = tf.minimum(tf.maximum(limits, least), self.limit)
        # An empty sentence is not worth a search.
        return tf.where(lengths == 0, 0, limits)

    def _search_options(self, mask, options, prefix):
        if options is None:
            return SearchOptions(self.max_lengths(mask), self.length_penalty)
        least = tf.math.count_nonzero(prefix != PAD_ID, axis=1, dtype=tf.int32)
        max_length = self.max_lengths(mask, options.max_length, least)
        beam_size = tf.minimum(options.beam_size, self.beam_size)
        # NaN stands for absent.
        coverage = tf.where(options.coverage_penalty > 0, options.coverage_penalty, 0.0)
        return SearchOptions(
            max_length=max_length,
            length_penalty=tf.minimum(
                tf.where(options.length_penalty >= 0, options.length_penalty, self.length_penalty),
                LARGEST_LENGTH_PENALTY,
            ),
            beam_size=tf.where(beam_size > 0, beam_size, self.beam_size),
            min_length=tf.minimum(options.min_length, max_length),
            no_repeat_ngram=options.no_repeat_ngram,
            coverage_penalty=tf.minimum(coverage, LARGEST_COVERAGE_PENALTY),
            source_mask=mask,
            prefix=prefix,
        )

    def run_chunks(
        self, source: tf.RaggedTensor, options: TranslationOptions | None, chunk_size: int
    ) -> Hypotheses:
        """The best output of each of any number of sentences, see `map_chunks`.

        Args:
            source: ragged ids `(batch, (length))`.
            options: as for `run`.
            chunk_size: sentences searched together.

        Returns:
            ids `(batch, limit)`, whatever the batch, the others `(batch,)`.
        """

        def search_chunk(rows):
            found = self.run(rows["source"], rows["options"] or None)
            ids = found.ids[:, 0, : self.limit]
            ids = tf.pad(ids, [[0, 0], [0, self.limit - tf.shape(ids)[1]]])
            return Hypotheses(
                tf.ensure_shape(ids, (None, self.limit)), *(part[:, 0] for part in found[1:])
            )

        amount = tf.TensorSpec([], tf.float32)
        return map_chunks(
            search_chunk,
            {"source": source, "options": options or ()},
            tf.cast(source.row_lengths(), tf.int32),
            chunk_size,
            Hypotheses(
                tf.TensorSpec([self.limit], tf.int32), amount, amount, tf.TensorSpec([], tf.int32)
            ),
        )

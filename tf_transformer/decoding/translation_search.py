"""Translation of token ids: encoder and beam search in one graph."""

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from tf_transformer.argument_types import is_number
from tf_transformer.decoding.beam_search import beam_search
from tf_transformer.decoding.compiled.compiled_search import CompiledSearch
from tf_transformer.decoding.compiled.search_shapes import check_shapes
from tf_transformer.decoding.drafts.draft_decoder import DraftDecoder, has_draft_heads
from tf_transformer.decoding.drafts.draft_search import can_draft, draft_search
from tf_transformer.decoding.ensemble_decoder import make_decoder
from tf_transformer.decoding.incremental_decoder import IncrementalDecoder
from tf_transformer.decoding.length_chunks import map_chunks
from tf_transformer.decoding.logits_processing import IMPOSSIBLE
from tf_transformer.decoding.search_interface import (
    Hypotheses,
    SearchOptions,
    check_search_arguments,
)
from tf_transformer.decoding.search_options import (
    DEFAULT_BEAM_SIZE,
    DEFAULT_LENGTH_PENALTY,
    LARGEST_COVERAGE_PENALTY,
    LARGEST_LENGTH_PENALTY,
    SEARCH_OPTIONS,
)
from tf_transformer.decoding.translation_options import TranslationOptions
from tf_transformer.errors import InputError
from tf_transformer.layers.masks import padding_mask
from tf_transformer.models.base import DecoderModel
from tf_transformer.models.ensemble import Ensemble
from tf_transformer.models.row_adapters import row_choice, rows_adapted
from tf_transformer.models.transformer import Transformer
from tf_transformer.printable import shown
from tf_transformer.shortlists.candidates import Candidates, Shortlist
from tf_transformer.shortlists.table import ShortlistTable
from tf_transformer.text.framing import end_and_pad, split_tags
from tf_transformer.text.special_ids import (
    BEGIN_ID,
    END_ID,
    NUM_SPECIAL,
    PAD_ID,
    SUPPRESSED_IDS,
    UNKNOWN_ID,
)

# With these and sources of at most 2**20 tokens, the limit of an output fits into an int32.
_LARGEST_FACTOR, _LARGEST_CONSTANT = 1000, 2**20


class TranslationSearch(tf.Module):
    """Translates token ids with a `Transformer` or an `Ensemble`, and beam search.

    An output has at most `max_length_factor * source_length + max_length_constant` tokens, and at
    most `model.config.max_length - 1`.

    Args:
        model: the model to search with.
        beam_size: width of the beam; 1 is greedy search.
        length_penalty: alpha of `search_interface.length_penalty`.
        max_length_factor: factor of the source length in the limit of the output's length.
        max_length_constant: constant in the limit of the output's length.
        end_ids: tokens that end an output.
        compiled_shapes: batches up to these shapes, each a number of rows and a length of the
            sources, are searched by functions that XLA compiles, see `CompiledSearch`.
        shortlist: the target pieces to consider for each source piece; None considers all.

    Raises:
        InputError: an argument is out of range, the model has no encoder, or the shortlist belongs
            to a model with other vocabularies.
    """

    def __init__(
        self,
        model: DecoderModel | Ensemble,
        *,
        beam_size: int = DEFAULT_BEAM_SIZE,
        length_penalty: float = DEFAULT_LENGTH_PENALTY,
        max_length_factor: float = 1.5,
        max_length_constant: int = 20,
        end_ids: Sequence[int] = (END_ID,),
        compiled_shapes: Iterable[tuple[int, int]] = (),
        shortlist: ShortlistTable | None = None,
    ):
        super().__init__(name="translation_search")
        if not isinstance(model, Transformer | Ensemble):
            raise InputError(
                f"A {type(model).__name__} has no source to translate. Use it to complete text"
            )
        check_search_arguments(beam_size, 1, length_penalty)
        for name, value, largest in (
            ("max_length_factor", max_length_factor, _LARGEST_FACTOR),
            ("max_length_constant", max_length_constant, _LARGEST_CONSTANT),
        ):
            if not is_number(value) or not 0 <= value <= largest:
                raise InputError(
                    f"`{name}` must be at least 0 and at most {largest}. "
                    f"Received: {name}={shown(value)}"
                )
        self.model = model
        self.beam_size = beam_size
        self.length_penalty = length_penalty
        self.max_length_factor = max_length_factor
        self.max_length_constant = max_length_constant
        self.end_ids = tuple(end_ids)
        self._graphs: dict[str, Any] = {}
        self.shortlist: Shortlist | None = None
        if shortlist is not None:
            self.shortlist = Shortlist(
                shortlist,
                model.config.source_vocab_size or 0,
                model.config.target_vocab_size,
                self.end_ids,
                least=beam_size + NUM_SPECIAL,
            )
        self.compiled_shapes = check_shapes(compiled_shapes, model.config.max_length)
        if self.compiled_shapes and row_choice(model) is not None:
            raise InputError("`compiled_shapes`: XLA cannot compile a model with several adapters")
        self._compiled = None
        if self.compiled_shapes:
            limits = {shape: self._largest_output(shape.length) for shape in self.compiled_shapes}
            self._compiled = CompiledSearch(
                model, beam_size, self.end_ids, limits, self._search_options, self.shortlist
            )

    @property
    def limit(self) -> int:
        """Maximum number of tokens of a source or an output, without the end id."""
        return self.model.config.max_length - 1

    def run(
        self,
        source: tf.RaggedTensor,
        options: TranslationOptions | None = None,
        prefix: tf.RaggedTensor | None = None,
        num_best: int = 1,
        adapters: tf.Tensor | None = None,
    ) -> Hypotheses:
        """Searches the best outputs.

        Tags at the start of the source that belong to the target (see
        `TransformerConfig.language_tags`) are forced at the start of the outputs, and not returned.

        Args:
            source: ragged ids `(batch, (length))` without special ids, none longer than `limit`.
            options: per-sentence options; None means those of the search.
            prefix: ragged ids `(batch, (length))`, forced tokens at the start of the outputs;
                scores and length penalties leave them out.
            num_best: number of outputs to find exactly per sentence.
            adapters: `(batch,)` int32, the adapter of each sentence, see `RowChoice`; None means
                none.

        Returns:
            Hypotheses with a beam of `beam_size`; without tokens and with score 0 for an empty
            source.
        """
        num_tags = self.model.config.num_target_tags
        if num_tags:
            tags, source = split_tags(source, num_tags)
            prefix = tags if prefix is None else tf.concat([tags, prefix], axis=1)
        if options is None and prefix is None and adapters is None:
            found = self._graph(False)(end_and_pad(source), tf.constant(num_best))
        else:
            rows = source.nrows(tf.int32)
            options = TranslationOptions.defaults(rows) if options is None else options
            if prefix is None:
                prefix = tf.zeros((rows, 0), tf.int32)
            elif isinstance(prefix, tf.RaggedTensor):
                prefix = prefix.to_tensor(PAD_ID)
            # `start` needs at least one column, which may be padding.
            prefix = tf.pad(prefix, [[0, 0], [0, 1]])
            arguments = [end_and_pad(source), tf.constant(num_best), prefix, *options]
            if adapters is None:
                found = self._graph(True)(*arguments)
            else:
                found = self._graph(True, with_adapters=True)(*arguments, adapters)
        is_empty = (source.row_lengths() == 0)[:, tf.newaxis]
        return Hypotheses(
            found.ids[:, :, num_tags:],
            tf.where(is_empty, 0.0, found.scores),
            tf.where(is_empty, 0.0, found.log_probs),
            tf.where(is_empty, 0, tf.maximum(found.lengths - num_tags, 0)),
        )

    def _graph(self, with_options, with_adapters=False):
        """Returns the search as a `tf.function`, which all signatures of an export share."""
        key = "with_options" if with_options else "plain"
        key = "with_adapters" if with_adapters else key
        if key not in self._graphs:
            ids = tf.TensorSpec([None, None], tf.int32)
            specs = [ids, tf.TensorSpec([], tf.int32)]
            if with_options:
                specs += [ids, *(tf.TensorSpec([None], o.dtype) for o in SEARCH_OPTIONS)]
            if with_adapters:
                specs.append(tf.TensorSpec([None], tf.int32))

            @tf.function(input_signature=specs, autograph=False)
            def run(ids, num_best, *given):
                prefix = given[0] if with_options else None
                adapters = given[-1] if with_adapters else None
                end = len(SEARCH_OPTIONS) + 1
                options = TranslationOptions(*given[1:end]) if with_options else None
                candidates = None
                if self.shortlist is not None:
                    candidates = self.shortlist.find(ids, prefix)
                    if prefix is not None:
                        prefix = self.shortlist.indices(candidates, prefix)

                def search(memory, beam_size, with_drafts=False):
                    with rows_adapted(self.model, adapters):
                        decoder, state, arguments = self.start(
                            ids, options, prefix, candidates, beam_size, with_drafts, memory
                        )
                    if with_drafts:
                        found = draft_search(decoder, state, **arguments)
                    else:
                        found = beam_search(decoder, state, num_best=num_best, **arguments)
                    return _widen(found, self.beam_size)

                def greedy(memory):
                    if not has_draft_heads(self.model):
                        return search(memory, 1)
                    return tf.cond(
                        can_draft(ids, options),
                        lambda: search(memory, 1, with_drafts=True),
                        lambda: search(memory, 1),
                    )

                def ordinary():
                    with rows_adapted(self.model, adapters):
                        memory = self.model.encode(ids)
                    if self.beam_size == 1:
                        return greedy(memory)
                    if options is None:
                        return search(memory, self.beam_size)
                    return tf.cond(
                        tf.reduce_all(self.is_greedy(options)),
                        lambda: greedy(memory),
                        lambda: search(memory, self.beam_size),
                    )

                if self._compiled is None:
                    found = ordinary()
                else:
                    found = self._compiled.run(ids, num_best, options, prefix, candidates, ordinary)
                if candidates is None:
                    return found
                return found._replace(ids=tf.gather(candidates.ids, found.ids))

            self._graphs[key] = run
        return self._graphs[key]

    def start(
        self,
        ids: tf.Tensor,
        options: TranslationOptions | None = None,
        prefix: tf.Tensor | None = None,
        candidates: Candidates | None = None,
        beam_size: int | None = None,
        with_drafts: bool = False,
        memory: Any = None,
    ) -> tuple[Any, Any, dict[str, Any]]:
        """Encodes the source and returns the arguments of `beam_search`.

        Args:
            ids: `(batch, length)`, the result of `end_and_pad`.
            options: per-sentence options, as for `run`.
            prefix: `(batch, length)` ids padded with 0, with a length of at least 1; indices of
                candidates, if these are given.
            candidates: the target ids to consider; the search then finds indices of candidates.
            beam_size: width of the beam; None means that of the search.
            with_drafts: True returns the arguments of `draft_search`, for a beam of 1.
            memory: the encoded source, if it is known.

        Returns:
            The `StepModel` or `DraftDecoder`, its state, and the other arguments of the search.
        """
        mask = self.model.source_mask(ids)
        width = beam_size or self.beam_size
        search_options = self._search_options(ids, options, prefix)
        if with_drafts:
            longest = tf.reduce_max(search_options.max_length)
            decoder: Any = DraftDecoder(self.model, longest, candidates)
        else:
            decoder = make_decoder(
                self.model, lambda model: IncrementalDecoder(model, width, candidates)
            )
        end_ids = self.end_ids
        if candidates is not None and self.shortlist is not None:
            end_ids = self.shortlist.end_indices
        if memory is None:
            memory = self.model.encode(ids)
        state = decoder.start(tf.shape(ids)[0], memory, mask)
        arguments = dict(
            beam_size=width,
            begin_id=BEGIN_ID,
            end_ids=end_ids,
            options=search_options,
            suppressed_ids=SUPPRESSED_IDS,
        )
        return decoder, state, arguments

    def is_greedy(self, options: TranslationOptions) -> tf.Tensor:
        """Returns which rows ask for greedy search, `(batch,)` bool.

        A chunk of such rows alone is searched by `GreedySearch`.
        """
        return options.beam_size == 1

    def _largest_output(self, length):
        """Returns the largest `max_lengths` of a source, unless another one is requested."""
        ids = [[UNKNOWN_ID] * (length - 1) + [END_ID]]
        return int(self.max_lengths(tf.constant(ids))[0])

    def max_lengths(
        self, ids: tf.Tensor, requested: tf.Tensor | int = 0, minimum: tf.Tensor | int = 0
    ) -> tf.Tensor:
        """Computes the maximum number of tokens of each output, `(batch,)` int32.

        The target's tags come on top of what is requested or computed.

        Args:
            ids: `(batch, length)`, the result of `end_and_pad`.
            requested: `(batch,)` int32, limit per sentence; 0 computes it from the source length.
            minimum: `(batch,)` int32, smallest result per sentence, as far as `limit` allows.
        """
        lengths = tf.math.count_nonzero(padding_mask(ids), axis=1, dtype=tf.int32) - 1
        limits = tf.cast(lengths, tf.float32) * self.max_length_factor + self.max_length_constant
        limits = tf.where(requested > 0, requested, tf.cast(limits, tf.int32))
        limits += self.model.config.num_target_tags
        limits = tf.minimum(tf.maximum(limits, minimum), self.limit)
        # An empty source gets an empty output.
        return tf.where(lengths == 0, 0, limits)

    def _search_options(self, ids, options, prefix):
        if options is None:
            return SearchOptions(self.max_lengths(ids), self.length_penalty)
        prefix_lengths = tf.math.count_nonzero(prefix != PAD_ID, axis=1, dtype=tf.int32)
        max_length = self.max_lengths(ids, options.max_length, prefix_lengths)
        min_length = options.min_length + self.model.config.num_target_tags
        beam_size = tf.minimum(options.beam_size, self.beam_size)
        # NaN means no penalty.
        coverage = tf.where(options.coverage_penalty > 0, options.coverage_penalty, 0.0)
        return SearchOptions(
            max_length=max_length,
            length_penalty=tf.minimum(
                tf.where(options.length_penalty >= 0, options.length_penalty, self.length_penalty),
                LARGEST_LENGTH_PENALTY,
            ),
            beam_size=tf.where(beam_size > 0, beam_size, self.beam_size),
            min_length=tf.minimum(min_length, max_length),
            no_repeat_ngram=options.no_repeat_ngram,
            coverage_penalty=tf.minimum(coverage, LARGEST_COVERAGE_PENALTY),
            source_mask=self.model.source_mask(ids),
            prefix=prefix,
        )

    def run_chunks(
        self, source: tf.RaggedTensor, options: TranslationOptions | None, chunk_size: int
    ) -> Hypotheses:
        """Searches the best output of any number of sentences, chunk by chunk.

        Args:
            source: ragged ids `(batch, (length))`.
            options: per-sentence options, as for `run`.
            chunk_size: maximum number of sentences that are searched together.

        Returns:
            `Hypotheses` without the axis of the beam: ids `(batch, limit)`, the others `(batch,)`.
        """

        def search_chunk(rows):
            found = self.run(rows["source"], rows["options"] or None)
            ids = found.ids[:, 0, : self.limit]
            ids = tf.pad(ids, [[0, 0], [0, self.limit - tf.shape(ids)[1]]])
            return Hypotheses(
                tf.ensure_shape(ids, (None, self.limit)), *(part[:, 0] for part in found[1:])
            )

        scalar = tf.TensorSpec([], tf.float32)
        is_apart = None if options is None else self.is_greedy(options)
        return map_chunks(
            search_chunk,
            {"source": source, "options": options or ()},
            tf.cast(source.row_lengths(), tf.int32),
            chunk_size,
            Hypotheses(
                tf.TensorSpec([self.limit], tf.int32), scalar, scalar, tf.TensorSpec([], tf.int32)
            ),
            is_compiled=bool(self.compiled_shapes),
            is_apart=is_apart,
        )


def _widen(found, beam_size):
    """Adds hypotheses that are none to `Hypotheses`, up to a beam size."""
    missing = beam_size - found.scores.shape[1]
    if not missing:
        return found
    values = Hypotheses(PAD_ID, IMPOSSIBLE, IMPOSSIBLE, 0)
    return Hypotheses(
        *(
            tf.pad(part, [[0, 0], [0, missing], [0, 0]][: part.shape.rank], constant_values=value)
            for part, value in zip(found, values, strict=True)
        )
    )

"""Continuation of text by a language model: tokenizer, model and search in one graph."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import tensorflow as tf

from tf_transformer.argument_types import is_whole
from tf_transformer.decoding.beam_search import beam_search
from tf_transformer.decoding.compiled.compiled_search import pad_to
from tf_transformer.decoding.compiled.search_shapes import SearchShape
from tf_transformer.decoding.compiled.static_search import StaticDecoder, static_search
from tf_transformer.decoding.incremental_decoder import IncrementalDecoder
from tf_transformer.decoding.length_chunks import map_chunks, rows_of_chunk
from tf_transformer.decoding.search_interface import SearchOptions, check_search_arguments
from tf_transformer.decoding.search_options import (
    DEFAULT_BEAM_SIZE,
    DEFAULT_LENGTH_PENALTY,
    DEFAULT_MAX_TOKENS,
    LARGEST_LENGTH_PENALTY,
)
from tf_transformer.errors import InputError
from tf_transformer.models.language_model import LanguageModel
from tf_transformer.printable import shown
from tf_transformer.quantization.int8 import is_quantized
from tf_transformer.text.special_ids import BEGIN_ID, PAD_ID, SUPPRESSED_IDS
from tf_transformer.text.tokenizer import Tokenizer

# Tokens of prompt and continuation. The compiled search computes all of them for the attention of
# every step, so that it gains nothing for much longer ones.
_COMPILED_LENGTHS = (32, 64, 128, 256)


class ContinuationOptions(NamedTuple):
    """Per-row options of a batch, `(batch,)` tensors, in the order of `CONTINUATION_OPTIONS`.

    Attributes:
        beam_size: int32, up to the beam size of the continuer; 0 means that.
        length_penalty: float32, alpha of `search_interface.length_penalty`; a negative value means
            that of the continuer.
        max_tokens: int32, maximum number of tokens of the continuation; 0 means that of the
            continuer.
    """

    beam_size: Any
    length_penalty: Any
    max_tokens: Any


class Continuations(NamedTuple):
    """Texts with their continuations, `(batch,)` each.

    Attributes:
        text: UTF-8 strings.
        scores: float32, log-probability of the continuation and its end, divided by the length
            penalty.
        num_tokens: int32, number of tokens of the text that was given.
        truncated: bool, whether that text was truncated to the model's limit.
    """

    text: tf.Tensor
    scores: tf.Tensor
    num_tokens: tf.Tensor
    truncated: tf.Tensor


class Continuer(tf.Module):
    """Continues text with a `LanguageModel` and beam search.

    Texts are sorted by length, continued in chunks, and returned in the original order.

    Args:
        model: the language model.
        tokenizer: its tokenizer.
        beam_size: width of the beam; 1 is greedy search.
        length_penalty: alpha of `search_interface.length_penalty`, applied to the continuation.
        max_new_tokens: maximum number of tokens of a continuation.
        end_pieces: pieces that end a continuation as the end id does; the continuation does not
            contain them.
        chunk_size: number of texts that are continued together; None means `rows_of_chunk`.
        compiled_shapes: batches up to these shapes, each a number of rows and of tokens of the
            longest text with its continuation, are searched by functions that XLA compiles.

    Raises:
        InputError: an argument is out of range, or the model is no `LanguageModel`.
    """

    # A compiled search takes a third to a half of the time.
    rows_before_compiling = 100

    def __init__(
        self,
        model: LanguageModel,
        tokenizer: Tokenizer,
        *,
        beam_size: int = DEFAULT_BEAM_SIZE,
        length_penalty: float = DEFAULT_LENGTH_PENALTY,
        max_new_tokens: int = DEFAULT_MAX_TOKENS,
        end_pieces: Sequence[str] = (),
        chunk_size: int | None = None,
        compiled_shapes: Iterable[tuple[int, int]] = (),
    ):
        super().__init__(name="continuer")
        if not isinstance(model, LanguageModel):
            raise InputError(f"A {type(model).__name__} needs a source. Use it to translate text")
        check_search_arguments(beam_size, 1, length_penalty)
        if not is_whole(max_new_tokens) or max_new_tokens < 1:
            raise InputError(
                "`max_new_tokens` must be a positive integer. "
                f"Received: max_new_tokens={shown(max_new_tokens)}"
            )
        self.model = model
        self.tokenizer = tokenizer
        self.beam_size = beam_size
        self.length_penalty = length_penalty
        self.max_new_tokens = min(max_new_tokens, model.config.max_length)
        self.chunk_size = chunk_size or rows_of_chunk(model.config.side("decoder").d_model)
        self._end_ids = tuple(tokenizer.end_ids(end_pieces))
        shapes = [SearchShape(*shape) for shape in compiled_shapes]
        if shapes and is_quantized(model):
            raise InputError("`compiled_shapes`: XLA cannot compile a model in int8")
        self._compiled = [(shape, self._compile(shape)) for shape in sorted(shapes)]

    @property
    def tokenizers(self) -> list[Tokenizer]:
        """The only tokenizer."""
        return [self.tokenizer]

    @property
    def limit(self) -> int:
        """Maximum number of tokens of a text with its continuation, without the end id."""
        return self.model.config.max_length - 1

    def default_shapes(self, rows: int) -> list[SearchShape]:
        """Returns the shapes to compile the search of a number of rows for."""
        lengths = zip((0, *_COMPILED_LENGTHS), _COMPILED_LENGTHS, strict=False)
        return [SearchShape(rows, length) for before, length in lengths if before < self.limit]

    def continue_in_graph(self, text: tf.Tensor, options: ContinuationOptions) -> Continuations:
        """Continues texts, as part of a graph.

        Args:
            text: `(batch,)` strings.
            options: per-row options.
        """
        ids = self.tokenizer.tokenize(text)
        lengths = tf.cast(ids.row_lengths(), tf.int32)
        found, scores = map_chunks(
            lambda rows: self._continue_chunk(rows["prompt"], rows["options"]),
            {"prompt": ids[:, : self.limit], "options": options},
            lengths,
            self.chunk_size,
            (tf.TensorSpec([], tf.string), tf.TensorSpec([], tf.float32)),
        )
        return Continuations(found, scores, lengths, lengths > self.limit)

    def _continue_chunk(self, prompt, options):
        """Returns the texts and scores of ragged ids `(rows, (length))`."""
        lengths = tf.cast(prompt.row_lengths(), tf.int32)
        most = tf.where(options.max_tokens > 0, options.max_tokens, self.max_new_tokens)
        longest = tf.minimum(lengths + tf.minimum(most, self.limit), self.limit)
        alpha = tf.where(options.length_penalty >= 0, options.length_penalty, self.length_penalty)
        width = tf.where(options.beam_size > 0, options.beam_size, self.beam_size)
        # The search needs at least one column, which may be padding.
        prompt = tf.pad(prompt.to_tensor(PAD_ID), [[0, 0], [0, 1]])
        given = SearchOptions(
            max_length=longest,
            length_penalty=tf.minimum(alpha, LARGEST_LENGTH_PENALTY),
            beam_size=tf.minimum(width, self.beam_size),
            prefix=prompt,
        )
        ids, scores = self._search(given)
        # The prompt as it was given, also where it contains a piece that ends a continuation.
        ids = tf.pad(ids, [[0, 0], [0, tf.maximum(tf.shape(prompt)[1] - tf.shape(ids)[1], 0)]])
        prompt = tf.pad(prompt, [[0, 0], [0, tf.shape(ids)[1] - tf.shape(prompt)[1]]])
        return self.tokenizer.detokenize(tf.where(prompt != PAD_ID, prompt, ids)), scores

    def _search(self, options):
        """Returns the ids with those of the prompts, `(rows, length)`, and the scores."""
        ordinary = partial(self._search_ordinary, options)
        if not self._compiled:
            return ordinary()
        rows, longest = tf.shape(options.max_length)[0], tf.reduce_max(options.max_length)
        fits = [(rows <= most) & (longest <= length) for (most, length), _ in self._compiled]
        branches = [partial(_run_padded, *each, options) for each in self._compiled]
        return tf.switch_case(tf.argmax([*fits, True], output_type=tf.int32), [*branches, ordinary])

    def _search_ordinary(self, options):
        decoder = IncrementalDecoder(self.model, self.beam_size)
        found = beam_search(
            decoder,
            decoder.start(tf.shape(options.max_length)[0]),
            beam_size=self.beam_size,
            begin_id=BEGIN_ID,
            end_ids=self._end_ids,
            options=options,
            suppressed_ids=SUPPRESSED_IDS,
        )
        return found.ids[:, 0], found.scores[:, 0]

    def _compile(self, shape):
        """Returns the search for batches that are padded to a shape, a `tf.function`."""
        rows, length = shape

        def search(max_length, length_penalty, beam_size, prefix):
            options = SearchOptions(max_length, length_penalty, beam_size, prefix=prefix)
            decoder = StaticDecoder(self.model, self.beam_size, length + 1)  # with the end
            found = static_search(
                decoder,
                decoder.start(rows),
                beam_size=self.beam_size,
                end_ids=self._end_ids,
                options=options,
            )
            return found.ids[:, 0], found.scores[:, 0]

        return tf.function(
            search,
            input_signature=[
                tf.TensorSpec([rows], tf.int32),
                tf.TensorSpec([rows], tf.float32),
                tf.TensorSpec([rows], tf.int32),
                tf.TensorSpec([rows, length + 1], tf.int32),
            ],
            autograph=False,
            jit_compile=True,
        )


def _run_padded(shape, search, options):
    """Runs a compiled search; the rows that are added have no tokens."""
    rows, length = shape
    given = tf.shape(options.max_length)[0]
    ids, scores = search(
        pad_to(options.max_length, (rows,)),
        pad_to(options.length_penalty, (rows,)),
        tf.maximum(pad_to(options.beam_size, (rows,)), 1),
        pad_to(options.prefix[:, : length + 1], (rows, length + 1)),
    )
    return ids[:given], scores[:given]

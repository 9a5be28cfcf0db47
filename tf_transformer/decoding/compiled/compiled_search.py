"""Searches that XLA compiles, for a few numbers of rows and source lengths.

A compiled search runs without TensorFlow's overhead for each operation, which is most of the time
of small models and small batches. XLA compiles for fixed shapes, a few seconds each, when a search
is first run. So there is one for each of a few shapes, to which smaller batches are padded; other
batches take the ordinary search.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import keras
import tensorflow as tf

from tf_transformer.decoding.compiled.search_shapes import SearchShape
from tf_transformer.decoding.compiled.static_search import (
    StaticDecoder,
    StaticDraftDecoder,
    static_search,
)
from tf_transformer.decoding.drafts.draft_decoder import has_draft_heads
from tf_transformer.decoding.ensemble_decoder import make_decoder
from tf_transformer.decoding.search_interface import Hypotheses, SearchOptions
from tf_transformer.decoding.search_options import SEARCH_OPTIONS
from tf_transformer.decoding.translation_options import TranslationOptions
from tf_transformer.models.ensemble import Ensemble
from tf_transformer.models.transformer import Transformer
from tf_transformer.shortlists.candidates import Candidates, Shortlist
from tf_transformer.text.special_ids import END_ID, PAD_ID

# A server that lacks the flag refuses to compile a function, and reports the name of the node that
# calls it; not the function's own.
_NAME_OF_CALLS = "needs_the_flag_xla_cpu_compilation_enabled"
# Longer vectors, such as the biases of logits, stay variables.
_LARGEST_CONSTANT = 2**14


class CompiledSearch:
    """The compiled searches of a model, whose weights must not change.

    Args:
        model: the model.
        beam_size: width of the beam.
        end_ids: tokens that end an output.
        limits: for each shape to compile for, the largest number of tokens of an output.
        search_options: computes the `SearchOptions` of a batch from its ids, `TranslationOptions`
            and prefixes.
        shortlist: finds the candidates of a batch, or None.
    """

    def __init__(
        self,
        model: Transformer | Ensemble,
        beam_size: int,
        end_ids: Sequence[int],
        limits: Mapping[SearchShape, int],
        search_options: Callable[..., SearchOptions],
        shortlist: Shortlist | None = None,
    ):
        self._model, self._beam_size, self._end_ids = model, beam_size, tuple(end_ids)
        self._shortlist = shortlist
        self._search_options = search_options
        # The first one that is large enough is taken.
        by_size = sorted(limits.items(), key=lambda item: (math.prod(item[0]), item))
        self._searches = [self._compile(shape, limit) for shape, limit in by_size]

    def run(
        self,
        ids: tf.Tensor,
        num_best: tf.Tensor,
        options: Any,
        prefix: tf.Tensor | None,
        candidates: Candidates | None,
        ordinary: Callable[[], Hypotheses],
    ) -> Hypotheses:
        """Runs the smallest compiled search that is large enough, or the ordinary one.

        Args:
            ids: `(batch, length)`, the result of `end_and_pad`.
            num_best: `()` int32.
            options: `TranslationOptions`, or None. Batches with `no_repeat_ngram` or
                `coverage_penalty` take the ordinary search.
            prefix: `(batch, length)` ids padded with 0, or indices of candidates, or None.
            candidates: the target ids to consider, or None for all.
            ordinary: searches without XLA.

        Returns:
            As `beam_search`.
        """
        fits = tf.concat([self._fits(ids, options, prefix, candidates), [True]], axis=0)
        first = tf.argmax(fits, output_type=tf.int32)
        branches = [
            partial(_run_padded, search, ids, num_best, options, prefix, candidates)
            for search in self._searches
        ]
        return tf.switch_case(first, [*branches, ordinary])

    def _fits(self, ids, options, prefix, candidates):
        """Returns whether each search can translate a batch, `(searches,)` bool."""
        shapes, limits, counts, _ = zip(*self._searches, strict=True)
        most_rows, longest = zip(*shapes, strict=True)
        size = tf.shape(ids)
        fits = (size[0] >= 1) & (size[0] <= most_rows) & (size[1] <= longest)
        if prefix is not None:
            lengths = tf.math.count_nonzero(prefix != PAD_ID, axis=1, dtype=tf.int32)
            fits &= tf.reduce_max(lengths) <= limits
        if options is not None:
            fits &= options.without_history() & (tf.reduce_max(options.max_length) <= limits)
        if candidates is not None:  # a prefix adds some
            fits &= tf.size(candidates.ids) <= counts
        return fits

    def _compile(self, shape, limit):
        """Returns a shape, its largest output and number of candidates, and the function."""
        count = 0 if self._shortlist is None else self._shortlist.largest_count(*shape)
        return shape, limit, count, self._make_function(shape, limit, count)

    def _make_function(self, shape, limit, count):
        """Returns the search for one shape, a `tf.function`."""
        num_steps = limit + 1  # with the end
        end_ids = self._end_ids if self._shortlist is None else self._shortlist.end_indices

        def search_padded(num_best, ids, prefix, options, *given):
            candidates = Candidates(*given) if given else None
            is_begin = tf.range(shape.length) == 0
            ids = tf.where(is_begin & (ids == PAD_ID), END_ID, ids)  # sources that were added
            search_options = self._search_options(ids, options, prefix)
            search_options = search_options._replace(no_repeat_ngram=None, coverage_penalty=None)
            with keras.StatelessScope(state_mapping=_vectors_as_constants(self._model)):
                if self._beam_size == shape.rows == 1 and has_draft_heads(self._model):
                    decoder: Any = StaticDraftDecoder(self._model, limit, candidates)
                else:
                    decoder = make_decoder(
                        self._model,
                        lambda model: StaticDecoder(model, self._beam_size, num_steps, candidates),
                    )
                mask = self._model.source_mask(ids)
                state = decoder.start(shape.rows, self._model.encode(ids), mask)
                return static_search(
                    decoder,
                    state,
                    beam_size=self._beam_size,
                    end_ids=end_ids,
                    options=search_options,
                    num_best=num_best,
                )

        candidates = []
        if self._shortlist is not None:
            candidates.append(tf.TensorSpec([count], tf.int32))
            candidates.append(tf.TensorSpec([shape.rows, count], tf.bool))
        return tf.function(
            search_padded,
            input_signature=[
                tf.TensorSpec([], tf.int32),
                tf.TensorSpec(shape, tf.int32),
                tf.TensorSpec([shape.rows, num_steps], tf.int32),
                TranslationOptions(
                    *(tf.TensorSpec([shape.rows], option.dtype) for option in SEARCH_OPTIONS)
                ),
                *candidates,
            ],
            autograph=False,
            jit_compile=True,
        )


def _vectors_as_constants(model):
    """Returns the biases and the weights of norms, with constants that hold their values.

    Each variable that a compiled function reads costs every call some microseconds, and these are
    most of a model's variables.
    """
    vectors = [
        weight
        for weight in model.weights
        if len(weight.shape) == 1 and weight.shape[0] <= _LARGEST_CONSTANT
    ]
    with tf.init_scope():  # outside the graph that is traced
        values = [weight.numpy() for weight in vectors]
    return [(weight, tf.constant(value)) for weight, value in zip(vectors, values, strict=True)]


def _run_padded(search, ids, num_best, options, prefix, candidates):
    """Runs a search with a batch that is padded to its shape."""
    shape, limit, count, function = search
    rows = tf.shape(ids)[0]
    if options is None:
        options = TranslationOptions.defaults(shape.rows)
    else:
        options = TranslationOptions(*(pad_to(option, shape[:1]) for option in options))
    if prefix is None:
        prefix = tf.zeros((shape.rows, limit + 1), tf.int32)
    else:
        prefix = pad_to(prefix[:, :limit], (shape.rows, limit + 1))  # the rest is padding
    arguments = [num_best, pad_to(ids, shape), prefix, options]
    if candidates is not None:
        is_added = tf.range(shape.rows)[:, tf.newaxis] >= rows  # such rows need candidates, too
        allowed = pad_to(candidates.allowed, (shape.rows, count)) | is_added
        arguments += [pad_to(candidates.ids, (count,)), allowed]
    with tf.name_scope(_NAME_OF_CALLS):
        found = Hypotheses(*function(*arguments))
    if shape.rows > 1:
        found = Hypotheses(*(part[:rows] for part in found))
    return found._replace(ids=found.ids[:, :, : tf.reduce_max(found.lengths)])


def pad_to(array: tf.Tensor, shape: Sequence[int]) -> tf.Tensor:
    """Pads an array to a shape with zeros or False."""
    missing = tf.constant(shape) - tf.shape(array)
    padded = tf.pad(array, tf.stack([tf.zeros_like(missing), missing], axis=1))
    return tf.ensure_shape(padded, shape)
